import { Aws, CfnResource } from 'aws-cdk-lib';
import { Effect, PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { CfnSubscription, Topic } from 'aws-cdk-lib/aws-sns';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { tidegateQueue } from './queues.js';

/**
 * Receipts that say something of the list; the others count nowhere.
 * https://docs.aws.amazon.com/sms-voice/latest/userguide/configuration-sets-event-types.html
 */
const RECEIPTS = [
  'TEXT_INVALID', 'TEXT_UNREACHABLE', 'TEXT_BLOCKED', 'TEXT_SPAM', 'TEXT_CARRIER_BLOCKED', 'TEXT_CARRIER_UNREACHABLE',
];

/** Delivery receipts of texts, on their way to a queue that the scheduler reads. */
export class Receipts extends Construct {
  /** The configuration set of texts that name none. */
  readonly configurationSet: CfnResource;
  /** Where a receipt waits as AWS gives it, with the recipient's phone number. */
  readonly queue: Queue;

  constructor(scope: Construct, name: string) {
    super(scope, 'Feedback');
    this.queue = tidegateQueue(this, 'Queue', `${name}-feedback`);
    // End User Messaging writes to no queue itself. Without a key: it may not use SNS's own.
    const topic = new Topic(this, 'Topic', { topicName: `${name}-receipts`, enforceSSL: true });
    const written = topic.addToResourcePolicy(new PolicyStatement({
      sid: 'Receipts',
      effect: Effect.ALLOW,
      principals: [new ServicePrincipal('sms-voice.amazonaws.com')],
      actions: ['sns:Publish'],
      resources: [topic.topicArn],
      conditions: {
        StringEquals: { 'aws:SourceAccount': Aws.ACCOUNT_ID },
        ArnEquals: { 'aws:SourceArn': smsVoice(`configuration-set/${name}`) },
      },
    }));
    this.queue.addToResourcePolicy(new PolicyStatement({
      sid: 'Feedback',
      effect: Effect.ALLOW,
      principals: [new ServicePrincipal('sns.amazonaws.com')],
      actions: ['sqs:SendMessage'],
      resources: [this.queue.queueArn],
      conditions: { ArnEquals: { 'aws:SourceArn': topic.topicArn } },
    }));
    new CfnSubscription(this, 'Subscription', {
      topicArn: topic.topicArn, protocol: 'sqs', endpoint: this.queue.queueArn, rawMessageDelivery: true,
    });
    // By its type: the oldest library that is supported has no class for it.
    this.configurationSet = new CfnResource(this, 'ConfigurationSet', {
      type: 'AWS::SMSVOICE::ConfigurationSet',
      properties: {
        ConfigurationSetName: name,
        EventDestinations: [{
          EventDestinationName: 'feedback',
          Enabled: true,
          MatchingEventTypes: RECEIPTS,
          SnsDestination: { TopicArn: topic.topicArn },
        }],
      },
    });
    this.configurationSet.node.addDependency(written.policyDependable!);
  }
}

/** A resource of AWS End User Messaging, in this account and region. */
export function smsVoice(resource: string): string {
  return `arn:${Aws.PARTITION}:sms-voice:${Aws.REGION}:${Aws.ACCOUNT_ID}:${resource}`;
}
