import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RemovalPolicy, SecretValue } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { SecurityGroup, Subnet, Vpc } from 'aws-cdk-lib/aws-ec2';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import { Tidegate } from '../lib/index.js';
import type { TidegateProps } from '../lib/index.js';
import { TEMPLATE } from '../lib/template.js';
import { code, made, rendered, Rendered } from './support.js';

const EVERYTHING: Partial<TidegateProps> = {
  alarms: 'all', deferral: true, limits: '*=10%', sharedBucket: { url: 'redis://10.0.0.1' }, expressQueue: true, tracing: true,
  campaignList: 'tags', alarmEmail: 'ops@example.org', pointInTimeRecovery: true, reservedConcurrency: 20,
};

test('what the props decide is decided: no condition and no choice is left', () => {
  for (const props of [{}, EVERYTHING, { channel: 'sms' }, { feedback: 'off', mode: 'direct' }] as const) {
    const { template } = rendered(props);
    assert.equal(template.Conditions, undefined);
    assert.doesNotMatch(JSON.stringify(template), /"Fn::If"|"Condition":"|AWS::NoValue|AWS::StackName/);
  }
});

test('with everything switched on each resource of the template is there, but for texts and its own campaigns', () => {
  const types = (all: { Type: string }[]) => all.map(({ Type }) => Type).sort();
  const left = Object.entries(TEMPLATE.Resources)
    .filter(([id, { Condition }]) => !['HasReceipts', 'IsSms'].includes(Condition ?? '') && !/(First|Second)/.test(id))
    .map(([, resource]) => resource);
  const own = types(Object.values<any>(rendered(EVERYTHING).resources));
  const campaigns = ['AWS::SQS::Queue', 'AWS::SQS::QueuePolicy', 'AWS::CloudWatch::Alarm'];
  assert.deepEqual(own, [...types(left), ...campaigns, ...campaigns].sort());
});

test('a stack for texts names nothing of SES, and one for mail nothing of texts', () => {
  for (const [channel, others] of [['sms', /ses:|AWS::SES|AWS\/SES/], ['email', /sms-voice|SMSVOICE/]] as const) {
    for (const more of [{}, { feedback: 'off' }] as const) {
      const { stack, mail } = made({ channel, ...more });
      mail.grantOperate(new Role(stack, 'Operator', { assumedBy: new ServicePrincipal('ec2.amazonaws.com') }));
      assert.doesNotMatch(JSON.stringify(Template.fromStack(stack).toJSON()), others);
    }
  }
});

/** What props put into the functions' environments. */
const EFFECTS: [Partial<TidegateProps>, Record<string, string | undefined>][] = [
  [{}, {
    TIDEGATE_CAMPAIGNS: '[{"name":"big","queue_url":"mail-campaign-big","weight":90},{"name":"small","queue_url":"mail-campaign-small","weight":10}]',
    TIDEGATE_MERGE_QUEUE_URL: 'mail-merge.fifo', TIDEGATE_LEDGER: 'dynamodb:MailTemplateLedgerTable', TIDEGATE_QUOTA_PER_SECOND: undefined,
    TIDEGATE_RATE_MARGIN: '0.01', TIDEGATE_ALLOWED_SENDERS: '*', TIDEGATE_CHANNEL: undefined, TIDEGATE_CONFIGURATION_SET: 'mail',
    TIDEGATE_LIMIT_QUEUES: [1, 2, 3, 4, 5, 6].map((number) => `mail-limit-${number}`).join(','),
  }],
  [{ campaigns: [{ name: 'one', weight: 1, tenant: 'acme' }] }, {
    TIDEGATE_CAMPAIGNS: '[{"name":"one","queue_url":"mail-campaign-one","weight":1,"tenant":"acme"}]',
  }],
  [{ campaignList: 'tags' }, { TIDEGATE_CAMPAIGNS: 'ledger', TIDEGATE_CAMPAIGN_QUEUES: 'mail-campaign-' }],
  [{ campaignList: 'ledger' }, { TIDEGATE_CAMPAIGNS: 'ledger', TIDEGATE_CAMPAIGN_QUEUES: undefined }],
  [{ mode: 'direct', expressQueue: true }, {
    TIDEGATE_MERGE_QUEUE_URL: undefined, TIDEGATE_EXPRESS_QUEUE_URL: 'mail-express',
  }],
  [{ quotaPerSecond: 14.5, maxInFlight: 100, rateMargin: 0.05 }, {
    TIDEGATE_QUOTA_PER_SECOND: '14.5', TIDEGATE_MAX_IN_FLIGHT: '100', TIDEGATE_RATE_MARGIN: '0.05',
  }],
  [{ allowedSenders: ['a@example.org', '*@example.net'] }, { TIDEGATE_ALLOWED_SENDERS: 'a@example.org,*@example.net' }],
  [{ traces: 'http://localhost:4318/v1/traces' }, { TIDEGATE_TRACES: 'http://localhost:4318/v1/traces' }],
  [{ eventBus: 'default' }, { TIDEGATE_EVENT_BUS: 'default' }],
  [{ deferral: true }, {
    TIDEGATE_STORE: 's3://MailTemplateStoreBucket/store', TIDEGATE_DEFERRAL: 'on',
  }],
  [{ sharedBucket: { url: SecretValue.secretsManager('bucket'), lost: 'open', prefix: 'mail' } }, {
    TIDEGATE_SHARED_BUCKET: '{{resolve:secretsmanager:bucket:SecretString:::}}', TIDEGATE_SHARED_BUCKET_LOST: 'open',
    TIDEGATE_SHARED_BUCKET_PREFIX: 'mail',
  }],
  [{ channel: 'sms', origins: ['+12065550100', 'NEWS'], allowedCountries: ['+1', '+49'] }, {
    TIDEGATE_CHANNEL: 'sms', TIDEGATE_ORIGINS: '+12065550100,NEWS', TIDEGATE_ALLOWED_COUNTRIES: '+1,+49',
  }],
  [{ feedback: 'off' }, { TIDEGATE_FEEDBACK: 'off', TIDEGATE_CONFIGURATION_SET: undefined }],
];

for (const [props, expected] of EFFECTS) {
  test(`the environments follow ${JSON.stringify(props)}`, () => {
    const stack = rendered(props);
    const variables = { ...stack.environment('poller'), ...stack.environment('scheduler') };
    for (const [name, value] of Object.entries(expected)) {
      assert.equal(variables[name] === undefined ? undefined : stack.text(variables[name]), value, name);
    }
  });
}

test('each function has its code, processor, memory and log', () => {
  const stack = rendered({ architecture: Architecture.X86_64, pollerMemory: 1769, tracing: true, logRetentionDays: 7 });
  for (const [of, memory] of [['poller', 1769], ['scheduler', 128]] as const) {
    const { Architectures, MemorySize, Code, LoggingConfig, TracingConfig } = stack.function(of);
    assert.deepEqual([Architectures, MemorySize, TracingConfig], [['x86_64'], memory, { Mode: 'Active' }]);
    assert.match(Code.S3Key, /^[0-9a-f]{64}\.zip$/);
    assert.equal(stack.text(LoggingConfig.LogGroup), `/aws/lambda/mail-${of}`);
  }
  for (const log of stack.all('AWS::Logs::LogGroup')) assert.equal(log.Properties.RetentionInDays, 7);
  assert.notEqual(stack.function('poller').Code.S3Key, stack.function('scheduler').Code.S3Key);
});

test('the removal policy is that of queues of mails, ledger and logs, and the bucket of the store stays in any case', () => {
  const retained = rendered({ removalPolicy: RemovalPolicy.RETAIN });
  for (const [stack, policy] of [[retained, 'Retain'], [rendered(), 'Delete']] as const) {
    const kept = ['AWS::DynamoDB::Table', 'AWS::Logs::LogGroup'].flatMap((type) => stack.all(type));
    for (const name of ['mail-campaign-big', 'mail-express', 'mail-merge.fifo', 'mail-limit-1', 'mail-dead-letter']) {
      kept.push(stack.queue(name));
    }
    for (const resource of kept) {
      assert.deepEqual([resource.DeletionPolicy, resource.UpdateReplacePolicy], [policy, 'Retain'], resource.Type);
    }
    assert.equal(stack.queue('mail-feedback').DeletionPolicy, 'Delete');
    const [bucket] = stack.all('AWS::S3::Bucket');
    assert.equal(bucket!.DeletionPolicy, 'RetainExceptOnCreate');
  }
});

test('a campaign\'s queue is like those of the template, with an alarm that tells the topic', () => {
  const stack = rendered({ alarms: 'all', ageAlarmSeconds: 600 });
  const { Properties } = stack.queue('mail-campaign-big');
  const { Properties: express } = stack.queue('mail-express');
  const { QueueName, Tags, ...alike } = Properties;
  const { QueueName: other, ...wanted } = express;
  assert.deepEqual(alike, wanted);
  assert.deepEqual(Tags, [{ Key: 'tidegate:campaign', Value: 'big' }, { Key: 'tidegate:weight', Value: '90' }]);
  const alarm = stack.alarm('age-big');
  assert.deepEqual([alarm.Threshold, ...alarm.AlarmActions.map((action: unknown) => stack.text(action))], [600, 'mail-alarms']);
  const refusals = stack.all('AWS::SQS::QueuePolicy').flatMap(({ Properties: of }) => of.Queues.map((queue: unknown) => stack.text(queue)));
  assert.equal(refusals.length, stack.all('AWS::SQS::Queue').length);
});

test('the dashboard shows every alarm, as many as it can', () => {
  const shown = (props: Partial<TidegateProps>) => {
    const stack = rendered(props);
    const body = stack.all('AWS::CloudWatch::Dashboard')[0]!.Properties.DashboardBody['Fn::Sub'][0];
    const [, alarms] = /"alarms": \[([^\]]*)/.exec(body)!;
    return { names: [...alarms!.matchAll(/-([a-z0-9-]+)"/g)].map(([, name]) => name), stack };
  };
  const { names, stack } = shown(EVERYTHING);
  const extra = stack.all('AWS::CloudWatch::Dashboard')[0]!.Properties.DashboardBody['Fn::Sub'][1];
  const more = [...JSON.stringify(extra).matchAll(/alarm:mail-([a-z0-9-]+)/g)].map(([, name]) => name);
  const there = stack.all('AWS::CloudWatch::Alarm').map(({ Properties }) => Properties.AlarmName.replace('mail-', ''));
  assert.deepEqual([...names, ...more].sort(), there.sort());
  const campaigns = Array.from({ length: 110 }, (_, index) => ({ name: `c${index}`, weight: 1 }));
  const many = shown({ campaigns, campaignList: 'tags', alarms: 'all' });
  assert.ok(many.names.includes('refusals') && many.names.includes('age-c0') && !many.names.includes('age-c109'));
});

test('the poller alone is put into the VPC, with a group of its own or those that are given', () => {
  const { stack, mail } = made();
  const vpc = Vpc.fromVpcAttributes(stack, 'Vpc', { vpcId: 'vpc-0a', availabilityZones: ['a'] });
  const bucket = { url: 'redis://10.0.0.1', vpc, subnets: { subnets: [Subnet.fromSubnetId(stack, 'Subnet', 'subnet-0a')] } };
  const other = { campaigns: [{ name: 'a', weight: 1 }], code: code() };
  const one = new Tidegate(stack, 'One', { ...other, name: 'one', sharedBucket: bucket });
  const group = SecurityGroup.fromSecurityGroupId(stack, 'Group', 'sg-0a');
  new Tidegate(stack, 'Two', { ...other, name: 'two', sharedBucket: { ...bucket, securityGroups: [group] } });
  const shown = new Rendered(Template.fromStack(stack).toJSON());
  const networks = ['one-poller', 'two-poller', 'one-scheduler', 'mail-poller']
    .map((name) => shown.one('AWS::Lambda::Function', 'FunctionName', name).Properties.VpcConfig);
  assert.deepEqual(networks[0].SubnetIds, ['subnet-0a']);
  assert.equal(networks[0].SecurityGroupIds.length, 1);
  assert.deepEqual(networks.slice(1), [{ SubnetIds: ['subnet-0a'], SecurityGroupIds: ['sg-0a'] }, undefined, undefined]);
  assert.equal(shown.all('AWS::EC2::SecurityGroup').length, 1);
  assert.equal(one.poller.connections.securityGroups.length, 1);
  assert.equal(mail.name, 'mail');
});
