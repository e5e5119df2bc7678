import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { App } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { addStacks } from '../bin/app.js';
import { prebuilt, Rendered } from './support.js';

const ROOT = join(__dirname, '../..');
const temporary = () => mkdtempSync(join(tmpdir(), 'tidegate-cdk-app-'));

/** The app's stacks, with settings as `-c` gives them. */
const stacks = (context: Record<string, unknown>) => addStacks(new App({ context: { prebuilt, ...context } }));

function only(context: Record<string, unknown>): Rendered {
  const [stack, ...others] = stacks(context);
  assert.deepEqual(others, []);
  return new Rendered(Template.fromStack(stack!).toJSON());
}

test('without settings it is the stack of the SAM template', () => {
  const stack = only({});
  stack.queue('tidegate-campaign-main');
  stack.queue('tidegate-campaign-minor');
  const { Outputs } = stack.template;
  assert.deepEqual(Object.keys(Outputs).sort(), [
    'AlarmTopic', 'CampaignQueueUrls', 'ConfigurationSet', 'DeadLetterQueueUrl',
    'FailedInvocationsQueueUrl', 'FeedbackQueueUrl', 'FirstCampaignQueueUrl', 'LedgerTable', 'LimitQueueUrls',
    'MergeQueueUrl', 'PollerFunction', 'PollerLogGroup', 'SchedulerFunction', 'SchedulerLogGroup',
    'SecondCampaignQueueUrl', 'StoreBucket',
  ]);
  assert.equal(Outputs.AlarmTopic.Export.Name, 'tidegate-AlarmTopic');
});

test('settings are read from their texts', () => {
  const texts = only({ name: 'mail', channel: 'sms', origins: '+12065550100, NEWS' });
  assert.equal(texts.environment('poller').TIDEGATE_ORIGINS, '+12065550100,NEWS');
  const stack = only({
    name: 'mail', campaigns: 'big:2,small-one:1', mode: 'direct', expressQueue: 'true', rateMargin: '0.05',
    allowedSenders: 'a@example.org, *@example.net', architecture: 'x86_64', logRetentionDays: '7',
    feedback: 'off', removalPolicy: 'retain', tracing: 'false', alarmEmail: '',
  });
  assert.equal(stack.environment('poller').TIDEGATE_RATE_MARGIN, '0.05');
  assert.equal(stack.environment('poller').TIDEGATE_ALLOWED_SENDERS, 'a@example.org,*@example.net');
  assert.deepEqual(stack.function('poller').Architectures, ['x86_64']);
  assert.equal(stack.queue('mail-campaign-small-one').DeletionPolicy, 'Retain');
  assert.equal(stack.all('AWS::SNS::Subscription').length, 0);
  const { Outputs } = stack.template;
  assert.equal(Outputs.MergeQueueUrl, undefined);
  assert.ok(Outputs.ExpressQueueUrl);
  const urls = JSON.parse(stack.text(Outputs.CampaignQueueUrls.Value));
  assert.deepEqual(urls, { big: 'mail-campaign-big', 'small-one': 'mail-campaign-small-one' });
});

test('a shared bucket is settings of its own, with subnets by their ids', () => {
  const network = { subnetIds: 'subnet-0a1b2c3d,subnet-1b2c3d4e', securityGroupIds: 'sg-0a1b2c3d' };
  const stack = only({
    name: 'mail', sharedBucket: 'rediss://host', sharedBucketLost: 'open', sharedBucketPrefix: 'a', ...network,
  });
  const variables = stack.environment('poller');
  assert.equal(variables.TIDEGATE_SHARED_BUCKET, 'rediss://host');
  assert.equal(variables.TIDEGATE_SHARED_BUCKET_LOST, 'open');
  assert.equal(variables.TIDEGATE_SHARED_BUCKET_PREFIX, 'a');
  assert.deepEqual(stack.function('poller').VpcConfig, {
    SubnetIds: ['subnet-0a1b2c3d', 'subnet-1b2c3d4e'], SecurityGroupIds: ['sg-0a1b2c3d'],
  });
  assert.equal(stack.all('AWS::EC2::SecurityGroup').length, 0);
  const { sharedBucket, ...without } = { sharedBucket: 'redis://host', ...network };
  for (const [context, message] of [
    [{ sharedBucket, subnetIds: 'subnet-0a1b2c3d' }, /^securityGroupIds is \[\], allowed: at least one, since su/],
    [{ sharedBucket, securityGroupIds: 'sg-0a1b2c3d' }, /^subnetIds is \[\], allowed: at least one, since securityGr/],
    [{ ...without }, /^sharedBucket is undefined, allowed: a URL or a secret, since subnetIds are given$/],
    [{ sharedBucket, ...network, subnetIds: 'vpc-0a' }, /^subnetIds is "vpc-0a", allowed: a list such as subnet-/],
  ] as const) assert.throws(() => stacks(context), { message });
});

test('settings are read from cdk.json as well', () => {
  const stack = only({
    name: 'mail', campaigns: [{ name: 'a', weight: 1 }], allowedSenders: ['a@example.org'], rateMargin: 0.05,
    expressQueue: true,
  });
  assert.equal(stack.environment('poller').TIDEGATE_RATE_MARGIN, '0.05');
  assert.ok(stack.template.Outputs.ExpressQueueUrl);
  assert.equal(stack.template.Outputs.SecondCampaignQueueUrl, undefined);
});

test('a setting that cannot be is refused by name', () => {
  const refusals: [Record<string, unknown>, RegExp][] = [
    [{ expresQueue: 'true' }, /^a setting is "expresQueue", allowed: campaigns, name, /],
    [{ rateMargin: 'much' }, /^rateMargin is "much", allowed: a number from 0.005 to 0.5$/],
    [{ rateMargin: '' , idleWakeSeconds: '61' }, /^idleWakeSeconds is "61", allowed: a whole number from 1 to 60$/],
    [{ expressQueue: 'yes' }, /^expressQueue is "yes", allowed: true, false$/],
    [{ architecture: 'arm' }, /^architecture is "arm", allowed: arm64, x86_64$/],
    [{ campaigns: 'big' }, /^campaigns is "big", allowed: a list of NAME:WEIGHT such as big:90,small:10$/],
    [{ campaigns: 'big:x' }, /^campaigns \(big\) is "x", allowed: a number$/],
    [{ regions: 'Ireland' }, /^regions is "Ireland", allowed: regions such as eu-west-1,us-east-1$/],
    [{ prebuilt: '/nowhere' }, /^prebuilt is "\/nowhere", allowed: a directory with scheduler\/bootstrap/],
  ];
  for (const [context, message] of refusals) assert.throws(() => stacks(context), { message });
});

test('each region has its stack, of one name', () => {
  const made = stacks({ name: 'mail', regions: 'eu-west-1,us-east-1' });
  assert.deepEqual(made.map(({ artifactId, stackName, region }) => [artifactId, stackName, region]), [
    ['mail-eu-west-1', 'mail', 'eu-west-1'], ['mail-us-east-1', 'mail', 'us-east-1'],
  ]);
});

test('a stack is protected from deletion, unless that is asked for', () => {
  assert.ok(stacks({})[0]!.terminationProtection);
  assert.ok(!stacks({ terminationProtection: 'false' })[0]!.terminationProtection);
});

test('a file gives settings, with spaces, quotes and $ as they are, and the context counts before it', () => {
  const file = join(temporary(), 'mail.json');
  const limits = 'gmail.com+googlemail.com=10/s, *=25%';
  const given = { name: 'other', limits, sharedBucket: 'rediss://u:$HOME"@host', expressQueue: true };
  writeFileSync(file, JSON.stringify(given));
  const poller = only({ settings: file, name: 'mail' }).environment('poller');
  assert.equal(poller.TIDEGATE_LIMITS, limits);
  assert.equal(poller.TIDEGATE_SHARED_BUCKET, 'rediss://u:$HOME"@host');
  assert.ok(poller.TIDEGATE_EXPRESS_QUEUE_URL);
  writeFileSync(file, '{"maxInFlihgt": 5}');
  assert.throws(() => stacks({ settings: file }), { message: /^a setting is "maxInFlihgt", allowed: / });
  writeFileSync(file, '["a"]');
  assert.throws(() => stacks({ settings: file }), { message: /^settings is ".*mail.json", allowed: a JSON file/ });
});

/** Runs the compiled app as the CDK CLI does. */
function run(context: Record<string, unknown>, environment: Record<string, string> = {}) {
  const out = temporary();
  const ran = spawnSync(process.execPath, [join(ROOT, 'build/bin/tidegate.js')], {
    encoding: 'utf8',
    env: { ...process.env, CDK_CONTEXT_JSON: JSON.stringify(context), CDK_OUTDIR: out, ...environment },
  });
  return { ...ran, out };
}

test('with assetsBucket any CloudFormation can deploy it, and CDK\'s own rules and nag pass', () => {
  const { context } = JSON.parse(readFileSync(join(ROOT, 'cdk.json'), 'utf8'));
  const more = {
    limits: '*=10%', deferral: 'true', sharedBucket: 'rediss://host', subnetIds: 'subnet-0a1b2c3d',
    securityGroupIds: 'sg-0a1b2c3d',
  };
  const { status, stderr, out } = run(
    { ...context, ...more, name: 'mail', prebuilt, assetsBucket: 'code' }, { CDK_VALIDATION: 'true' },
  );
  assert.equal(status, 0, stderr);
  const read = (file: string) => JSON.parse(readFileSync(join(out, file), 'utf8'));
  const template = read('mail.template.json');
  assert.equal(template.Parameters, undefined);
  assert.equal(template.Rules, undefined);
  const stack = new Rendered(template);
  const files = Object.values<any>(read('mail.assets.json').files);
  for (const of of ['scheduler', 'poller'] as const) {
    const { S3Bucket, S3Key } = stack.function(of).Code;
    assert.equal(S3Bucket, 'code');
    const asset = files.find((file) => Object.values<any>(file.destinations)[0].objectKey === S3Key);
    assert.equal(readFileSync(join(out, asset.source.path, 'bootstrap'), 'utf8'), of);
  }
  assert.deepEqual(read('validation-report.json').pluginReports, []);
});

test('what cdk-nag finds ends the synthesis', () => {
  const app = new App({ context: { prebuilt } });
  const [stack] = addStacks(app);
  new Topic(stack!, 'Plain');
  assert.throws(() => app.synth(), /ValidationFailed/);
});

test('a setting that cannot be is told in one line', () => {
  const { status, stderr } = run({ prebuilt, rateMargin: '7' });
  assert.equal(status, 1);
  assert.equal(stderr, 'rateMargin is "7", allowed: a number from 0.005 to 0.5\n');
});

test('without prebuilt packages the app deploys what `make build` made, and says so where it has not', () => {
  const { stderr, status } = run({ name: 'mail' });
  const built = existsSync(join(ROOT, '../../target/lambda/poller/bootstrap'));
  assert.equal(status, built ? 0 : 1, stderr);
  if (!built) assert.match(stderr, /^prebuilt is ".*\/target\/lambda", allowed: .* after make build\n$/);
});

test('the README\'s example is the one that is compiled here', () => {
  // The package's test synthesizes it: a checkout has no functions' zips.
  const example = readFileSync(join(ROOT, 'test/example.ts'), 'utf8');
  const [, shown] = /```ts\n([^]*?)```/.exec(readFileSync(join(ROOT, 'README.md'), 'utf8')) ?? [];
  assert.equal(shown, example);
});
