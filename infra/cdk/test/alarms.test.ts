import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TidegateProps } from '../lib/index.js';
import { rendered } from './support.js';

const POLLER = [{ Name: 'Function', Value: 'poller' }, { Name: 'Stack', Value: 'mail' }];
const SCHEDULER = [{ Name: 'Function', Value: 'scheduler' }, { Name: 'Stack', Value: 'mail' }];
const of = (name: string, value: string) => [{ Name: name, Value: value }];
const AGE = ['AWS/SQS', 'ApproximateAgeOfOldestMessage'];

/** Each alarm: namespace, metric, dimensions, statistic, seconds, threshold. */
const ALARMS: Record<string, unknown[]> = {
  refusals: ['Tidegate', 'Refused', POLLER, 'Sum', 300, '>= 10'],
  'dead-letters': [
    'AWS/SQS', 'ApproximateNumberOfMessagesVisible', of('QueueName', 'QueueName of mail-dead-letter'),
    'Maximum', 300, '>= 1',
  ],
  held: ['Tidegate', 'Holds', SCHEDULER, 'Maximum', 60, '>= 1'],
  blocked: ['Tidegate', 'BlockedWindows', POLLER, 'Sum', 60, '>= 1'],
  'age-big': [...AGE, of('QueueName', 'QueueName of mail-campaign-big'), 'Maximum', 300, '>= 864000'],
  'age-small': [...AGE, of('QueueName', 'QueueName of mail-campaign-small'), 'Maximum', 300, '>= 864000'],
  'age-express': [...AGE, of('QueueName', 'QueueName of mail-express'), 'Maximum', 300, '>= 864000'],
  'age-merge': [...AGE, of('QueueName', 'QueueName of mail-merge.fifo'), 'Maximum', 300, '>= 864000'],
  'age-dead-letter': [...AGE, of('QueueName', 'QueueName of mail-dead-letter'), 'Maximum', 300, '>= 864000'],
  'minute-missed': ['AWS/Lambda', 'Invocations', of('FunctionName', 'mail-scheduler'), 'Sum', 60, '< 1'],
  'ticks-failed': ['Tidegate', 'TicksFailed', SCHEDULER, 'Sum', 300, '>= 10'],
  'quota-unknown': ['Tidegate', 'QuotaUnknown', SCHEDULER, 'Sum', 300, '>= 3'],
  ledger: ['Tidegate', 'LedgerFailed', POLLER, 'Sum', 60, '>= 3'],
  'poller-errors': ['AWS/Lambda', 'Errors', of('FunctionName', 'mail-poller'), 'Sum', 60, '>= 3'],
  'scheduler-errors': ['AWS/Lambda', 'Errors', of('FunctionName', 'mail-scheduler'), 'Sum', 60, '>= 1'],
  'poller-throttles': ['AWS/Lambda', 'Throttles', of('FunctionName', 'mail-poller'), 'Sum', 60, '>= 1'],
  'scheduler-throttles': ['AWS/Lambda', 'Throttles', of('FunctionName', 'mail-scheduler'), 'Sum', 60, '>= 1'],
  'receive-count': ['Tidegate', 'HighestReceiveCount', POLLER, 'Maximum', 300, '> 100'],
  'bounce-rate': ['AWS/SES', 'Reputation.BounceRate', undefined, 'Average', 3600, '>= 0.05'],
  'complaint-rate': ['AWS/SES', 'Reputation.ComplaintRate', undefined, 'Average', 3600, '>= 0.001'],
  busy: ['Tidegate', 'BackPressureLevel', SCHEDULER, 'Maximum', 300, '>= 1'],
  overloaded: ['Tidegate', 'BackPressureLevel', SCHEDULER, 'Maximum', 300, '>= 2'],
  'backlog-grows': ['Tidegate', 'BacklogGrows', SCHEDULER, 'Maximum', 300, '>= 1'],
};
/** Those of what a prop switches on. */
const WITH: [Partial<TidegateProps>, Record<string, unknown[]>][] = [
  [{ deferral: true }, {
    'deferral-failed': ['Tidegate', 'DeferralFailed', POLLER, 'Sum', 300, '>= 1'],
    'replay-failed': ['Tidegate', 'DeferralReplayFailed', SCHEDULER, 'Sum', 900, '>= 1'],
  }],
  [{ sharedBucket: { url: 'redis://10.0.0.1' } }, {
    'bucket-lost': ['Tidegate', 'BucketLost', POLLER, 'Sum', 60, '>= 3'],
    'bucket-refused': ['Tidegate', 'BucketRefused', POLLER, 'Sum', 300, '>= 1'],
  }],
  [{ limits: '*=10%' }, Object.fromEntries([1, 2, 3, 4, 5, 6].map((group) => [
    `domain-age-${group}`,
    [...AGE, of('QueueName', `QueueName of mail-domain-${group}`), 'Maximum', 300, '>= 864000'],
  ]))],
];
const ALL = { alarms: 'all' } as const;
const EVERYTHING: Partial<TidegateProps> = Object.assign({}, ALL, ...WITH.map(([props]) => props));
const EVERY_ALARM: Record<string, unknown[]> = Object.assign({}, ALARMS, ...WITH.map(([, alarms]) => alarms));
const SIGNS: Record<string, string> = {
  GreaterThanOrEqualToThreshold: '>=', GreaterThanThreshold: '>', LessThanThreshold: '<',
};
/** Those that look at more than one period: periods, and how many of them. */
const PERIODS: Record<string, unknown[]> = {
  held: [2, undefined], 'minute-missed': [3, 2], busy: [12, undefined], overloaded: [3, undefined],
  'replay-failed': [3, undefined], 'bucket-refused': [12, undefined],
};

test('each alarm is there with what it watches, and there is no other', () => {
  const names = (props: Partial<TidegateProps>) => rendered(props).all('AWS::CloudWatch::Alarm')
    .map(({ Properties }) => Properties.AlarmName).sort();
  const expected = (alarms: object) => Object.keys(alarms).map((name) => `mail-${name}`).sort();
  assert.deepEqual(names(ALL), expected(ALARMS));
  for (const [props, more] of WITH) {
    assert.deepEqual(names({ ...ALL, ...props }), expected({ ...ALARMS, ...more }));
  }
});

test('unless all are wanted, there are seven, on metrics that cost nothing, and no dashboard', () => {
  for (const props of [{}, ...WITH.map(([more]) => more)]) {
    const stack = rendered(props);
    const alarms = stack.all('AWS::CloudWatch::Alarm').map(({ Properties }) => Properties);
    assert.deepEqual(alarms.map(({ AlarmName }) => AlarmName).sort(), [
      'mail-bounce-rate', 'mail-complaint-rate', 'mail-dead-letters', 'mail-minute-missed', 'mail-poller-errors',
      'mail-poller-throttles', 'mail-scheduler-errors',
    ]);
    assert.ok(alarms.every(({ Namespace }) => Namespace.startsWith('AWS/')));
    assert.equal(stack.all('AWS::CloudWatch::Dashboard').length, 0);
  }
});

test('each alarm watches its metric', () => {
  const stack = rendered(EVERYTHING);
  for (const [name, expected] of Object.entries(EVERY_ALARM)) {
    const alarm = stack.alarm(name);
    const dimensions = alarm.Dimensions?.map((d: any) => ({ Name: d.Name, Value: stack.text(d.Value) }));
    assert.deepEqual([
      alarm.Namespace, alarm.MetricName, dimensions, alarm.Statistic, alarm.Period,
      `${SIGNS[alarm.ComparisonOperator]} ${alarm.Threshold}`,
    ], expected, name);
    assert.deepEqual(
      [alarm.EvaluationPeriods, alarm.DatapointsToAlarm], PERIODS[name] ?? [1, undefined], name,
    );
    const missing = name === 'minute-missed' ? 'breaching' : 'notBreaching';
    assert.equal(alarm.TreatMissingData, missing, name);
  }
});

test('each alarm tells the topic when it begins and ends, and says what to do', () => {
  const stack = rendered(EVERYTHING);
  for (const name of Object.keys(EVERY_ALARM)) {
    const alarm = stack.alarm(name);
    for (const actions of [alarm.AlarmActions, alarm.OKActions]) {
      assert.deepEqual(actions.map((action: unknown) => stack.text(action)), ['mail-alarms'], name);
    }
    assert.equal(alarm.ActionsEnabled, true, name);
    assert.ok(alarm.AlarmDescription.length > 60, name);
  }
});

test('a stopped schedule is no alarm', () => {
  assert.equal(rendered({ schedule: 'DISABLED' }).alarm('minute-missed').ActionsEnabled, false);
});

test('the age that alarms is a choice', () => {
  const stack = rendered({ ...EVERYTHING, ageAlarmSeconds: 600 });
  for (const name of Object.keys(EVERY_ALARM).filter((alarm) => /^(domain-)?age-/.test(alarm))) {
    assert.equal(stack.alarm(name).Threshold, 600, name);
  }
});

test('an address is subscribed only where one is given', () => {
  assert.equal(rendered().all('AWS::SNS::Subscription').length, 0);
  const [subscription] = rendered({ alarmEmail: 'ops@example.org' }).all('AWS::SNS::Subscription');
  assert.equal(subscription?.Properties.Protocol, 'email');
  assert.equal(subscription?.Properties.Endpoint, 'ops@example.org');
});

test('the dashboard shows every alarm and every question of the day', () => {
  const stack = rendered(EVERYTHING);
  const { Properties } = stack.one('AWS::CloudWatch::Dashboard', 'DashboardName', 'mail');
  const { widgets } = JSON.parse(stack.text(Properties.DashboardBody));
  assert.deepEqual(widgets.map((widget: any) => widget.properties.title), [
    'Alarms', 'Sends against quota, recipients a second', 'Shares by campaign, %', 'Backlog, messages',
    'Age of the oldest message, seconds', 'Pressure: level, backlog and age in seconds',
    'Put aside, and brought back', 'Recipient domains, shared bucket', 'Slots skipped and unused',
    'Refusals, failures, dead letters',
    'Holds, and windows held or blocked', 'Bounces and complaints by campaign',
    'Cost: SQS calls, invocations', 'Cost: milliseconds run, ledger units',
  ]);
  assert.equal(widgets[0].properties.alarms.length, Object.keys(EVERY_ALARM).length);
  for (const { x, width } of widgets) assert.ok(x + width <= 24);
});

test('with many campaigns the dashboard keeps the alarms that are no campaign\'s', () => {
  const campaigns = Array.from({ length: 110 }, (_, index) => ({ name: `c${index}`, weight: 1 }));
  const stack = rendered({ campaigns, campaignList: 'tags', alarms: 'all' });
  const body = stack.text(stack.all('AWS::CloudWatch::Dashboard')[0]!.Properties.DashboardBody);
  const { alarms } = JSON.parse(body).widgets[0].properties;
  assert.equal(alarms.length, 100);
  assert.ok(alarms.some((arn: string) => arn.includes('complaintrate')), alarms.join());
});
