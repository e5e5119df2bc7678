import { CfnDeletionPolicy, CfnResource, Duration, RemovalPolicy } from 'aws-cdk-lib';
import { BlockPublicAccess, Bucket, BucketEncryption, ObjectOwnership } from 'aws-cdk-lib/aws-s3';
import type { Construct, IConstruct } from 'constructs';
import { explain } from './explain.js';

/** What the names of the objects begin with. */
export const DEFERRAL_PREFIX = 'deferral';

/**
 * Where mail is put aside under pressure. It outlives the stack, since what is in it may be mail that
 * nothing else holds; so its name is not ours, which would stand in the next stack's way.
 */
export function deferralBucket(scope: Construct): Bucket {
  const bucket = new Bucket(scope, 'DeferralBucket', {
    encryption: BucketEncryption.S3_MANAGED,
    blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
    objectOwnership: ObjectOwnership.BUCKET_OWNER_ENFORCED,
    enforceSSL: true,
    removalPolicy: RemovalPolicy.RETAIN,
    // Of mail nothing expires.
    lifecycleRules: [
      { id: 'progress', prefix: `${DEFERRAL_PREFIX}/progress/`, expiration: Duration.days(30) },
      { id: 'parts', abortIncompleteMultipartUploadAfter: Duration.days(1) },
    ],
  });
  keep(bucket.node.defaultChild);
  keep(bucket.policy?.node.defaultChild);
  explain(bucket, 'AwsSolutions-S1', 'Two roles alone reach it, and CloudTrail\'s data events tell of that where it is asked '
    + 'for; a log of every access would need a bucket of its own.');
  return bucket;
}

/** But for a first deploy that fails: there is no mail in it yet. */
function keep(child: IConstruct | undefined): void {
  if (!CfnResource.isCfnResource(child)) return;
  child.cfnOptions.deletionPolicy = CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE;
  child.cfnOptions.updateReplacePolicy = CfnDeletionPolicy.RETAIN;
}
