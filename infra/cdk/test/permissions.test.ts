import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Template } from 'aws-cdk-lib/assertions';
import { Vpc } from 'aws-cdk-lib/aws-ec2';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Tidegate } from '../lib/index.js';
import { code, made, rendered, Rendered } from './support.js';

const ACCOUNT = 'AWS::Region:AWS::AccountId';
const SES = `arn:AWS::Partition:ses:${ACCOUNT}`;
const DOMAINS = [1, 2, 3, 4, 5, 6].map((group) => `Arn of mail-domain-${group}`);
const CAMPAIGNS = `arn:AWS::Partition:sqs:${ACCOUNT}:mail-campaign-*`;
const MAIL = [CAMPAIGNS, 'Arn of mail-express', 'Arn of mail-merge.fifo', ...DOMAINS];
const DEFERRAL = ['Arn of MailDeferralBucket/deferral/*'];
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
  Ledger: [['dynamodb:BatchGetItem', 'dynamodb:GetItem', 'dynamodb:UpdateItem'], ['Arn of MailLedger']],
  Quota: [['ses:GetAccount'], ['*']],
  Tenants: [['ses:GetTenant', 'ses:ListTenantResources'], [`${SES}:tenant/*`]],
  FailedInvocations: [['sqs:SendMessage'], ['Arn of mail-failed-invocations']],
  Feedback: [['sqs:ReceiveMessage', 'sqs:DeleteMessage'], ['Arn of mail-feedback']],
  Pressure: [['sqs:GetQueueAttributes'], MAIL],
  Replay: [['sqs:SendMessage'], [CAMPAIGNS]],
  Deferral: [['s3:GetObject', 's3:PutObject', 's3:DeleteObject'], DEFERRAL],
  FindDeferred: [['s3:ListBucket'], ['Arn of MailDeferralBucket']],
  Incidents: [['sns:Publish'], ['mail-alarms']],
};
const POLLER = {
  Log: [['logs:CreateLogStream', 'logs:PutLogEvents'], ['Arn of /aws/lambda/mail-poller']],
  Mail: [
    ['sqs:ReceiveMessage', 'sqs:SendMessage', 'sqs:DeleteMessage', 'sqs:ChangeMessageVisibility'], MAIL,
  ],
  Depth: [['sqs:GetQueueAttributes'], ['Arn of mail-merge.fifo', ...DOMAINS]],
  Deferral: [['s3:PutObject'], DEFERRAL],
  DeadLetter: [['sqs:SendMessage'], ['Arn of mail-dead-letter']],
  Ledger: [['dynamodb:BatchGetItem', 'dynamodb:GetItem', 'dynamodb:UpdateItem', 'dynamodb:DeleteItem'], ['Arn of MailLedger']],
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

test('neither role follows limits and deferral: what they once put aside comes back', () => {
  const stack = rendered({ limits: '*=10%', deferral: true });
  assert.deepEqual(permissions(stack, 'poller'), POLLER);
  assert.deepEqual(permissions(stack, 'scheduler'), SCHEDULER);
});

test('in a VPC the poller\'s role, and it alone, lets Lambda join the network', () => {
  const { stack, mail } = made();
  const vpc = new Vpc(stack, 'Vpc');
  const other = new Tidegate(stack, 'Other', {
    campaigns: [{ name: 'a', weight: 1 }], name: 'other', code: code(),
    sharedBucket: { url: 'redis://10.0.0.1', vpc },
  });
  const shown = new Rendered(Template.fromStack(stack).toJSON());
  const change = ['Create', 'Delete'].map((does) => `ec2:${does}NetworkInterface`)
    .concat(['Assign', 'Unassign'].map((does) => `ec2:${does}PrivateIpAddresses`));
  const roles = shown.all('AWS::IAM::Role').map(({ Properties }) => Properties.Policies ?? []).flat();
  const [joining, ...more] = roles.filter((policy: any) => JSON.stringify(policy).includes('ec2:'));
  assert.deepEqual(more, []);
  assert.equal(joining.PolicyName, 'poller');
  const statements = joining.PolicyDocument.Statement.filter(({ Sid }: any) => Sid.endsWith('Network'));
  assert.deepEqual(statements.map(({ Action, Resource }: any) => [Action, shown.text(Resource)]), [
    [['ec2:DescribeNetworkInterfaces', 'ec2:DescribeSubnets'], '*'],
    [change, `arn:AWS::Partition:ec2:${ACCOUNT}:*/*`],
  ]);
  assert.equal(other.poller.isBoundToVpc, true);
  assert.equal(other.scheduler.isBoundToVpc, false);
  assert.equal(mail.poller.isBoundToVpc, false);
  // Its own security group, for the rules of the bucket's: poller.connections.
  assert.equal(shown.all('AWS::EC2::SecurityGroup').length, 1);
  for (const role of shown.all('AWS::IAM::Role')) assert.equal(role.Properties.ManagedPolicyArns, undefined);
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

test('a stack for texts may do nothing with SES, and one for mail nothing with texts', () => {
  const stack = rendered({ channel: 'sms', alarms: 'all' });
  const sms = (kind: string) => `arn:AWS::Partition:sms-voice:${ACCOUNT}:${kind}/*`;
  const quota = {
    TextQuota: [['sms-voice:DescribePhoneNumbers'], [sms('phone-number')]],
    Quota: [['sms-voice:DescribeSpendLimits'], ['*']],
  };
  const { Tenants, ...scheduler } = SCHEDULER;
  const { SendAs, SendWith, ...poller } = POLLER;
  assert.deepEqual(permissions(stack, 'scheduler'), { ...scheduler, ...quota });
  const kinds = ['phone-number', 'pool', 'sender-id', 'configuration-set'];
  assert.deepEqual(permissions(stack, 'poller'), {
    ...poller, ...quota, SendText: [['sms-voice:SendTextMessage'], kinds.map(sms)],
  });
  for (const [channel, others] of [['sms', /ses:|AWS::SES|AWS\/SES/], ['email', /sms-voice|SMSVOICE/]] as const) {
    for (const more of [{}, { feedback: 'off' }] as const) {
      const { stack: whole, mail } = made({ channel, ...more });
      mail.grantOperate(new Role(whole, 'Operator', { assumedBy: new ServicePrincipal('ec2.amazonaws.com') }));
      assert.doesNotMatch(JSON.stringify(Template.fromStack(whole).toJSON()), others);
    }
  }
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
    'Arn of MailFeedbackSuppressedBounceRule', 'Arn of MailFeedbackSuppressedComplaintRule',
    'Arn of MailFeedbackDelayRule', 'Arn of MailFeedbackSoftBounceRule',
    'Arn of MailFeedbackRenderingFailureRule', 'Arn of MailFeedbackRejectRule',
  ]);
  assert.deepEqual(allowed('AWS::SQS::QueuePolicy', 'Queues', 'mail-campaign-big'), []);
});
