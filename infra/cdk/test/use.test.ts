import assert from 'node:assert/strict';
import { test } from 'node:test';
import { App, Stack } from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { AwsSolutionsChecks } from 'cdk-nag';
import { Subnet, Vpc } from 'aws-cdk-lib/aws-ec2';
import { CampaignQueue, InvalidProp, Tidegate } from '../lib/index.js';
import type { TidegateProps } from '../lib/index.js';
import { code, made, Rendered } from './support.js';

/** What a grant lets a role do, with the names of what it may do it on. */
function granted(grant: (mail: Tidegate, to: IGrantable) => void, props = {}): unknown[] {
  const { stack, mail } = made(props);
  grant(mail, new Role(stack, 'Shop', { assumedBy: new ServicePrincipal('ecs-tasks.amazonaws.com') }));
  const shown = new Rendered(Template.fromStack(stack).toJSON());
  return shown.all('AWS::IAM::Policy').flatMap(({ Properties }) => Properties.PolicyDocument.Statement)
    .map(({ Action, Resource }: any) => [Action, shown.text(Resource)]);
}

const SEND = ['sqs:SendMessage', 'sqs:GetQueueAttributes', 'sqs:GetQueueUrl'];

test('a producer may be let onto one campaign\'s queue, all of them, or the express queue', () => {
  assert.deepEqual(granted((mail, shop) => mail.grantSend(shop, 'small')), [
    [SEND, 'Arn of mail-campaign-small'],
  ]);
  assert.deepEqual(granted((mail, shop) => mail.grantSend(shop)), [
    [SEND, 'Arn of mail-campaign-big'], [SEND, 'Arn of mail-campaign-small'],
  ]);
  assert.deepEqual(granted((mail, shop) => mail.grantSend(shop, 'express'), { expressQueue: true }), [
    [SEND, 'Arn of mail-express'],
  ]);
});

test('nobody is let onto a queue that is not taken from', () => {
  const refused = (campaign: string) => assert.throws(
    () => granted((mail, shop) => mail.grantSend(shop, campaign)),
    (error) => error instanceof InvalidProp
      && error.message === `campaign is "${campaign}", allowed: one of big, small`,
  );
  refused('express');
  refused('huge');
});

test('a producer may wake the stack', () => {
  assert.deepEqual(granted((mail, shop) => mail.grantWake(shop)), [
    ['lambda:InvokeFunction', 'Arn of mail-scheduler'],
  ]);
});

test('an operator may change the control record, and replay dead letters', () => {
  const operate = granted((mail, operator) => mail.grantOperate(operator)) as [string | string[], string][];
  const actions = operate.map(([does]) => does).flat();
  assert.deepEqual([...new Set(actions)].sort(), [
    'cloudformation:DescribeStacks', 'cloudwatch:DescribeAlarms', 'cloudwatch:GetMetricData',
    'dynamodb:BatchGetItem', 'dynamodb:GetItem', 'dynamodb:UpdateItem',
    'lambda:GetFunctionConfiguration', 'lambda:InvokeFunction', 'logs:FilterLogEvents', 's3:ListBucket', 'ses:GetAccount',
    'ses:GetSuppressedDestination', 'ses:GetTenant', 'ses:ListSuppressedDestinations', 'ses:TestRenderEmailTemplate',
    'sqs:GetQueueAttributes',
  ]);
  const queues = operate.filter(([does]) => does === 'sqs:GetQueueAttributes').map(([, on]) => on);
  assert.deepEqual(queues, [
    'Arn of mail-campaign-big', 'Arn of mail-campaign-small', 'Arn of mail-merge.fifo',
    ...[1, 2, 3, 4, 5, 6].map((group) => `Arn of mail-limit-${group}`), 'Arn of mail-dead-letter',
  ]);
  const everything = operate.filter(([, on]) => on === '*').map(([does]) => does);
  assert.deepEqual(everything, [
    'cloudwatch:DescribeAlarms', 'cloudwatch:GetMetricData', 'ses:GetAccount', 'ses:GetSuppressedDestination',
    'ses:GetTenant', 'ses:ListSuppressedDestinations', 'ses:TestRenderEmailTemplate',
  ]);
  const replay = granted((mail, operator) => mail.grantReplay(operator)) as [string[], string][];
  const replaying = new Map(replay.map(([does, on]) => [on, does]));
  const bucket = 'arn:AWS::Partition:s3:::MailTemplateStoreBucket';
  assert.deepEqual([...replaying.keys()].sort(), [
    'Arn of mail-campaign-big', 'Arn of mail-campaign-small', 'Arn of mail-dead-letter', bucket, `${bucket}/store/*`,
  ]);
  assert.deepEqual(replaying.get(`${bucket}/store/*`), [
    's3:GetObject', 's3:PutObject', 's3:DeleteObject',
  ]);
  assert.ok(replaying.get('Arn of mail-dead-letter')?.includes('sqs:DeleteMessage'));
});

test('the functions can be granted more, as any function', () => {
  const { stack, mail } = made();
  new Bucket(stack, 'Attachments').grantRead(mail.poller);
  Template.fromStack(stack).hasResourceProperties('AWS::IAM::Policy', {
    Roles: [{ Ref: Match.stringLikeRegexp('^MailTemplatePollerRole') }],
  });
});

test('a metric is the sum of a minute, unless the options say otherwise', () => {
  const { mail } = made();
  const metric = mail.metric('poller', 'DeadLettered');
  assert.deepEqual(
    [metric.namespace, metric.metricName, metric.dimensions, metric.statistic, metric.period.toSeconds()],
    ['Tidegate', 'DeadLettered', { Stack: 'mail', Function: 'poller' }, 'Sum', 60],
  );
  assert.equal(mail.metric('scheduler', 'Quota', { statistic: 'Maximum' }).statistic, 'Maximum');
  assert.deepEqual(mail.metricCampaign('big', 'Bounced').dimensions, { Stack: 'mail', Campaign: 'big' });
});

test('its parts are members', () => {
  const { stack, mail } = made({ expressQueue: true, alarms: 'all' });
  assert.equal(mail.name, 'mail');
  assert.deepEqual(mail.campaignNames, ['big', 'small']);
  const shown = new Rendered(Template.fromStack(stack).toJSON());
  const names = {
    'mail-campaign-small': mail.campaignQueue('small').queueUrl, 'mail-express': mail.expressQueue.queueUrl,
    'mail-limit-6': mail.limitQueues[5]?.queueUrl, MailTemplateStoreBucket: mail.storeBucket.bucketName,
    'mail-merge.fifo': mail.mergeQueue.queueUrl, 'mail-dead-letter': mail.deadLetterQueue.queueUrl,
    'mail-feedback': mail.template.getResource('FeedbackQueue').ref, 'mail-scheduler': mail.scheduler.functionName,
    'mail-poller': mail.poller.functionName, 'mail-alarms': mail.alarmTopic.topicArn,
    '/aws/lambda/mail-poller': mail.pollerLog.logGroupName,
    MailTemplateLedgerTable: mail.ledger.tableName,
  };
  for (const [name, token] of Object.entries(names)) {
    assert.equal(shown.text(stack.resolve(token)), name);
  }
  assert.equal(mail.alarms['age-small']?.node.path, 'mail/Mail/Campaign-small/Age');
  assert.throws(() => mail.campaignQueue('huge'), InvalidProp);
});

test('a campaign of another stack is one by its queue\'s name and tags', () => {
  const other = new Stack(new App(), 'other');
  const campaign = { name: 'more', weight: 5, tenant: 'acme' };
  new CampaignQueue(other, 'More', { tidegate: 'mail', campaign });
  const shown = new Rendered(Template.fromStack(other).toJSON());
  const { Properties } = shown.queue('mail-campaign-more');
  assert.deepEqual(Properties.Tags, [
    { Key: 'tidegate:campaign', Value: 'more' }, { Key: 'tidegate:tenant', Value: 'acme' },
    { Key: 'tidegate:weight', Value: '5' },
  ]);
  assert.equal(Properties.MaximumMessageSize, 1_032_192);
  assert.equal(shown.alarm('age-more').Threshold, 864_000);
  assert.equal(shown.alarm('age-more').AlarmActions, undefined);
});

test('a priority queue of a campaign has the tags by which it is found', () => {
  const other = new Stack(new App(), 'other');
  const campaign = { name: 'more', weight: 5, tenant: 'acme' };
  new CampaignQueue(other, 'Urgent', { tidegate: 'mail', campaign, priority: 'high' });
  const shown = new Rendered(Template.fromStack(other).toJSON());
  assert.deepEqual(shown.queue('mail-campaign-more-high').Properties.Tags, [
    { Key: 'tidegate:campaign', Value: 'more' }, { Key: 'tidegate:priority', Value: 'high' },
  ]);
  assert.equal(shown.alarm('age-more-high').Threshold, 864_000);
});

/** The rules that a Tidegate breaks, and the explanations that it gives. */
function nagged(props: Partial<TidegateProps>): { broken: string[]; explained: Map<string, Set<string>> } {
  const { stack } = made(props);
  const report = new AwsSolutionsChecks(stack).validateScope(stack);
  const explained = new Map<string, Set<string>>();
  for (const { node } of stack.node.findAll().map((construct) => ({ node: construct.node }))) {
    for (const { data } of node.metadata.filter(({ type }) => type === 'aws:cdk:acknowledged-rules')) {
      for (const [id, reason] of Object.entries(data as Record<string, string>)) {
        assert.ok(reason.length > 30, `${node.path} ${id}: ${reason}`);
        const rule = id.replace(/^annotation::/i, '');
        explained.set(rule, (explained.get(rule) ?? new Set()).add(node.path));
      }
    }
  }
  return { broken: report.violations.map(({ ruleName }) => ruleName), explained };
}

test('cdk-nag finds nothing that is not explained, whatever is switched on', () => {
  assert.deepEqual(nagged({}).broken, []);
  assert.deepEqual(nagged({
    campaignList: 'tags', tracing: true, pointInTimeRecovery: true, expressQueue: true, feedback: 'off',
    senderIdentityArns: ['arn:aws:ses:eu-west-1:123456789012:identity/*.example.org'],
    allowedSenders: ['*@example.org'], alarmEmail: 'ops@example.org', deferral: true,
    limits: '*=10%', sharedBucket: { url: 'redis://10.0.0.1' },
  }).broken, []);
  assert.deepEqual(nagged({ channel: 'sms', tracing: true }).broken, []);
  const { stack } = made();
  new Tidegate(stack, 'Other', {
    campaigns: [{ name: 'a', weight: 1 }], name: 'other', code: code(),
    sharedBucket: {
      url: 'redis://10.0.0.1',
      vpc: Vpc.fromVpcAttributes(stack, 'Vpc', { vpcId: 'vpc-0a', availabilityZones: ['a'] }),
      subnets: { subnets: [Subnet.fromSubnetId(stack, 'Subnet', 'subnet-0a')] },
    },
  });
  const { violations } = new AwsSolutionsChecks(stack).validateScope(stack);
  assert.deepEqual(violations.map(({ ruleName }) => ruleName), []);
});

test('what is explained to cdk-nag is narrow: of the roles each resource by itself', () => {
  const { explained } = nagged({});
  const roles = [...explained].filter(([, paths]) => [...paths].some((path) => path.endsWith('Role')));
  assert.ok(roles.length > 5);
  for (const [rule] of roles) assert.match(rule, /^AwsSolutions-IAM5\[Resource::.*\*\]$/);
  assert.deepEqual([...explained.get('AwsSolutions-DDB3')!], ['mail/Mail/Template/LedgerTable']);
  assert.deepEqual([...explained.get('AwsSolutions-S1')!], ['mail/Mail/Template/StoreBucket']);
});
