import { Aws } from 'aws-cdk-lib';
import { ConcreteWidget, Dashboard } from 'aws-cdk-lib/aws-cloudwatch';
import type { Alarm } from 'aws-cdk-lib/aws-cloudwatch';
import type { Table } from 'aws-cdk-lib/aws-dynamodb';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { NAMESPACE } from './metrics.js';
import type { Settings } from './settings.js';

/** What the dashboard shows. */
export interface DashboardProps {
  readonly settings: Settings;
  readonly scheduler: IFunction;
  readonly poller: IFunction;
  readonly ledger: Table;
  readonly alarms: Readonly<Record<string, Alarm>>;
  readonly campaignAges: Readonly<Record<string, Alarm>>;
  /** The queues of mails that are no campaign's. */
  readonly queues: Queue[];
}

/** What one widget shows. */
const MOST_ALARMS = 100;
const MAXIMUM = { stat: 'Maximum' };

/** One line of a graph, in the dashboard's own notation: a metric's parts, then how it is shown. */
type Line = (string | object)[];

/** A widget in the dashboard's own notation, which says more than the library's: `...`, searches. */
class Widget extends ConcreteWidget {
  constructor(
    private readonly type: string, private readonly properties: object, width: number, height: number,
  ) {
    super(width, height);
  }

  override toJson(): object[] {
    const { type, properties, width, height, x, y } = this;
    return [{ type, width, height, x, y, properties }];
  }
}

/** One page that says whether mails leave as they should, and what it costs. */
export function dashboard(scope: Construct, props: DashboardProps): Dashboard {
  const of = ofStack(props.settings.name);
  return new Dashboard(scope, 'Dashboard', {
    dashboardName: props.settings.name,
    widgets: [
      [status(props)],
      [sends(of), shares(props)],
      [backlog(props), age(props)],
      [pressure(of), deferral(of), limits(of)],
      [slots(of), failures(of), holds(of)],
      [feedback(props), calls(of, props), running(props)],
    ],
  });
}

/** Of the campaigns' ages as many as fit beside the others. */
function status({ alarms, campaignAges }: DashboardProps): Widget {
  const others = Object.keys(alarms).length - Object.keys(campaignAges).length;
  const left = new Set(Object.keys(campaignAges).slice(MOST_ALARMS - others));
  const shown = Object.entries(alarms).filter(([name]) => !left.has(name));
  const arns = shown.map(([, alarm]) => alarm.alarmArn);
  return new Widget('alarm', { title: 'Alarms', alarms: arns }, 24, 4);
}

function sends(of: OfFunction): Widget {
  return graph('Sends against quota, recipients a second', 12, [
    [{ expression: 'sent / PERIOD(sent)', label: 'Sent' }],
    of('poller', 'Sent', { id: 'sent', visible: false }),
    of('poller', 'Rate', { stat: 'Average' }),
    of('scheduler', 'Quota', MAXIMUM),
  ]);
}

/** By search: campaigns come and go without a change of the dashboard. */
function shares({ settings }: DashboardProps): Widget {
  return graph('Shares by campaign, %', 12, [
    [{ expression: byCampaign(settings.name, 'Sent'), id: 'sent', visible: false }],
    [{ expression: '100 * sent / SUM(sent)', label: '' }],
  ], { stacked: true });
}

function backlog(props: DashboardProps): Widget {
  return graph('Backlog, messages', 12, queues(props, 'ApproximateNumberOfMessagesVisible'));
}

function age(props: DashboardProps): Widget {
  const alarm = { label: 'alarm', value: props.settings.ageAlarmSeconds };
  const lines = queues(props, 'ApproximateAgeOfOldestMessage');
  return graph('Age of the oldest message, seconds', 12, lines, {
    annotations: { horizontal: [alarm] },
  });
}

function pressure(of: OfFunction): Widget {
  return graph('Pressure: level, backlog and age in seconds', 8, [
    of('scheduler', 'BacklogSeconds'),
    of('scheduler', 'MeanAgeSeconds'),
    of('scheduler', 'BackPressureLevel', { yAxis: 'right' }),
  ], MAXIMUM);
}

function deferral(of: OfFunction): Widget {
  return graph('Put aside, and brought back', 8, [
    of('poller', 'Deferred'), of('poller', 'DeferralFailed'),
    of('scheduler', 'BroughtBack'), of('scheduler', 'DeferralReplayFailed'),
  ]);
}

function limits(of: OfFunction): Widget {
  const names = ['LimitMoved', 'LimitWaiting', 'BucketRefused', 'BucketLost'];
  return graph('Recipient domains, shared bucket', 8, names.map((name) => of('poller', name)));
}

function slots(of: OfFunction): Widget {
  return graph('Slots skipped and unused', 8, [of('poller', 'SlotsSkipped'), of('poller', 'SlotsUnused')]);
}

function failures(of: OfFunction): Widget {
  const names = ['Refused', 'Failed', 'PossiblySent', 'DeadLettered', 'LedgerFailed'];
  return graph('Refusals, failures, dead letters', 8, names.map((name) => of('poller', name)));
}

function holds(of: OfFunction): Widget {
  return graph('Holds, and windows held or blocked', 8, [
    of('scheduler', 'Holds', MAXIMUM), of('poller', 'HeldWindows'), of('poller', 'BlockedWindows'),
  ]);
}

function feedback({ settings }: DashboardProps): Widget {
  const lines = ['Bounced', 'Complained', 'Suppressed', 'Dropped'].map((label) => [{ expression: byCampaign(settings.name, label), label }]);
  return graph('Bounces and complaints by campaign', 8, lines);
}

function calls(of: OfFunction, { poller, scheduler }: DashboardProps): Widget {
  return graph('Cost: SQS calls, invocations', 8, [
    of('poller', 'SqsCalls'),
    ['AWS/Lambda', 'Invocations', 'FunctionName', poller.functionName],
    ['...', scheduler.functionName],
  ]);
}

function running({ poller, scheduler, ledger }: DashboardProps): Widget {
  const right = { yAxis: 'right' };
  return graph('Cost: milliseconds run, ledger units', 8, [
    ['AWS/Lambda', 'Duration', 'FunctionName', poller.functionName],
    ['...', scheduler.functionName],
    ['AWS/DynamoDB', 'ConsumedReadCapacityUnits', 'TableName', ledger.tableName, right],
    ['.', 'ConsumedWriteCapacityUnits', '.', '.', right],
  ]);
}

function queues(props: DashboardProps, metricName: string): Line[] {
  const [first, ...others] = props.queues.map((queue) => queue.queueName);
  const found = ['campaign', 'domain'].map((kind): Line => {
    const terms = `{AWS/SQS,QueueName} MetricName="${metricName}" QueueName=${props.settings.name}-${kind}`;
    return [{ expression: search(terms, 'Maximum'), label: '' }];
  });
  return [
    ...found,
    ['AWS/SQS', metricName, 'QueueName', first ?? '', MAXIMUM],
    ...others.map((name) => ['...', name, MAXIMUM]),
  ];
}

type OfFunction = (name: 'poller' | 'scheduler', metricName: string, shown?: object) => Line;

function ofStack(stack: string): OfFunction {
  return (name, metricName, shown) => (
    [NAMESPACE, metricName, 'Stack', stack, 'Function', name, ...(shown ? [shown] : [])]
  );
}

function byCampaign(stack: string, metricName: string): string {
  return search(`{${NAMESPACE},Stack,Campaign} Stack="${stack}" MetricName="${metricName}"`, 'Sum');
}

function search(terms: string, statistic: string): string {
  return `SEARCH('${terms}', '${statistic}')`;
}

function graph(title: string, width: number, metrics: Line[], more: object = {}): Widget {
  const properties = { title, region: Aws.REGION, period: 60, stat: 'Sum', ...more, metrics };
  return new Widget('metric', properties, width, 6);
}
