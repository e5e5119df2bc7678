import type { SecretValue } from 'aws-cdk-lib';
import type { ISecurityGroup, IVpc, SubnetSelection } from 'aws-cdk-lib/aws-ec2';

/** A Valkey or Redis in which other software that sends from the account takes its sends too. */
export interface SharedBucket {
  /**
   * Where it is, such as `rediss://user:password@host:6379`; best as a secret. It stands in the
   * poller's environment: who may read the function's configuration reads it.
   */
  readonly url: string | SecretValue;

  /**
   * While the shared bucket does not answer, `closed` sends nothing, and `open` sends by the slot grid
   * alone, whatever the others send.
   * @default 'closed'
   */
  readonly lost?: 'closed' | 'open';

  /**
   * The beginning of the shared bucket's keys: `{tidegate}:account`, `{tidegate}:domain:gmail.com`.
   * 1 to 32 letters, digits, _, . and -.
   * @default 'tidegate'
   */
  readonly prefix?: string;

  /**
   * The VPC that the poller is put into to reach it. From there the poller must reach SQS, DynamoDB
   * and SES too, and S3 with `deferral`.
   * @default - none
   */
  readonly vpc?: IVpc;

  /**
   * Its subnets that the poller is put into.
   * @default - the private ones
   */
  readonly subnets?: SubnetSelection;

  /**
   * The poller's security groups.
   * @default - one of its own, that lets everything out
   */
  readonly securityGroups?: ISecurityGroup[];
}
