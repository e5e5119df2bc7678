import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rendered } from './support.js';
import type { Rendered } from './support.js';

const ACCOUNT = 'AWS::Region:AWS::AccountId';
const SES = `arn:AWS::Partition:ses:${ACCOUNT}`;
const SEND = ['ses:SendEmail', 'ses:SendRawEmail', 'ses:SendTemplatedEmail'];

/** Every statement of a role: what may be done on what, and if what. */
function permissions(stack: Rendered, of: 'scheduler' | 'poller'): Record<string, unknown[]> {
  const list = (value: unknown) => (Array.isArray(value) ? value : [value]);
  return Object.fromEntries(Object.entries(stack.statements(of)).map(([sid, statement]) => {
    assert.equal(statement.Effect, 'Allow');
    const resources = list(statement.Resource).map((resource) => stack.text(resource));
    const condition = statement.Condition ? [statement.Condition] : [];
    return [sid, [list(statement.Action), resources, ...condition]];
  }));
}

const SCHEDULER = {
  Log: [['logs:CreateLogStream', 'logs:PutLogEvents'], ['Arn of /aws/lambda/mail-scheduler']],
  Tick: [['lambda:InvokeFunction'], [`arn:AWS::Partition:lambda:${ACCOUNT}:function:mail-poller`]],
  Ledger: [['dynamodb:GetItem', 'dynamodb:UpdateItem'], ['Arn of MailLedger']],
  Quota: [['ses:GetAccount'], ['*']],
  FailedInvocations: [['sqs:SendMessage'], ['Arn of mail-failed-invocations']],
  Feedback: [['sqs:ReceiveMessage', 'sqs:DeleteMessage'], ['Arn of mail-feedback']],
};
const POLLER = {
  Log: [['logs:CreateLogStream', 'logs:PutLogEvents'], ['Arn of /aws/lambda/mail-poller']],
  Mail: [
    ['sqs:ReceiveMessage', 'sqs:SendMessage', 'sqs:DeleteMessage', 'sqs:ChangeMessageVisibility'],
    [`arn:AWS::Partition:sqs:${ACCOUNT}:mail-campaign-*`, 'Arn of mail-express', 'Arn of mail-merge.fifo'],
  ],
  MergeDepth: [['sqs:GetQueueAttributes'], ['Arn of mail-merge.fifo']],
  DeadLetter: [['sqs:SendMessage'], ['Arn of mail-dead-letter']],
  Ledger: [['dynamodb:GetItem', 'dynamodb:UpdateItem', 'dynamodb:DeleteItem'], ['Arn of MailLedger']],
  SendAs: [SEND, [`${SES}:identity/*`]],
  SendWith: [SEND, [`${SES}:template/*`, `${SES}:configuration-set/*`]],
  Quota: [['ses:GetAccount'], ['*']],
  FailedInvocations: [['sqs:SendMessage'], ['Arn of mail-failed-invocations']],
};

test('each role may do what its function does, and nothing else', () => {
  const stack = rendered();
  assert.deepEqual(permissions(stack, 'scheduler'), SCHEDULER);
  assert.deepEqual(permissions(stack, 'poller'), POLLER);
  assert.equal(stack.all('AWS::IAM::Policy').length, 0);
  assert.equal(stack.all('AWS::IAM::Role').length, 2);
  for (const role of stack.all('AWS::IAM::Role')) {
    assert.equal(role.Properties.ManagedPolicyArns, undefined);
    assert.equal(role.Properties.Policies.length, 1);
  }
});

test('the poller\'s role does not follow the mode, so that an update strands no mail', () => {
  assert.deepEqual(permissions(rendered({ mode: 'direct', expressQueue: true }), 'poller'), POLLER);
});

test('campaigns by tag: the scheduler may look for them', () => {
  const stack = rendered({ campaignList: 'tags' });
  assert.deepEqual(permissions(stack, 'scheduler'), {
    ...SCHEDULER,
    FindCampaigns: [['sqs:ListQueues'], ['*']],
    ReadCampaigns: [['sqs:ListQueueTags'], [`arn:AWS::Partition:sqs:${ACCOUNT}:mail-campaign-*`]],
  });
  assert.deepEqual(permissions(stack, 'poller'), POLLER);
});

test('tracing adds two actions to both roles, and no policy', () => {
  const stack = rendered({ tracing: true });
  const Trace = [['xray:PutTraceSegments', 'xray:PutTelemetryRecords'], ['*']];
  assert.deepEqual(permissions(stack, 'scheduler'), { ...SCHEDULER, Trace });
  assert.deepEqual(permissions(stack, 'poller'), { ...POLLER, Trace });
  assert.equal(stack.all('AWS::IAM::Policy').length, 0);
});

test('senders narrow what the poller may send as', () => {
  const arn = 'arn:aws:ses:eu-west-1:123456789012:identity/example.org';
  const stack = rendered({ allowedSenders: ['a@example.org', '*@example.net'], senderIdentityArns: [arn] });
  assert.deepEqual(permissions(stack, 'poller').SendAs, [SEND, [arn], {
    StringLike: { 'ses:FromAddress': ['a@example.org', '*@example.net'] },
  }]);
});

test('without feedback the scheduler may not read it', () => {
  const { Feedback, ...rest } = SCHEDULER;
  assert.deepEqual(permissions(rendered({ feedback: 'off' }), 'scheduler'), rest);
});

test('who may write to the queue of feedback and to the topic', () => {
  const stack = rendered();
  const allowed = (type: string, of: string, name: string) => stack.all(type)
    .filter(({ Properties }) => Properties[of].some((target: unknown) => stack.text(target) === name))
    .flatMap(({ Properties }) => Properties.PolicyDocument.Statement)
    .filter((statement: any) => statement.Effect === 'Allow')
    .map(({ Principal, Action, Condition }: any) => [Principal.Service, Action, Object.values(Condition)]);
  assert.deepEqual(allowed('AWS::SNS::TopicPolicy', 'Topics', 'mail-alarms'), [
    ['cloudwatch.amazonaws.com', 'sns:Publish', [{ 'aws:SourceAccount': { Ref: 'AWS::AccountId' } }]],
  ]);
  const [[service, action, [condition]]] = allowed('AWS::SQS::QueuePolicy', 'Queues', 'mail-feedback') as any;
  assert.deepEqual([service, action], ['events.amazonaws.com', 'sqs:SendMessage']);
  assert.deepEqual(condition['aws:SourceArn'].map((arn: unknown) => stack.text(arn)), [
    'Arn of MailFeedbackBounceRule', 'Arn of MailFeedbackComplaintRule',
  ]);
  assert.deepEqual(allowed('AWS::SQS::QueuePolicy', 'Queues', 'mail-campaign-big'), []);
});
