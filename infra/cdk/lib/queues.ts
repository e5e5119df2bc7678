import { CfnDeletionPolicy, CfnResource, Duration, RemovalPolicy, Tags } from 'aws-cdk-lib';
import type { Resource } from 'aws-cdk-lib';
import type { Alarm } from 'aws-cdk-lib/aws-cloudwatch';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import { DeduplicationScope, FifoThroughputLimit, Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import type { CfnQueue, QueueProps } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { agedMail, ageAlarm } from './alarm.js';
import { explain } from './explain.js';
import type { Campaign } from './props.js';
import { campaignQueueName, checkCampaign, checkName, checkPriority, checkRange } from './validate.js';

/** Attributes and metadata of ours always fit beside a body of the size that is left. */
const LARGEST_MAIL_BYTES = 1_032_192;

/** A queue with what every queue of Tidegate has. */
export function tidegateQueue(scope: Construct, id: string, name: string, props: QueueProps = {}): Queue {
  const queue = new Queue(scope, id, {
    queueName: name,
    // Above the poller's timeout of 15: a mail must not come back while it is sent.
    visibilityTimeout: Duration.seconds(30),
    retentionPeriod: Duration.days(14),
    encryption: QueueEncryption.SQS_MANAGED,
    enforceSSL: true,
    ...props,
  });
  explain(queue, 'AwsSolutions-SQS3', 'No queue of Tidegate has a redrive policy: a mail that waits for its slot is received '
    + 'many times, and must never drift into a dead-letter queue. The poller itself moves what '
    + 'cannot be sent to the dead-letter queue, with its reason; an alarm tells of it.');
  return queue;
}

/** A queue that producers put mails on. */
export function mailQueue(scope: Construct, id: string, name: string, removal: RemovalPolicy): Queue {
  const queue = tidegateQueue(scope, id, name);
  // Not by the prop, which older libraries refuse above 256 KiB: SQS's own limit before it was 1 MiB.
  (queue.node.defaultChild as CfnQueue).maximumMessageSize = LARGEST_MAIL_BYTES;
  return withRemoval(queue, removal);
}

/** The merge queue: high throughput, so that a group of messages is one message. */
export function mergeQueue(scope: Construct, id: string, name: string, removal: RemovalPolicy): Queue {
  const queue = tidegateQueue(scope, id, `${name}.fifo`, {
    fifo: true,
    deduplicationScope: DeduplicationScope.MESSAGE_GROUP,
    fifoThroughputLimit: FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
  });
  return withRemoval(queue, removal);
}

/**
 * The queue of a group of recipient domains. It has no largest size of its own: a mail moves there with
 * our attributes.
 */
export function limitQueue(scope: Construct, group: number, name: string, removal: RemovalPolicy): Queue {
  const queue = tidegateQueue(scope, `LimitQueue${group}`, name);
  Tags.of(queue).add('tidegate:domains', String(group), { includeResourceTypes: ['AWS::SQS::Queue'] });
  return withRemoval(queue, removal);
}

/** What becomes of it when it leaves the stack; one that was replaced is kept in any case. */
export function withRemoval<T extends Resource>(resource: T, policy: RemovalPolicy): T {
  resource.applyRemovalPolicy(policy);
  const child = resource.node.defaultChild;
  if (CfnResource.isCfnResource(child)) {
    child.cfnOptions.updateReplacePolicy = CfnDeletionPolicy.RETAIN;
  }
  return resource;
}

/** One campaign's queue. */
export interface CampaignQueueProps {
  /**
   * The name of the Tidegate that sends its mails (`Tidegate.name`).
   */
  readonly tidegate: string;

  /** Its name and weight. */
  readonly campaign: Campaign;

  /**
   * Makes a priority queue of the campaign: `critical`, `high` or `low`. The campaign has its own queue beside.
   * @default - the campaign's own queue
   */
  readonly priority?: string;

  /**
   * Where its alarm goes: `Tidegate.alarmTopic`.
   * @default - nowhere
   */
  readonly alarmTopic?: ITopic;

  /**
   * Age of the queue's oldest message that alarms, in seconds: 60 to 1,209,599.
   * @default 864000 - ten days
   */
  readonly ageAlarmSeconds?: number;

  /**
   * Whether there is an alarm on the age of the queue's oldest message.
   * @default true
   */
  readonly alarm?: boolean;

  /**
   * What becomes of the queue, and the mails in it, when it leaves the stack.
   * @default RemovalPolicy.DESTROY
   */
  readonly removalPolicy?: RemovalPolicy;
}

/**
 * A campaign's queue, its weight as a tag, and an alarm on its age. A `Tidegate` makes those of
 * its `campaigns`; with `campaignList: 'tags'` any stack of the account and region can make more.
 */
export class CampaignQueue extends Construct {
  /** The queue. */
  readonly queue: Queue;
  /** The alarm on the age of its oldest message, if there is one. */
  readonly ageAlarm?: Alarm;

  constructor(scope: Construct, id: string, props: CampaignQueueProps) {
    super(scope, id);
    const { tidegate, campaign, ageAlarmSeconds = 864_000 } = props;
    checkName(tidegate);
    checkCampaign(campaign, tidegate, 'campaign');
    checkRange('ageAlarmSeconds', ageAlarmSeconds, 60, 1_209_599, true);
    const { priority } = props;
    checkPriority(priority);
    const name = priority === undefined ? campaign.name : `${campaign.name}-${priority}`;
    this.queue = mailQueue(
      this, 'Queue', campaignQueueName(tidegate, name), props.removalPolicy ?? RemovalPolicy.DESTROY,
    );
    const own = {
      'tidegate:weight': String(campaign.weight),
      ...(campaign.tenant === undefined ? {} : { 'tidegate:tenant': campaign.tenant }),
    };
    const tags = {
      'tidegate:campaign': campaign.name,
      ...(priority === undefined ? own : { 'tidegate:priority': priority }),
    };
    for (const [key, value] of Object.entries(tags)) {
      Tags.of(this.queue).add(key, value, { includeResourceTypes: ['AWS::SQS::Queue'] });
    }
    if (props.alarm === false) return;
    this.ageAlarm = ageAlarm(this, 'Age', {
      name: `${tidegate}-age-${name}`,
      description: agedMail(`the ${name} campaign's queue`),
      queue: this.queue,
      seconds: ageAlarmSeconds,
      topic: props.alarmTopic,
    });
  }
}
