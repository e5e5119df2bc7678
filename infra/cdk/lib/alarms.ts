import { Duration } from 'aws-cdk-lib';
import { Alarm, ComparisonOperator, Metric, Stats, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { agedMail, ageAlarm, alarm } from './alarm.js';
import type { OwnAlarmProps } from './alarm.js';
import type { TidegateMetrics } from './metrics.js';
import type { Settings } from './settings.js';

const ONE_MINUTE = { period: Duration.minutes(1) };
const FIVE_MINUTES = { period: Duration.minutes(5) };

/** What is watched. */
export interface AlarmsProps {
  readonly settings: Settings;
  readonly metrics: TidegateMetrics;
  readonly topic: ITopic;
  readonly scheduler: IFunction;
  readonly poller: IFunction;
  readonly deadLetterQueue: Queue;
  readonly mergeQueue: Queue;
  readonly expressQueue: Queue;
  readonly limitQueues: Queue[];
  /** The alarms on the campaigns' ages, which stand at their queues. */
  readonly campaignAges: Readonly<Record<string, Alarm>>;
}

/** Those on metrics of AWS that are there with `alarms: 'few'`, too. */
const FEW = [
  'dead-letters', 'minute-missed', 'poller-errors', 'scheduler-errors', 'poller-throttles', 'bounce-rate',
  'complaint-rate',
];

type Own = Omit<OwnAlarmProps, 'alarmName' | 'alarmDescription'>;

/** The alarms of a Tidegate. */
export class Alarms extends Construct {
  /** By their names without the Tidegate's. */
  readonly byName: Readonly<Record<string, Alarm>>;

  private readonly made: Record<string, Alarm> = {};

  constructor(scope: Construct, private readonly props: AlarmsProps) {
    super(scope, 'Alarms');
    this.byName = this.made;
    const { alarms, channel, deferral, sharedBucket, limits } = props.settings;
    this.sending();
    if (alarms === 'all') this.ages();
    this.scheduling();
    this.functions();
    this.mails();
    if (channel === 'email') this.reputation();
    this.pressure();
    if (deferral) this.deferral();
    if (sharedBucket !== undefined) this.sharedBucket();
    if (alarms === 'all' && limits !== undefined) this.domains();
  }

  private sending(): void {
    const { metrics, deadLetterQueue } = this.props;
    this.add('refusals', 'AWS refused messages as over the rate. Look for others who send in this '
      + 'account and region, and set quotaPerSecond to what is left for Tidegate; if there are none, '
      + 'raise rateMargin.', {
      metric: metrics.metricRefused(FIVE_MINUTES), threshold: 10,
    });
    this.add('dead-letters', 'Messages are in the dead-letter queue. Read last_error of its messages, mend '
      + 'the cause, and send them again or delete them.', {
      metric: deadLetterQueue.metricApproximateNumberOfMessagesVisible({
        ...FIVE_MINUTES, statistic: Stats.MAXIMUM,
      }),
      threshold: 1,
    });
    this.add('held', 'All sending, or a campaign, is held. The scheduler\'s log names the hold and its '
      + 'reason; mend that and lift the hold. Holds of the account and of the daily quota lift '
      + 'themselves.', {
      metric: metrics.metricHolds(ONE_MINUTE), threshold: 1, evaluationPeriods: 2,
    });
    this.add('blocked', 'The circuit breaker blocks: too many sends failed. Look at the poller\'s log '
      + 'and at AWS\'s health; the breaker probes, and goes on by itself once AWS accepts.', {
      metric: metrics.metricBlockedWindows(ONE_MINUTE), threshold: 1,
    });
  }

  private ages(): void {
    const { deadLetterQueue, mergeQueue, expressQueue, campaignAges } = this.props;
    Object.assign(this.made, campaignAges);
    const unless = (setting: string) => ` If ${setting} nobody takes from it.`;
    this.age('express', expressQueue, agedMail('the express queue', unless('expressQueue is false')));
    this.age('merge', mergeQueue, agedMail('the merge queue', unless('mode is direct')));
    this.age('dead-letter', deadLetterQueue, 'A dead letter has waited for ageAlarmSeconds, and SQS '
      + 'drops it when it is 14 days old. Send it again, or save it elsewhere.');
  }

  private scheduling(): void {
    const { metrics, scheduler, settings } = this.props;
    this.add('minute-missed', 'The scheduler did not run for two minutes of three: nothing is sent. '
      + 'Look at the rule that starts it (is it enabled?) and at its errors and throttles. Just after '
      + 'the first deploy it means nothing.', {
      metric: scheduler.metricInvocations({ ...ONE_MINUTE, statistic: Stats.SUM }),
      threshold: 1,
      comparisonOperator: ComparisonOperator.LESS_THAN_THRESHOLD,
      evaluationPeriods: 3,
      datapointsToAlarm: 2,
      treatMissingData: TreatMissingData.BREACHING,
      actionsEnabled: settings.schedule === 'ENABLED',
    });
    this.add('ticks-failed', 'Ticks could not be issued, and their seconds send nothing. Look at the '
      + 'scheduler\'s log: throttled pollers need more concurrency (reservedConcurrency, or the '
      + 'account\'s).', {
      metric: metrics.metricTicksFailed(FIVE_MINUTES), threshold: 10,
    });
    this.add('quota-unknown', 'AWS did not tell the quota; the last known one is used, or else '
      + 'quotaPerSecond, or else nothing is sent. Look at the scheduler\'s log and at AWS\'s health.', {
      metric: metrics.metricQuotaUnknown(FIVE_MINUTES), threshold: 3,
    });
    this.add('ledger', 'Pollers cannot reach the ledger table, and so send nothing. Look at the '
      + 'poller\'s log and at the table (does it exist, is it throttled?).', {
      metric: metrics.metricLedgerFailed(ONE_MINUTE), threshold: 3,
    });
  }

  private functions(): void {
    const { poller, scheduler } = this.props;
    const sum = { ...ONE_MINUTE, statistic: Stats.SUM };
    this.add('poller-errors', 'Pollers fail. Their log says why; the ticks that failed are in the '
      + 'failed-invocations queue.', {
      metric: poller.metricErrors(sum), threshold: 3,
    });
    this.add('scheduler-errors', 'The scheduler fails, and a minute may pass unsent. Its log says why.', {
      metric: scheduler.metricErrors(sum), threshold: 1,
    });
    this.add('poller-throttles', 'Pollers are throttled, and their seconds send nothing. Raise '
      + 'reservedConcurrency, or ask AWS for more concurrent executions.', {
      metric: poller.metricThrottles(sum), threshold: 1,
    });
    this.add('scheduler-throttles', 'The scheduler is throttled, and a minute may pass unsent. Ask AWS '
      + 'for more concurrent executions, or let other functions use fewer.', {
      metric: scheduler.metricThrottles(sum), threshold: 1,
    });
  }

  private mails(): void {
    this.add('receive-count', 'A message was received more than 100 times and not sent. The poller\'s log '
      + 'names it; see whether it needs more slots than the quota gives, or fails each time.', {
      metric: this.props.metrics.metricHighestReceiveCount(FIVE_MINUTES),
      threshold: 100,
      comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
    });
  }

  private reputation(): void {
    const metric = (metricName: string) => new Metric({
      namespace: 'AWS/SES', metricName, statistic: Stats.AVERAGE, period: Duration.hours(1),
    });
    this.add('bounce-rate', '5 % of the account\'s mails bounce; SES reviews an account at 5 % and may '
      + 'pause it at 10 %. Hold the campaign that bounces (the dashboard\'s feedback) and clean its '
      + 'list.', {
      metric: metric('Reputation.BounceRate'), threshold: 0.05,
    });
    this.add('complaint-rate', '0.1 % of the account\'s mails are complained about; SES reviews an '
      + 'account at 0.1 % and may pause it at 0.5 %. Hold the campaign (the dashboard\'s feedback) '
      + 'and see who is written to, and why.', {
      metric: metric('Reputation.ComplaintRate'), threshold: 0.001,
    });
  }

  private pressure(): void {
    const metric = this.props.metrics.metricBackPressureLevel(FIVE_MINUTES);
    this.add('busy', 'The stack has been busy for an hour: messages wait long, or AWS refuses many. '
      + 'See what fills the queues or slows their sending (tidegate status, the dashboard); with deferral '
      + 'on, messages of priority low are put aside meanwhile, and come back by themselves unless '
      + 'deferralReplay is off.', {
      metric, threshold: 1, evaluationPeriods: 12,
    });
    this.add('overloaded', 'The stack is overloaded: messages wait for days, or AWS refuses many. Ask '
      + 'AWS for a higher quota, or let producers send less (tidegate status tells the level); with deferral '
      + 'on, messages of priority normal are put aside too.', {
      metric, threshold: 2, evaluationPeriods: 3,
    });
    this.add('backlog-grows', 'More messages come than the quota lets go: the backlog has grown for an '
      + 'hour by more than a tenth of what can be sent in it. See which queue grows (tidegate status) and what '
      + 'slows sending (tidegate top), then ask AWS for a higher quota, or let producers send less.', {
      metric: this.props.metrics.metricBacklogGrows(FIVE_MINUTES), threshold: 1,
    });
  }

  private deferral(): void {
    const { metrics } = this.props;
    this.add('deferral-failed', 'Messages could not be put aside into the deferral bucket: they stay on their '
      + 'queues. Look at the poller\'s log and at the bucket (does it exist, may the poller write, is there '
      + 'a way to S3 from subnetIds?).', {
      metric: metrics.metricDeferralFailed(FIVE_MINUTES), threshold: 1,
    });
    this.add('replay-failed', 'What was put aside could not be brought back for 45 minutes: it stays in '
      + 'the deferral bucket. Look at the scheduler\'s log; tidegate deferred replay tries by hand.', {
      metric: metrics.metricDeferralReplayFailed({ period: Duration.minutes(15) }),
      threshold: 1,
      evaluationPeriods: 3,
    });
  }

  private sharedBucket(): void {
    const { metrics } = this.props;
    this.add('bucket-lost', 'The shared bucket does not answer: with sharedBucketLost closed nothing is '
      + 'sent, with open all is, whatever the others send. Look at the server, at its security group, '
      + 'and at the poller\'s log.', {
      metric: metrics.metricBucketLost(ONE_MINUTE), threshold: 3,
    });
    this.add('bucket-refused', 'For an hour the shared bucket has refused sends all the time: the other '
      + 'software takes what Tidegate would send. See who takes from it, let them take less, or '
      + 'ask AWS for a higher quota.', {
      metric: metrics.metricBucketRefused(FIVE_MINUTES), threshold: 1, evaluationPeriods: 12,
    });
  }

  private domains(): void {
    const { settings, topic, limitQueues } = this.props;
    limitQueues.forEach((queue, index) => {
      const name = `domain-age-${index + 1}`;
      this.made[name] = ageAlarm(this, name, {
        name: `${settings.name}-${name}`,
        description: `A message that waits for group ${index + 1} of limits (* comes after the others) `
          + 'is ageAlarmSeconds old, and SQS drops it at 14 days. Raise the group\'s limit, or see what holds '
          + 'all sending (alarms held and blocked).',
        queue,
        seconds: settings.ageAlarmSeconds,
        topic,
      });
    });
  }

  private age(of: string, queue: Queue, description: string): void {
    const { settings, topic } = this.props;
    this.made[`age-${of}`] = ageAlarm(this, `age-${of}`, {
      name: `${settings.name}-age-${of}`, description, queue, seconds: settings.ageAlarmSeconds, topic,
    });
  }

  private add(name: string, alarmDescription: string, own: Own): void {
    const { alarms, name: of } = this.props.settings;
    if (alarms === 'few' && !FEW.includes(name)) return;
    const alarmName = `${of}-${name}`;
    this.made[name] = alarm(this, name, this.props.topic, { alarmName, alarmDescription, ...own });
  }
}
