import { Duration } from 'aws-cdk-lib';
import {
  AlarmStatusWidget, Dashboard, GraphWidget, MathExpression, Metric, SearchExpression, Stats,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { Alarm, GraphWidgetProps, IMetric, IWidget } from 'aws-cdk-lib/aws-cloudwatch';
import type { Table } from 'aws-cdk-lib/aws-dynamodb';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { NAMESPACE } from './metrics.js';
import type { TidegateMetrics } from './metrics.js';
import type { Settings } from './settings.js';

/** What the dashboard shows. */
export interface DashboardProps {
  readonly settings: Settings;
  readonly metrics: TidegateMetrics;
  readonly scheduler: IFunction;
  readonly poller: IFunction;
  readonly ledger: Table;
  readonly alarms: Alarm[];
  /** The queues of the campaigns that are known at synthesis. */
  readonly campaigns: Queue[];
  /** The other queues that mails wait in. */
  readonly queues: Queue[];
}

const MINUTE = Duration.minutes(1);
/** What one widget shows. */
const MOST_ALARMS = 100;

/** One page that says whether mails leave as they should, and what it costs. */
export function dashboard(scope: Construct, props: DashboardProps): Dashboard {
  const alarms = props.alarms.slice(0, MOST_ALARMS);
  return new Dashboard(scope, 'Dashboard', {
    dashboardName: props.settings.name,
    defaultInterval: Duration.hours(3),
    widgets: [
      [new AlarmStatusWidget({ title: 'Alarms', alarms, width: 24, height: 4 })],
      [sends(props), shares(), feedback()],
      [backlog(props, 'ApproximateNumberOfMessagesVisible', 'Backlog (messages that wait)'),
        backlog(props, 'ApproximateAgeOfOldestMessage', 'Age of the oldest message (s)'), slots(props)],
      [failures(props), holds(props), costs(props)],
    ],
  });
}

function sends({ metrics }: DashboardProps): IWidget {
  const sent = new MathExpression({
    expression: 'sent / PERIOD(sent)',
    usingMetrics: { sent: metrics.metricSent() },
    label: 'Sent',
    period: MINUTE,
  });
  return graph('Sends against quota (per second)', [
    sent,
    metrics.metricRate({ label: 'Rate' }),
    metrics.metricQuota({ label: 'Quota' }),
  ]);
}

/** By search: campaigns come and go without a change of the dashboard. */
function shares(): IWidget {
  const sent = byCampaign('Sent');
  const percent = new SearchExpression({
    expression: `100 * ${sent} / SUM(${sent})`, label: '', period: MINUTE,
  });
  return graph('Shares by campaign (%)', [percent], { stacked: true });
}

function feedback(): IWidget {
  return graph('Bounces and complaints by campaign (a minute)', ['Bounced', 'Complained'].map(
    (label) => new SearchExpression({ expression: byCampaign(label), label, period: MINUTE }),
  ));
}

function byCampaign(metricName: string): string {
  return search(`{${NAMESPACE},Campaign} MetricName="${metricName}"`, Stats.SUM);
}

function backlog(props: DashboardProps, metricName: string, title: string): IWidget {
  const { settings, campaigns, queues } = props;
  const known = settings.campaignList === 'environment' ? [...campaigns, ...queues] : queues;
  const metrics = known.map((queue) => queue.metric(metricName, {
    statistic: Stats.MAXIMUM, period: MINUTE, label: "${PROP('Dim.QueueName')}",
  }));
  if (settings.campaignList === 'environment') return graph(title, metrics);
  // Unquoted, a term finds what contains it; and it may hold letters and digits only.
  const terms = [...settings.name.split('-'), 'campaign'].filter((term) => term !== '')
    .map((term) => `QueueName=${term}`);
  const found = `{AWS/SQS,QueueName} MetricName="${metricName}" ${terms.join(' ')}`;
  const expression = search(found, Stats.MAXIMUM);
  return graph(title, [new SearchExpression({ expression, label: '', period: MINUTE }), ...metrics]);
}

function slots({ metrics }: DashboardProps): IWidget {
  return graph('Slots skipped and unused (a minute)', [
    metrics.metricSlotsSkipped({ label: 'skipped' }),
    metrics.metricSlotsUnused({ label: 'unused' }),
  ]);
}

function failures({ metrics }: DashboardProps): IWidget {
  return graph('Refusals, failures, dead letters (a minute)', [
    metrics.metricRefused({ label: 'refused' }),
    metrics.metricFailed({ label: 'failed' }),
    metrics.metric('poller', 'PossiblySent', { label: 'possibly sent' }),
    metrics.metricRetried({ label: 'retried' }),
    metrics.metricDeadLettered({ label: 'dead-lettered' }),
  ]);
}

function holds({ metrics }: DashboardProps): IWidget {
  return graph('Holds, and windows held or blocked', [
    metrics.metricHolds({ label: 'holds that stand' }),
    metrics.metricHeldWindows({ label: 'held windows' }),
    metrics.metricBlockedWindows({ label: 'blocked windows' }),
    metrics.metricLedgerFailed({ label: 'windows without the ledger' }),
  ]);
}

function costs({ metrics, scheduler, poller, ledger }: DashboardProps): IWidget {
  const sum = { statistic: Stats.SUM, period: MINUTE };
  const units = (metricName: string, label: string) => new Metric({
    namespace: 'AWS/DynamoDB', metricName, dimensionsMap: { TableName: ledger.tableName }, label, ...sum,
  });
  return graph('Cost drivers (a minute)', [
    metrics.metricSqsCalls({ label: 'SQS calls' }),
    poller.metricInvocations({ ...sum, label: 'pollers' }),
    scheduler.metricInvocations({ ...sum, label: 'schedulers' }),
    metrics.metricIdleTicks({ label: 'ticks left out while idle' }),
    units('ConsumedReadCapacityUnits', 'ledger reads'),
    units('ConsumedWriteCapacityUnits', 'ledger writes'),
  ], {
    right: [
      poller.metricDuration({ ...sum, label: 'pollers (ms)' }),
      scheduler.metricDuration({ ...sum, label: 'schedulers (ms)' }),
    ],
  });
}

function search(terms: string, statistic: string): string {
  return `SEARCH('${terms}', '${statistic}', 60)`;
}

function graph(title: string, left: IMetric[], more: Partial<GraphWidgetProps> = {}): IWidget {
  return new GraphWidget({ title, left, width: 8, height: 6, leftYAxis: { min: 0 }, ...more });
}
