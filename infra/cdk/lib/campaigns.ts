import { CfnDeletionPolicy, Duration, RemovalPolicy, Tags } from 'aws-cdk-lib';
import { Alarm, ComparisonOperator, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import { Queue, QueueEncryption, type CfnQueue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { explainQueue } from './explain.js';
import type { Campaign } from './props.js';
import { TEMPLATE } from './template.js';
import { checkCampaign, checkName, demand } from './validate.js';

/** Those of the template's own campaigns. */
const LIKE = TEMPLATE.Resources.FirstCampaignQueue!.Properties;

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
    const { tidegate, campaign, priority, ageAlarmSeconds = 864_000 } = props;
    checkName(tidegate);
    checkCampaign(campaign, tidegate, 'campaign');
    const aged = Number.isInteger(ageAlarmSeconds) && ageAlarmSeconds >= 60 && ageAlarmSeconds <= 1_209_599;
    demand(aged, 'ageAlarmSeconds', ageAlarmSeconds, 'a whole number from 60 to 1209599');
    demand([undefined, 'critical', 'high', 'low'].includes(priority), 'priority', priority, 'critical, high or low');
    const name = priority === undefined ? campaign.name : `${campaign.name}-${priority}`;
    this.queue = new Queue(this, 'Queue', {
      queueName: `${tidegate}-campaign-${name}`,
      visibilityTimeout: Duration.seconds(LIKE.VisibilityTimeout),
      retentionPeriod: Duration.seconds(LIKE.MessageRetentionPeriod),
      encryption: QueueEncryption.SQS_MANAGED,
      enforceSSL: true,
    });
    const made = this.queue.node.defaultChild as CfnQueue;
    // Not by the prop, which older libraries refuse above 256 KiB: SQS's own limit before it was 1 MiB.
    made.maximumMessageSize = LIKE.MaximumMessageSize;
    this.queue.applyRemovalPolicy(props.removalPolicy ?? RemovalPolicy.DESTROY);
    // One that was replaced is kept in any case.
    made.cfnOptions.updateReplacePolicy = CfnDeletionPolicy.RETAIN;
    explainQueue(this.queue);
    const own = priority === undefined ? { weight: String(campaign.weight), tenant: campaign.tenant } : { priority };
    for (const [key, value] of Object.entries({ campaign: campaign.name, ...own })) {
      if (value !== undefined) Tags.of(this.queue).add(`tidegate:${key}`, value, { includeResourceTypes: ['AWS::SQS::Queue'] });
    }
    if (props.alarm === false) return;
    this.ageAlarm = new Alarm(this, 'Age', {
      alarmName: `${tidegate}-age-${name}`,
      alarmDescription: `A message in the ${name} campaign's queue is ageAlarmSeconds old, and SQS drops it at 14 days. See what `
        + 'holds or slows its sending (alarms held and blocked, the dashboard), or move it to another queue.',
      metric: this.queue.metricApproximateAgeOfOldestMessage({ statistic: 'Maximum', period: Duration.minutes(5) }),
      threshold: ageAlarmSeconds,
      evaluationPeriods: 1,
      comparisonOperator: ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
      treatMissingData: TreatMissingData.NOT_BREACHING,
      actionsEnabled: true,
    });
    if (props.alarmTopic === undefined) return;
    this.ageAlarm.addAlarmAction(new SnsAction(props.alarmTopic));
    this.ageAlarm.addOkAction(new SnsAction(props.alarmTopic));
  }
}
