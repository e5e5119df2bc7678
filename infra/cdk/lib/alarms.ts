import { Duration } from 'aws-cdk-lib';
import { Alarm, ComparisonOperator, Metric, Stats, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { ageAlarm, alarm } from './alarm.js';
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
  readonly mergeQueue?: Queue;
  readonly expressQueue?: Queue;
}

type Own = Omit<OwnAlarmProps, 'alarmName' | 'alarmDescription'>;

/** The alarms of a Tidegate, but for those on the campaigns' ages, which stand at their queues. */
export class Alarms extends Construct {
  /** By their names without the Tidegate's. */
  readonly byName: Readonly<Record<string, Alarm>>;

  private readonly made: Record<string, Alarm> = {};

  constructor(scope: Construct, private readonly props: AlarmsProps) {
    super(scope, 'Alarms');
    this.byName = this.made;
    this.sending();
    this.queues();
    this.scheduling();
    this.functions();
    this.reputation();
  }

  private sending(): void {
    const { metrics } = this.props;
    this.add('refusals', 'SES refuses sends for the rate: other software sends with this account, or '
      + 'the quota fell. Cap the quota, or let the other software have less.', {
      metric: metrics.metricRefused(FIVE_MINUTES), threshold: 10,
    });
    this.add('held', 'A hold stands on all sending or on a campaign. The ledger table says why, and '
      + 'since when; remove the cause, then lift the hold where nobody else does.', {
      metric: metrics.metricHolds(ONE_MINUTE), threshold: 1, evaluationPeriods: 2,
    });
    this.add('blocked', 'The circuit breaker blocks: too many sends failed or were refused. It lets go '
      + 'by itself once SES answers; see the log of the poller for what SES said.', {
      metric: metrics.metricBlockedWindows(ONE_MINUTE), threshold: 1,
    });
    this.add('ledger', 'Pollers do not reach the ledger table, and send nothing meanwhile. See '
      + 'DynamoDB\'s health, the table, and the permissions of the poller.', {
      metric: metrics.metricLedgerFailed(ONE_MINUTE), threshold: 3,
    });
    this.add('receive-count', 'A message was received more than a hundred times and cannot be sent: '
      + 'the log of the poller names it. Take it out of its queue, or remove what keeps it.', {
      metric: metrics.metricHighestReceiveCount(FIVE_MINUTES),
      threshold: 100,
      comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
    });
  }

  private queues(): void {
    const { settings, topic, deadLetterQueue, mergeQueue, expressQueue } = this.props;
    this.add('dead-letters', 'Mails wait in the dead-letter queue, each with its reason. Read them, '
      + 'remove the cause, then replay or delete them.', {
      metric: deadLetterQueue.metricApproximateNumberOfMessagesVisible({
        ...FIVE_MINUTES, statistic: Stats.MAXIMUM,
      }),
      threshold: 1,
    });
    const aged = { express: expressQueue, merge: mergeQueue, 'dead-letter': deadLetterQueue };
    for (const [name, queue] of Object.entries(aged)) {
      if (queue === undefined) continue;
      const id = `age-${name}`;
      this.made[id] = ageAlarm(this, id, {
        name: `${settings.name}-${id}`, queue, seconds: settings.ageAlarmSeconds, topic,
      });
    }
  }

  private scheduling(): void {
    const { metrics, scheduler, settings } = this.props;
    this.add('minute-missed', 'The scheduler did not run in a minute, and nothing is sent without it. '
      + 'See its trigger, its errors and its throttles.', {
      metric: scheduler.metricInvocations({ ...ONE_MINUTE, statistic: Stats.SUM }),
      threshold: 1,
      comparisonOperator: ComparisonOperator.LESS_THAN_THRESHOLD,
      evaluationPeriods: 3,
      datapointsToAlarm: 2,
      treatMissingData: TreatMissingData.BREACHING,
      actionsEnabled: settings.schedule === 'ENABLED',
    });
    this.add('ticks-failed', 'The scheduler cannot start pollers: see its log, the throttles of the '
      + 'poller, and the concurrency that the account has left.', {
      metric: metrics.metricTicksFailed(FIVE_MINUTES), threshold: 10,
    });
    this.add('quota-unknown', 'SES does not tell the quota: see the log of the scheduler. Sending goes '
      + 'on at the last quota known, or at the one that is set.', {
      metric: metrics.metricQuotaUnknown(FIVE_MINUTES), threshold: 3,
    });
  }

  private functions(): void {
    const { poller, scheduler } = this.props;
    const sum = { ...ONE_MINUTE, statistic: Stats.SUM };
    const look = 'see its log. What it held is visible again after 30 s';
    this.add('poller-errors', `The poller fails: ${look}.`, {
      metric: poller.metricErrors(sum), threshold: 3,
    });
    this.add('scheduler-errors', 'The scheduler fails, and a minute without it is not sent in: see its '
      + 'log.', {
      metric: scheduler.metricErrors(sum), threshold: 1,
    });
    const raise = 'raise the account\'s concurrency, or reserve some for the poller';
    this.add('poller-throttles', `Pollers are throttled, and their windows are lost: ${raise}.`, {
      metric: poller.metricThrottles(sum), threshold: 1,
    });
    this.add('scheduler-throttles', `The scheduler is throttled, and its minute is lost: ${raise}.`, {
      metric: scheduler.metricThrottles(sum), threshold: 1,
    });
  }

  private reputation(): void {
    const pause = 'Pause the campaign that it comes from, and clean its list, before SES pauses the '
      + 'account';
    const metric = (metricName: string) => new Metric({
      namespace: 'AWS/SES', metricName, statistic: Stats.AVERAGE, period: Duration.hours(1),
    });
    this.add('bounce-rate', `The account's bounce rate is at 5 %. ${pause}.`, {
      metric: metric('Reputation.BounceRate'), threshold: 0.05,
    });
    this.add('complaint-rate', `The account's complaint rate is at 0.1 %. ${pause}.`, {
      metric: metric('Reputation.ComplaintRate'), threshold: 0.001,
    });
  }

  private add(name: string, alarmDescription: string, own: Own): void {
    const alarmName = `${this.props.settings.name}-${name}`;
    this.made[name] = alarm(this, name, this.props.topic, { alarmName, alarmDescription, ...own });
  }
}
