import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RemovalPolicy, SecretValue } from 'aws-cdk-lib';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import type { TidegateProps } from '../lib/index.js';
import { rendered } from './support.js';
import type { Rendered } from './support.js';

const LIMIT_QUEUES = [1, 2, 3, 4, 5, 6].map((group) => `mail-domain-${group}`);
const QUEUES = [
  'mail-campaign-big', 'mail-campaign-small', 'mail-express', 'mail-merge.fifo', 'mail-dead-letter',
  'mail-failed-invocations', 'mail-feedback', ...LIMIT_QUEUES,
];

test('each queue is encrypted, keeps messages for 14 days, takes TLS only, and redrives nothing', () => {
  const stack = rendered();
  assert.deepEqual(stack.all('AWS::SQS::Queue').map((q) => q.Properties.QueueName).sort(), [...QUEUES].sort());
  for (const name of QUEUES) {
    const { Properties } = stack.queue(name);
    assert.equal(Properties.SqsManagedSseEnabled, true, name);
    assert.equal(Properties.MessageRetentionPeriod, 1_209_600, name);
    assert.equal(Properties.VisibilityTimeout, 30, name);
    assert.equal(Properties.RedrivePolicy, undefined, name);
    const [policy] = stack.all('AWS::SQS::QueuePolicy')
      .filter((p) => p.Properties.Queues.some((queue: unknown) => stack.text(queue) === name));
    const denied = policy?.Properties.PolicyDocument.Statement.find((s: any) => s.Effect === 'Deny');
    assert.equal(denied?.Action, 'sqs:*', name);
    assert.deepEqual(denied?.Condition, { Bool: { 'aws:SecureTransport': 'false' } }, name);
  }
});

test('mails leave room for our attributes, and the merge queue is one of high throughput', () => {
  const stack = rendered();
  for (const name of ['mail-campaign-big', 'mail-campaign-small', 'mail-express']) {
    assert.equal(stack.queue(name).Properties.MaximumMessageSize, 1_032_192, name);
  }
  const { Properties } = stack.queue('mail-merge.fifo');
  assert.equal(Properties.FifoQueue, true);
  assert.equal(Properties.DeduplicationScope, 'messageGroup');
  assert.equal(Properties.FifoThroughputLimit, 'perMessageGroupId');
});

test('where mail moves with our attributes, SQS\'s own limit of its size holds', () => {
  for (const name of ['mail-merge.fifo', 'mail-dead-letter', ...LIMIT_QUEUES]) {
    assert.equal(rendered().queue(name).Properties.MaximumMessageSize, undefined, name);
  }
});

test('a queue of recipient domains says which one it is, and is no campaign', () => {
  for (const [index, name] of LIMIT_QUEUES.entries()) {
    const { Properties } = rendered().queue(name);
    assert.deepEqual(Properties.Tags, [{ Key: 'tidegate:domains', Value: String(index + 1) }], name);
    assert.equal(Properties.FifoQueue, undefined, name);
  }
});

test('what is put aside is encrypted, nobody else\'s, expires never, and outlives the stack', () => {
  const stack = rendered({ removalPolicy: RemovalPolicy.DESTROY });
  const [bucket, ...others] = stack.all('AWS::S3::Bucket');
  assert.deepEqual(others, []);
  const [policy] = stack.all('AWS::S3::BucketPolicy');
  for (const kept of [bucket, policy]) {
    assert.equal(kept?.DeletionPolicy, 'RetainExceptOnCreate');
    assert.equal(kept?.UpdateReplacePolicy, 'Retain');
  }
  const { Properties } = bucket!;
  assert.equal(Properties.BucketName, undefined);
  assert.equal(Properties.VersioningConfiguration, undefined);
  assert.deepEqual(Properties.BucketEncryption.ServerSideEncryptionConfiguration, [
    { ServerSideEncryptionByDefault: { SSEAlgorithm: 'AES256' } },
  ]);
  assert.ok(Object.values(Properties.PublicAccessBlockConfiguration).every((blocked) => blocked === true));
  assert.deepEqual(Properties.OwnershipControls.Rules, [{ ObjectOwnership: 'BucketOwnerEnforced' }]);
  const expiring = Properties.LifecycleConfiguration.Rules.filter((rule: any) => rule.ExpirationInDays);
  assert.deepEqual(expiring.map((rule: any) => rule.Prefix), ['deferral/progress/']);
  const [denied, ...more] = policy!.Properties.PolicyDocument.Statement;
  assert.deepEqual(more, []);
  assert.deepEqual([denied.Effect, denied.Action, denied.Condition], [
    'Deny', 's3:*', { Bool: { 'aws:SecureTransport': 'false' } },
  ]);
});

test('a campaign\'s queue says its weight and name', () => {
  const tags = rendered().queue('mail-campaign-big').Properties.Tags;
  assert.deepEqual(tags, [
    { Key: 'tidegate:campaign', Value: 'big' }, { Key: 'tidegate:weight', Value: '90' },
  ]);
});

test('no prop deletes a queue with mail in it', () => {
  const stack = rendered({
    mode: 'direct', expressQueue: false, feedback: 'off', removalPolicy: RemovalPolicy.RETAIN,
  });
  const mails = QUEUES.filter((name) => name !== 'mail-feedback' && name !== 'mail-failed-invocations');
  for (const name of mails) {
    assert.equal(stack.queue(name).DeletionPolicy, 'Retain', name);
    assert.equal(stack.queue(name).UpdateReplacePolicy, 'Retain', name);
  }
  assert.equal(rendered().queue('mail-express').DeletionPolicy, 'Delete');
});

test('the functions are as the design says', () => {
  const stack = rendered();
  for (const [of, timeout, memory] of [['scheduler', 90, 128], ['poller', 15, 256]] as const) {
    const made = stack.function(of);
    assert.equal(made.Runtime, 'provided.al2023');
    assert.equal(made.Handler, 'bootstrap');
    assert.deepEqual(made.Architectures, ['arm64']);
    assert.equal(made.MemorySize, memory);
    assert.equal(made.Timeout, timeout);
    assert.deepEqual(made.TracingConfig, { Mode: 'PassThrough' });
    assert.equal(made.ReservedConcurrentExecutions, undefined);
    assert.equal(stack.text(made.LoggingConfig.LogGroup), `/aws/lambda/mail-${of}`);
  }
  assert.deepEqual(stack.all('AWS::Lambda::EventInvokeConfig').map(({ Properties }) => [
    stack.text(Properties.FunctionName), Properties.MaximumRetryAttempts,
    Properties.MaximumEventAgeInSeconds, stack.text(Properties.DestinationConfig.OnFailure.Destination),
  ]).sort(), [
    ['mail-poller', 0, 60, 'Arn of mail-failed-invocations'],
    ['mail-scheduler', 0, 60, 'Arn of mail-failed-invocations'],
  ]);
});

test('the functions\' settings follow the props', () => {
  const stack = rendered({
    architecture: Architecture.X86_64, pollerMemory: 1769, schedulerMemory: 512,
    reservedConcurrency: 10, tracing: true, logRetentionDays: 7,
  });
  assert.deepEqual(stack.function('poller').Architectures, ['x86_64']);
  assert.equal(stack.function('poller').MemorySize, 1769);
  assert.equal(stack.function('poller').ReservedConcurrentExecutions, 10);
  assert.equal(stack.function('scheduler').MemorySize, 512);
  assert.equal(stack.function('scheduler').ReservedConcurrentExecutions, undefined);
  assert.deepEqual(stack.function('scheduler').TracingConfig, { Mode: 'Active' });
  for (const log of stack.all('AWS::Logs::LogGroup')) assert.equal(log.Properties.RetentionInDays, 7);
});

const CAMPAIGNS = '[{"name":"big","queue_url":"mail-campaign-big","weight":90},'
  + '{"name":"small","queue_url":"mail-campaign-small","weight":10}]';
const SHARED = {
  TIDEGATE_CAMPAIGNS: CAMPAIGNS, TIDEGATE_MERGE_QUEUE_URL: 'mail-merge.fifo',
  TIDEGATE_LIMIT_QUEUES: LIMIT_QUEUES.join(','),
  TIDEGATE_LEDGER: 'dynamodb:MailLedger', TIDEGATE_TICK_LEAD_MS: '400', TIDEGATE_DAILY: 'full',
  TIDEGATE_DAILY_RESERVE: '1%', RUST_LOG: 'info',
};

test('the scheduler\'s environment', () => {
  assert.deepEqual(texts(rendered(), 'scheduler'), {
    ...SHARED, TIDEGATE_POLLER_FUNCTION: 'mail-poller', TIDEGATE_IDLE_WAKE_SECONDS: '60',
    TIDEGATE_ALARM_TOPIC: 'mail-alarms', TIDEGATE_OVERLAP_WINDOWS: '10', TIDEGATE_FEEDBACK: 'hold', TIDEGATE_FEEDBACK_QUEUE_URL: 'mail-feedback',
    TIDEGATE_BOUNCE_SHARE: '0.05', TIDEGATE_COMPLAINT_SHARE: '0.001', TIDEGATE_FEEDBACK_MINIMUM: '1000',
  });
});

test('the poller\'s environment', () => {
  assert.deepEqual(texts(rendered(), 'poller'), {
    ...SHARED,
    TIDEGATE_DEAD_LETTER_QUEUE_URL: 'mail-dead-letter', TIDEGATE_CAMPAIGN_FLOOR: '0%',
    TIDEGATE_CONFIGURATION_SET: 'mail', TIDEGATE_RATE_MARGIN: '0.02', TIDEGATE_MAX_ATTEMPTS: '5',
    TIDEGATE_UNSENT: 'timeout', TIDEGATE_IDLE_WINDOWS: '5', TIDEGATE_DEDUPLICATION: 'off',
    TIDEGATE_DEDUPLICATION_DAYS: '15', TIDEGATE_BREAKER_SHARE: '0.2', TIDEGATE_BREAKER_SECONDS: '60',
    TIDEGATE_BREAKER_OUTCOMES: '20', TIDEGATE_BREAKER_STOP_SECONDS: '30',
    TIDEGATE_BREAKER_PROBE_SECONDS: '15', TIDEGATE_ALLOWED_SENDERS: '*',
  });
});

test('a stack for texts says so to its functions, and where texts may come from and go to', () => {
  const sesEndpointUrl = 'http://127.0.0.1:4567';
  const stack = rendered({
    channel: 'sms', origins: ['+12065550100', 'NEWS'], allowedCountries: ['+1', '+49'], sesEndpointUrl,
  });
  const texts_ = {
    TIDEGATE_CHANNEL: 'sms', TIDEGATE_ORIGINS: '+12065550100,NEWS',
    AWS_ENDPOINT_URL_SESV2: sesEndpointUrl, AWS_ENDPOINT_URL_PINPOINT_SMS_VOICE_V2: sesEndpointUrl,
  };
  assert.deepEqual(texts(stack, 'scheduler'), { ...texts(rendered(), 'scheduler'), ...texts_ });
  assert.deepEqual(texts(stack, 'poller'), {
    ...texts(rendered(), 'poller'), ...texts_, TIDEGATE_CONFIGURATION_SET: 'MailFeedbackConfigurationSet',
    TIDEGATE_ALLOWED_COUNTRIES: '+1,+49',
  });
});

/** What a prop puts into which environment. */
const EFFECTS: [Partial<TidegateProps>, Record<string, Record<string, string | undefined>>][] = [
  [{ quotaPerSecond: 0.5 }, { both: { TIDEGATE_QUOTA_PER_SECOND: '0.5' } }],
  [{ tickLeadMs: 300 }, { both: { TIDEGATE_TICK_LEAD_MS: '300' } }],
  [{ overlapWindows: 5 }, { scheduler: { TIDEGATE_OVERLAP_WINDOWS: '5' } }],
  [{ daily: 'spread', dailyReserve: '500' }, {
    both: { TIDEGATE_DAILY: 'spread', TIDEGATE_DAILY_RESERVE: '500' },
  }],
  [{ logLevel: 'info,tidegate=debug' }, { both: { RUST_LOG: 'info,tidegate=debug' } }],
  [{ endpointUrl: 'http://a', sqsEndpointUrl: 'http://b', sesEndpointUrl: 'http://c' }, {
    both: {
      AWS_ENDPOINT_URL: 'http://a', AWS_ENDPOINT_URL_SQS: 'http://b', AWS_ENDPOINT_URL_SESV2: 'http://c',
    },
  }],
  [{ mode: 'direct' }, { both: { TIDEGATE_MERGE_QUEUE_URL: undefined } }],
  [{ expressQueue: true }, { both: { TIDEGATE_EXPRESS_QUEUE_URL: 'mail-express' } }],
  [{ campaignList: 'ledger' }, { both: { TIDEGATE_CAMPAIGNS: 'ledger' } }],
  [{ campaigns: [{ name: 'big', weight: 1, tenant: 'acme' }] }, {
    both: { TIDEGATE_CAMPAIGNS: '[{"name":"big","queue_url":"mail-campaign-big","weight":1,"tenant":"acme"}]' },
  }],
  [{ campaignList: 'tags' }, {
    both: { TIDEGATE_CAMPAIGNS: 'ledger' }, scheduler: { TIDEGATE_CAMPAIGN_QUEUES: 'mail-campaign-' },
  }],
  [{ campaignFloor: '12%' }, { poller: { TIDEGATE_CAMPAIGN_FLOOR: '12%' } }],
  [{ limits: 'gmail.com+googlemail.com=10/s, *=25%' }, {
    poller: { TIDEGATE_LIMITS: 'gmail.com+googlemail.com=10/s, *=25%' },
  }],
  [{ sharedBucket: { url: 'rediss://host' } }, {
    poller: {
      TIDEGATE_SHARED_BUCKET: 'rediss://host', TIDEGATE_SHARED_BUCKET_LOST: 'closed',
      TIDEGATE_SHARED_BUCKET_PREFIX: 'tidegate',
    },
  }],
  [{ sharedBucket: { url: SecretValue.secretsManager('bucket'), lost: 'open', prefix: 'mail' } }, {
    poller: {
      TIDEGATE_SHARED_BUCKET: '{{resolve:secretsmanager:bucket:SecretString:::}}',
      TIDEGATE_SHARED_BUCKET_LOST: 'open', TIDEGATE_SHARED_BUCKET_PREFIX: 'mail',
    },
  }],
  [{ backPressureBusy: 'depth=4h', backPressureOverloaded: 'off', deferralReplay: 'off' }, {
    scheduler: { TIDEGATE_BACK_PRESSURE_BUSY: 'depth=4h', TIDEGATE_BACK_PRESSURE_OVERLOADED: 'off' },
  }],
  [{ deferral: true }, {
    both: { TIDEGATE_DEFERRAL: 's3://MailDeferralBucket/deferral' }, scheduler: { TIDEGATE_DEFERRAL_REPLAY: 'auto' },
  }],
  [{ deferral: true, deferralReplay: 'off' }, {
    both: { TIDEGATE_DEFERRAL: 's3://MailDeferralBucket/deferral' }, scheduler: { TIDEGATE_DEFERRAL_REPLAY: 'off' },
  }],
  [{ maxAttempts: 3 }, { poller: { TIDEGATE_MAX_ATTEMPTS: '3' } }],
  [{ unsent: 'release' }, { poller: { TIDEGATE_UNSENT: 'release' } }],
  [{ idleWindows: 60 }, { poller: { TIDEGATE_IDLE_WINDOWS: '60' } }],
  [{ idleWakeSeconds: 30 }, { scheduler: { TIDEGATE_IDLE_WAKE_SECONDS: '30' } }],
  [{ allowedSenders: ['a@example.org', '*@example.net'] }, {
    poller: { TIDEGATE_ALLOWED_SENDERS: 'a@example.org,*@example.net' },
  }],
  [{ rateMargin: 0.05, maxInFlight: 100 }, {
    poller: { TIDEGATE_RATE_MARGIN: '0.05', TIDEGATE_MAX_IN_FLIGHT: '100' },
  }],
  [{ deduplication: 'park', deduplicationDays: 20 }, {
    poller: { TIDEGATE_DEDUPLICATION: 'park', TIDEGATE_DEDUPLICATION_DAYS: '20' },
  }],
  [{ breakerShare: 0.5, breakerSeconds: 15, breakerOutcomes: 1 }, {
    poller: {
      TIDEGATE_BREAKER_SHARE: '0.5', TIDEGATE_BREAKER_SECONDS: '15', TIDEGATE_BREAKER_OUTCOMES: '1',
    },
  }],
  [{ breakerStopSeconds: 2, breakerProbeSeconds: 12 }, {
    poller: { TIDEGATE_BREAKER_STOP_SECONDS: '2', TIDEGATE_BREAKER_PROBE_SECONDS: '12' },
  }],
  [{ feedback: 'count', bounceShare: 0.1, complaintShare: 0.0002, feedbackMinimum: 100 }, {
    scheduler: {
      TIDEGATE_FEEDBACK: 'count', TIDEGATE_BOUNCE_SHARE: '0.1', TIDEGATE_COMPLAINT_SHARE: '0.0002',
      TIDEGATE_FEEDBACK_MINIMUM: '100',
    },
  }],
  [{ feedback: 'off' }, {
    scheduler: { TIDEGATE_FEEDBACK: 'off', TIDEGATE_FEEDBACK_QUEUE_URL: undefined },
    poller: { TIDEGATE_CONFIGURATION_SET: undefined },
  }],
];

for (const [props, changes] of EFFECTS) {
  test(`the environment follows ${JSON.stringify(props)}, and nothing else of it changes`, () => {
    const [before, after] = [rendered(), rendered(props)];
    for (const name of ['scheduler', 'poller'] as const) {
      const expected = { ...texts(before, name), ...changes.both, ...changes[name] };
      const present = Object.entries(expected).filter(([, value]) => value !== undefined);
      assert.deepEqual(texts(after, name), Object.fromEntries(present), name);
    }
  });
}

function texts(stack: Rendered, of: 'scheduler' | 'poller'): Record<string, string> {
  const variables = Object.entries(stack.environment(of));
  return Object.fromEntries(variables.map(([name, value]) => [name, stack.text(value)]));
}

test('the minute\'s trigger runs unless it is told not to', () => {
  const trigger = (stack: Rendered) => (
    stack.one('AWS::Events::Rule', 'ScheduleExpression', 'rate(1 minute)').Properties
  );
  const stack = rendered();
  assert.equal(trigger(stack).State, 'ENABLED');
  assert.deepEqual(trigger(stack).Targets.map((target: any) => [stack.text(target.Arn), target.RetryPolicy]), [
    ['Arn of mail-scheduler', { MaximumEventAgeInSeconds: 60, MaximumRetryAttempts: 2 }],
  ]);
  assert.equal(trigger(rendered({ schedule: 'DISABLED' })).State, 'DISABLED');
});

test('the ledger expires what is old, costs by use, and can be restored if that is wanted', () => {
  const table = (props = {}) => rendered(props).all('AWS::DynamoDB::Table')[0]!.Properties;
  assert.equal(table().BillingMode, 'PAY_PER_REQUEST');
  assert.deepEqual(table().KeySchema, [{ AttributeName: 'pk', KeyType: 'HASH' }]);
  assert.deepEqual(table().TimeToLiveSpecification, { AttributeName: 'expires_at', Enabled: true });
  const recovery = (props = {}) => table(props).PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled;
  assert.equal(recovery(), false);
  assert.equal(recovery({ pointInTimeRecovery: true }), true);
});

test('SES\'s bounces, complaints, deferrals and dropped mail reach the feedback queue, without headers', () => {
  const stack = rendered();
  const ours = { tags: { 'ses:configuration-set': ['mail'] } };
  // Without a limit that hears of deferrals no mail has the tag, and none costs anything.
  const limited = { tags: { ...ours.tags, tidegate_limit: [{ exists: true }] } };
  const suppressed = [
    'OnAccountSuppressionList', 'OnTenantSuppressionList', 'UnsubscribedRecipient', 'EmailValidationSuppressed',
  ];
  const counted = [{ exists: false }, { 'anything-but': suppressed }];
  const rules = stack.all('AWS::Events::Rule').map((r) => r.Properties).filter((r) => r.EventPattern);
  assert.deepEqual(rules.map((rule) => [rule.EventPattern['detail-type'][0], rule.EventPattern.detail]), [
    ['Email Bounced', { bounce: { bounceType: ['Permanent'], bounceSubType: counted }, mail: ours }],
    ['Email Complaint Received', {
      complaint: {
        complaintFeedbackType: [{ exists: false }, { 'anything-but': ['not-spam'] }], complaintSubType: counted,
      },
      mail: ours,
    }],
    ['Email Bounced', { bounce: { bounceSubType: suppressed }, mail: ours }],
    ['Email Complaint Received', { complaint: { complaintSubType: suppressed }, mail: ours }],
    ['Email Delivery Delayed', {
      deliveryDelay: {
        delayType: [
          'General', 'IPFailure', 'RecipientServerError', 'SendingDeferral', 'SpamDetected',
          'TransientCommunicationFailure',
        ],
      },
      mail: limited,
    }],
    ['Email Bounced', {
      bounce: { bounceType: ['Transient'], bounceSubType: ['General'], bouncedRecipients: { action: ['failed'] } },
      mail: limited,
    }],
    ['Email Rendering Failed', { mail: ours }],
    ['Email Rejected', { mail: ours }],
  ]);
  const told = [
    ['bounce', 'bounce.bouncedRecipients'], ['complaint', 'complaint.complainedRecipients'],
    ['suppressed', 'bounce.bouncedRecipients'], ['suppressed', 'complaint.complainedRecipients'],
    ['deferral', 'deliveryDelay.delayedRecipients'], ['deferral', 'bounce.bouncedRecipients'],
    ['dropped', 'mail.destination', 'failure.errorMessage'], ['dropped', 'mail.destination', 'reject.reason'],
  ];
  for (const [index, [kind, recipients, reason]] of told.entries()) {
    const [target] = rules[index].Targets;
    assert.equal(stack.text(target.Arn), 'Arn of mail-feedback');
    assert.deepEqual(target.InputTransformer, {
      InputPathsMap: {
        campaign: '$.detail.mail.tags.tidegate_campaign', id: '$.detail.mail.messageId', recipients: `$.detail.${recipients}`,
        tags: '$.detail.mail.tags', sent_at: '$.detail.mail.timestamp',
        ...(reason ? { reason: `$.detail.${reason}` } : {}),
      },
      InputTemplate:
        `{"kind": "${kind}", "campaign": <campaign>, "id": <id>, "recipients": <recipients>, "tags": <tags>, `
        + `"sent_at": <sent_at>${reason ? ', "reason": <reason>' : ''}}`,
    });
  }
  const destination = stack.all('AWS::SES::ConfigurationSetEventDestination')[0]!.Properties.EventDestination;
  assert.deepEqual(
    destination.MatchingEventTypes, ['bounce', 'complaint', 'deliveryDelay', 'renderingFailure', 'reject'],
  );
  const set = stack.one('AWS::SES::ConfigurationSet', 'Name', 'mail').Properties;
  assert.deepEqual(set.ReputationOptions, { ReputationMetricsEnabled: true });
  assert.deepEqual(set.SendingOptions, { SendingEnabled: true });
});

test('without feedback there is nothing of it', () => {
  const stack = rendered({ feedback: 'off' });
  assert.equal(stack.all('AWS::SES::ConfigurationSet').length, 0);
  assert.equal(stack.all('AWS::SES::ConfigurationSetEventDestination').length, 0);
  assert.equal(stack.all('AWS::Events::Rule').length, 1);
  assert.throws(() => stack.queue('mail-feedback'));
});
