import { Aws, Stack } from 'aws-cdk-lib';
import type { Table } from 'aws-cdk-lib/aws-dynamodb';
import { Effect, PolicyDocument, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import type { Bucket, CfnBucket } from 'aws-cdk-lib/aws-s3';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { explain } from './explain.js';
import { smsVoice } from './receipts.js';
import type { Settings } from './settings.js';
import { DEFERRAL_PREFIX } from './deferral.js';
import { campaignQueueName, tooLong } from './validate.js';

const account = `${Aws.REGION}:${Aws.ACCOUNT_ID}`;
/** Characters that IAM allows of a role's inline policies, without white space. */
const LARGEST_POLICY = 10_240;
const INTERFACES = `arn:${Aws.PARTITION}:ec2:${account}:*/*`;

/** What the roles may be used on. */
export interface Protected {
  readonly settings: Settings;
  readonly ledger: Table;
  readonly failedInvocations: Queue;
  readonly mergeQueue: Queue;
  readonly expressQueue: Queue;
  readonly limitQueues: Queue[];
  readonly deferralBucket: Bucket;
  readonly deadLetterQueue: Queue;
  readonly alarmTopic: ITopic;
  readonly feedbackQueue?: Queue;
}

/**
 * The scheduler's role. It is our own since the one that CDK makes may write to every log group
 * there is; the poller is named, not referred to, since that one's role comes first.
 */
export function schedulerRole(scope: Construct, log: ILogGroup, on: Protected): Role {
  const { settings, feedbackQueue, deferralBucket } = on;
  const byTag = settings.campaignList === 'tags';
  const deferred = deferralBucket.arnForObjects(`${DEFERRAL_PREFIX}/*`);
  const made = role(scope, 'scheduler', settings, [
    allow('Log', ['logs:CreateLogStream', 'logs:PutLogEvents'], [log.logGroupArn]),
    allow('Tick', ['lambda:InvokeFunction'], [
      `arn:${Aws.PARTITION}:lambda:${account}:function:${settings.name}-poller`,
    ]),
    allow('Ledger', ['dynamodb:BatchGetItem', 'dynamodb:GetItem', 'dynamodb:UpdateItem'], [on.ledger.tableArn]),
    ...quota(settings),
    // Asked for are the tenants for which campaigns are held.
    ...(settings.channel === 'sms' ? [] : [
      allow('Tenants', ['ses:GetTenant', 'ses:ListTenantResources'], [ses('tenant')]),
    ]),
    allow('FailedInvocations', ['sqs:SendMessage'], [on.failedInvocations.queueArn]),
    ...(feedbackQueue === undefined ? [] : [
      allow('Feedback', ['sqs:ReceiveMessage', 'sqs:DeleteMessage'], [feedbackQueue.queueArn]),
    ]),
    // Incidents that no alarm tells, unless all alarms are there.
    allow('Incidents', ['sns:Publish'], [on.alarmTopic.topicArn]),
    // How deep and how old the queues are.
    allow('Pressure', ['sqs:GetQueueAttributes'], mailQueues(on)),
    // What was put aside goes back to its campaign's queue.
    allow('Replay', ['sqs:SendMessage'], [campaignQueues(settings)]),
    allow('Deferral', ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'], [deferred]),
    // Without it S3 says of an object that is not there that it may not be read.
    allow('FindDeferred', ['s3:ListBucket'], [deferralBucket.bucketArn]),
    ...(byTag ? [
      allow('FindCampaigns', ['sqs:ListQueues'], ['*']),
      allow('ReadCampaigns', ['sqs:ListQueueTags'], [campaignQueues(settings)]),
    ] : []),
    ...trace(settings),
  ]);
  explainEveryResource(made, settings, byTag ? ', ListQueues' : '');
  if (settings.channel === 'email') {
    explainResource(made, ses('tenant'), 'Campaigns name their SES tenants, and come and go.');
  }
  explainCampaignQueues(made, settings);
  explainDeferred(made, deferralBucket);
  return made;
}

/**
 * The poller's role. It does not follow `mode` or `expressQueue`: an update changes the role before
 * the function, and a poller that may no longer delete what it sent would have it sent twice.
 */
export function pollerRole(scope: Construct, log: ILogGroup, on: Protected): Role {
  const { settings, mergeQueue, limitQueues, deferralBucket } = on;
  const inVpc = settings.sharedBucket?.vpc !== undefined;
  const deferred = deferralBucket.arnForObjects(`${DEFERRAL_PREFIX}/*`);
  const made = role(scope, 'poller', settings, [
    allow('Log', ['logs:CreateLogStream', 'logs:PutLogEvents'], [log.logGroupArn]),
    // Sent to are the queues of mails for what is tried again.
    allow('Mail', [
      'sqs:ReceiveMessage', 'sqs:SendMessage', 'sqs:DeleteMessage', 'sqs:ChangeMessageVisibility',
    ], mailQueues(on)),
    allow('Depth', ['sqs:GetQueueAttributes'], arns([mergeQueue, ...limitQueues])),
    allow('DeadLetter', ['sqs:SendMessage'], [on.deadLetterQueue.queueArn]),
    allow('Deferral', ['s3:PutObject'], [deferred]),
    // Deleted are the marks of mails that were not sent.
    allow('Ledger', ['dynamodb:BatchGetItem', 'dynamodb:GetItem', 'dynamodb:UpdateItem', 'dynamodb:DeleteItem'], [
      on.ledger.tableArn,
    ]),
    ...(settings.channel === 'sms' ? sendTexts() : sendMails(settings)),
    ...quota(settings),
    allow('FailedInvocations', ['sqs:SendMessage'], [on.failedInvocations.queueArn]),
    ...(inVpc ? network() : []),
    ...trace(settings),
  ]);
  explainEveryResource(made, settings, inVpc ? ', DescribeNetworkInterfaces, DescribeSubnets' : '');
  explainCampaignQueues(made, settings);
  explainDeferred(made, deferralBucket);
  if (inVpc) {
    explainResource(made, INTERFACES, 'Lambda makes and removes the network interfaces, whose names nobody '
      + 'knows before; it wants to be let onto all of them.');
  }
  explainSends(made, settings);
  return made;
}

/** SES checks all three, whichever form the mail has; and identity, template and configuration set each by itself. */
function sendMails(settings: Settings): PolicyStatement[] {
  const send = ['ses:SendEmail', 'ses:SendRawEmail', 'ses:SendTemplatedEmail'];
  const senders = settings.allowedSenders.includes('*')
    ? undefined : { StringLike: { 'ses:FromAddress': settings.allowedSenders } };
  return [
    allow('SendAs', send, identities(settings), senders),
    allow('SendWith', send, [ses('template'), ses('configuration-set')]),
  ];
}

function identities({ senderIdentityArns }: Settings): string[] {
  return senderIdentityArns.includes('*') ? [ses('identity')] : senderIdentityArns;
}

/**
 * What the sending of a text is checked on.
 * https://docs.aws.amazon.com/service-authorization/latest/reference/list_pinpoint-sms-voice-v2.html
 */
const OF_TEXTS = ['phone-number/*', 'pool/*', 'sender-id/*', 'configuration-set/*'];

function sendTexts(): PolicyStatement[] {
  return [allow('SendText', ['sms-voice:SendTextMessage'], OF_TEXTS.map(smsVoice))];
}

function quota({ channel }: Settings): PolicyStatement[] {
  if (channel === 'email') return [allow('Quota', ['ses:GetAccount'], ['*'])];
  return [
    allow('TextQuota', ['sms-voice:DescribePhoneNumbers'], [smsVoice('phone-number/*')]),
    allow('Quota', ['sms-voice:DescribeSpendLimits'], ['*']),
  ];
}

function role(scope: Construct, of: 'scheduler' | 'poller', settings: Settings, statements: PolicyStatement[]): Role {
  const policy = new PolicyDocument({ statements, minimize: false });
  const { length } = JSON.stringify(inFull(Stack.of(scope).resolve(policy), settings.name));
  if (length > LARGEST_POLICY) {
    const longest = (['allowedSenders', 'senderIdentityArns'] as const)
      .reduce((one, other) => (String(settings[one]).length > String(settings[other]).length ? one : other));
    throw tooLong(longest, settings, `what fits into the policy of the ${of}'s role of ${LARGEST_POLICY} characters, and this is `
      + `about ${length}; use *@domain for the senders of a domain, and identity/*.domain for the identities below it`);
  }
  return new Role(scope, of === 'scheduler' ? 'SchedulerRole' : 'PollerRole', {
    assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
    inlinePolicies: { [of]: policy },
  });
}

/** A resolved value with texts, about as long as AWS's, for what only AWS can tell. */
function inFull(value: any, name: string): any {
  if (Array.isArray(value)) return value.map((item) => inFull(item, name));
  if (value === null || typeof value !== 'object') return value;
  if ('Ref' in value) return 'ap-southeast-1';
  if ('Fn::GetAtt' in value) return `arn:aws:service:ap-southeast-1:123456789012:${name}-and-as-much-again`;
  if ('Fn::Join' in value) return inFull(value['Fn::Join'][1], name).join('');
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, inFull(item, name)]));
}

function allow(
  sid: string, actions: string[], resources: string[], conditions?: Record<string, unknown>,
): PolicyStatement {
  return new PolicyStatement({ sid, effect: Effect.ALLOW, actions, resources, conditions });
}

function trace(settings: Settings): PolicyStatement[] {
  if (!settings.tracing) return [];
  return [allow('Trace', ['xray:PutTraceSegments', 'xray:PutTelemetryRecords'], ['*'])];
}

/** Lambda asks for these by the function's role, to put it into subnets. */
function network(): PolicyStatement[] {
  const change = [
    'CreateNetworkInterface', 'DeleteNetworkInterface', 'AssignPrivateIpAddresses', 'UnassignPrivateIpAddresses',
  ];
  return [
    allow('FindNetwork', ['ec2:DescribeNetworkInterfaces', 'ec2:DescribeSubnets'], ['*']),
    allow('JoinNetwork', change.map((action) => `ec2:${action}`), [INTERFACES]),
  ];
}

/** The queues from which mail is sent. */
function mailQueues({ settings, expressQueue, mergeQueue, limitQueues }: Protected): string[] {
  return [campaignQueues(settings), ...arns([expressQueue, mergeQueue, ...limitQueues])];
}

function arns(queues: Queue[]): string[] {
  return queues.map((queue) => queue.queueArn);
}

/** Any campaign's, so that one can come and go without a change of the role. */
function campaignQueues(settings: Settings): string {
  return `arn:${Aws.PARTITION}:sqs:${account}:${campaignQueueName(settings.name, '*')}`;
}

function ses(kind: 'identity' | 'template' | 'configuration-set' | 'tenant'): string {
  return `arn:${Aws.PARTITION}:ses:${account}:${kind}/*`;
}

function explainEveryResource(made: Role, settings: Settings, more: string): void {
  const traced = settings.tracing ? ', PutTraceSegments, PutTelemetryRecords' : '';
  const account = settings.channel === 'sms' ? 'DescribeSpendLimits' : 'GetAccount';
  explainResource(made, '*', `These actions know no resources: ${account}${more}${traced}.`);
  if (settings.channel === 'sms') {
    explainResource(made, smsVoice('phone-number/*'), 'The numbers\' rates give the quota; a pool has several.');
  }
}

function explainSends(made: Role, settings: Settings): void {
  if (settings.channel === 'sms') {
    for (const kind of OF_TEXTS) {
      explainResource(made, smsVoice(kind), 'A text may name its own origin and configuration set; origins narrows '
        + 'the former.');
    }
    return;
  }
  explainResource(made, ses('template'), 'A mail may name its own template.');
  explainResource(made, ses('configuration-set'), 'A mail may name its own configuration set.');
  for (const identity of identities(settings).filter((arn) => arn.includes('*'))) {
    explainResource(made, identity, 'The senders are the user\'s choice: senderIdentityArns narrows the '
      + 'identities, and allowedSenders the addresses (ses:FromAddress).');
  }
}

function explainCampaignQueues(made: Role, settings: Settings): void {
  explainResource(made, campaignQueues(settings), 'The campaigns\' queues, which come and go; the prefix '
    + 'is this Tidegate\'s own.');
}

function explainDeferred(made: Role, bucket: Bucket): void {
  const logicalId = Stack.of(bucket).getLogicalId(bucket.node.defaultChild as CfnBucket);
  explainResource(made, `<${logicalId}.Arn>/${DEFERRAL_PREFIX}/*`, 'The mails that are put aside: an object for many of them, all under one '
    + 'prefix of a bucket that is this Tidegate\'s own.');
}

/** The rule's finding names the pseudo parameters in angle brackets. */
function explainResource(made: Role, resource: string, reason: string): void {
  const named = resource
    .replaceAll(Aws.PARTITION, '<AWS::Partition>')
    .replaceAll(Aws.REGION, '<AWS::Region>')
    .replaceAll(Aws.ACCOUNT_ID, '<AWS::AccountId>');
  explain(made, `AwsSolutions-IAM5[Resource::${named}]`, reason);
}
