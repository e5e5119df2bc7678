import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { CliCredentialsStackSynthesizer, RemovalPolicy, Validations } from 'aws-cdk-lib';
import type { App, IStackSynthesizer } from 'aws-cdk-lib';
import { Architecture, Code } from 'aws-cdk-lib/aws-lambda';
import { AwsSolutionsChecks } from 'cdk-nag';
import type { Campaign, TidegateCode, TidegateProps } from '../lib/props.js';
import type { SharedBucket } from '../lib/shared.js';
import { TidegateStack } from '../lib/stack.js';
import type { Network } from '../lib/stack.js';
import { InvalidProp } from '../lib/validate.js';

/** How a setting is read: from `-c NAME=TEXT`, or from cdk.json as JSON of the same meaning. */
type Reader = (name: string, value: unknown) => unknown;

const PROPS: Record<Exclude<keyof TidegateProps, 'code'>, Reader> = {
  campaigns,
  name: text,
  channel: text,
  origins: list,
  allowedCountries: list,
  campaignList: text,
  mode: text,
  expressQueue: yesNo,
  campaignFloor: text,
  limits: text,
  sharedBucket: (name, url) => ({ url: text(name, url) }),
  backPressureBusy: text,
  backPressureOverloaded: text,
  deferral: yesNo,
  deferralReplay: text,
  maxAttempts: number,
  unsent: text,
  idleWindows: number,
  idleWakeSeconds: number,
  allowedSenders: list,
  senderIdentityArns: list,
  quotaPerSecond: number,
  rateMargin: number,
  tickLeadMs: number,
  overlapWindows: number,
  maxInFlight: number,
  daily: text,
  dailyReserve: text,
  deduplication: text,
  deduplicationDays: number,
  breakerShare: number,
  breakerSeconds: number,
  breakerOutcomes: number,
  breakerStopSeconds: number,
  breakerProbeSeconds: number,
  feedback: text,
  bounceShare: number,
  complaintShare: number,
  feedbackMinimum: number,
  schedule: text,
  architecture: choice({ arm64: Architecture.ARM_64, x86_64: Architecture.X86_64 }),
  pollerMemory: number,
  schedulerMemory: number,
  reservedConcurrency: number,
  tracing: yesNo,
  logLevel: text,
  logRetentionDays: number,
  pointInTimeRecovery: yesNo,
  removalPolicy: choice({ destroy: RemovalPolicy.DESTROY, retain: RemovalPolicy.RETAIN }),
  alarmEmail: text,
  alarms: text,
  ageAlarmSeconds: number,
  endpointUrl: text,
  sqsEndpointUrl: text,
  sesEndpointUrl: text,
};

/** Where `make build` puts the functions, as seen from where this file is compiled to, build/bin. */
const BUILT = resolve(__dirname, '../../../../target/lambda');

/** Those of the SAM template. */
const DEFAULT_CAMPAIGNS = [{ name: 'main', weight: 90 }, { name: 'minor', weight: 10 }];

/** Settings of the app itself. */
const OWN = [
  'settings', 'regions', 'prebuilt', 'assetsBucket', 'terminationProtection',
  'sharedBucketLost', 'sharedBucketPrefix', 'subnetIds', 'securityGroupIds',
];

/**
 * The app: one stack a region, by the settings in the context (`-c NAME=VALUE`, or `context` in
 * cdk.json), checked by cdk-nag.
 * @throws InvalidProp for the first setting that cannot be.
 */
export function addStacks(app: App): TidegateStack[] {
  const given = settings(app);
  const props = readProps(given);
  const name = props.name ?? 'tidegate';
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app, { verbose: true }));
  const regions = given.regions === undefined ? [] : list('regions', given.regions);
  if (regions.length === 0) return [stack(app, name, name, props, given)];
  return regions.map((region) => {
    if (!/^[a-z]{2}(-[a-z]+)+-\d$/.test(region)) {
      throw new InvalidProp('regions', region, 'regions such as eu-west-1,us-east-1');
    }
    return stack(app, `${name}-${region}`, name, props, given, region);
  });
}

function stack(
  app: App, id: string, stackName: string, props: TidegateProps, given: Given, region?: string,
): TidegateStack {
  const code = prebuilt(given.prebuilt === undefined ? BUILT : text('prebuilt', given.prebuilt));
  const bucket = given.assetsBucket === undefined
    ? undefined : text('assetsBucket', given.assetsBucket);
  return new TidegateStack(app, id, { ...props, code }, {
    stackName,
    network: network(given),
    env: region === undefined ? undefined : { region, account: process.env.CDK_DEFAULT_ACCOUNT },
    // With the stack go its queues and the mail in them.
    terminationProtection: yesNo('terminationProtection', given.terminationProtection ?? true),
    synthesizer: bucket === undefined ? undefined : plain(bucket),
  });
}

/** Where the poller is put; one without the other cannot be. */
function network(given: Given): Network | undefined {
  const subnetIds = ids('subnetIds', 'subnet', given);
  const securityGroupIds = ids('securityGroupIds', 'sg', given);
  if (subnetIds.length === 0 && securityGroupIds.length === 0) return undefined;
  if (securityGroupIds.length === 0) {
    throw new InvalidProp('securityGroupIds', securityGroupIds, 'at least one, since subnetIds are given');
  }
  if (subnetIds.length === 0) {
    throw new InvalidProp('subnetIds', subnetIds, 'at least one, since securityGroupIds are given');
  }
  if (given.sharedBucket === undefined || given.sharedBucket === '') {
    throw new InvalidProp('sharedBucket', given.sharedBucket, 'a URL or a secret, since subnetIds are given');
  }
  return { subnetIds, securityGroupIds };
}

function ids(name: string, prefix: string, given: Given): string[] {
  const found = given[name] === undefined ? [] : list(name, given[name]);
  for (const id of found) {
    if (!new RegExp(`^${prefix}-([0-9a-f]{8}|[0-9a-f]{17})$`).test(id)) {
      throw new InvalidProp(name, id, `a list such as ${prefix}-0a1b2c3d`);
    }
  }
  return found;
}

/** Needs no bootstrap stack: any CloudFormation deploys it, once the assets are in the bucket. */
function plain(bucket: string): IStackSynthesizer {
  return new CliCredentialsStackSynthesizer({ fileAssetsBucketName: bucket });
}

function prebuilt(directory: string): TidegateCode {
  const [scheduler, poller] = ['scheduler', 'poller'].map((name) => {
    const own = join(directory, name);
    if (!existsSync(join(own, 'bootstrap'))) {
      const allowed = 'a directory with scheduler/bootstrap and poller/bootstrap, such as '
        + 'target/lambda after make build';
      throw new InvalidProp('prebuilt', directory, allowed);
    }
    return Code.fromAsset(own);
  });
  return { scheduler: scheduler!, poller: poller! };
}

type Given = Record<string, unknown>;

function settings(app: App): Given {
  const known = new Set([...Object.keys(PROPS), ...OWN]);
  // CDK's own keys hold a colon, a slash or a hyphen; a plain word that is not known is misspelt.
  const words = (all: object) => Object.entries(all).filter(([name]) => /^[A-Za-z]+$/.test(name));
  const context = words(app.node.getAllContext() as Given);
  const file = context.find(([name]) => name === 'settings')?.[1];
  // What `-c` or cdk.json says counts before the file.
  const given = [...(file === undefined ? [] : words(fromFile(text('settings', file)))), ...context];
  for (const [name] of given) {
    if (!known.has(name)) throw new InvalidProp('a setting', name, [...known].join(', '));
  }
  return Object.fromEntries(given);
}

function fromFile(path: string): Given {
  const allowed = 'a JSON file of settings, such as {"alarmEmail": "ops@example.org"}';
  try {
    const read: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (typeof read === 'object' && read !== null && !Array.isArray(read)) return read as Given;
  } catch (error) {
    throw new InvalidProp('settings', path, `${allowed} (${(error as Error).message})`);
  }
  throw new InvalidProp('settings', path, allowed);
}

function readProps(given: Given): TidegateProps {
  const read = Object.entries(PROPS)
    .filter(([name]) => given[name] !== undefined && given[name] !== '')
    .map(([name, reader]) => [name, reader(name, given[name])]);
  const props: TidegateProps = { campaigns: DEFAULT_CAMPAIGNS, ...Object.fromEntries(read) };
  if (props.sharedBucket === undefined) return props;
  const option = (name: string) => (given[name] === undefined ? undefined : text(name, given[name]));
  const lost = option('sharedBucketLost') as SharedBucket['lost'];
  return {
    ...props, sharedBucket: { ...props.sharedBucket, lost, prefix: option('sharedBucketPrefix') },
  };
}

function text(name: string, value: unknown): string {
  if (typeof value === 'number') return String(value);
  if (typeof value !== 'string') throw new InvalidProp(name, value, 'a text');
  return value;
}

function number(name: string, value: unknown): number {
  const read = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  if (typeof read !== 'number' || Number.isNaN(read)) throw new InvalidProp(name, value, 'a number');
  return read;
}

function yesNo(name: string, value: unknown): boolean {
  const read = { true: true, false: false }[String(value)];
  if (read === undefined) throw new InvalidProp(name, value, 'true, false');
  return read;
}

function list(name: string, value: unknown): string[] {
  if (Array.isArray(value)) return value.map((item) => text(name, item));
  return text(name, value).split(',').map((item) => item.trim()).filter((item) => item !== '');
}

function choice(choices: Record<string, unknown>): Reader {
  return (name, value) => {
    const chosen = choices[String(value)];
    if (chosen === undefined) throw new InvalidProp(name, value, Object.keys(choices).join(', '));
    return chosen;
  };
}

/** As `big:90,small:10`, or as JSON. */
function campaigns(name: string, value: unknown): Campaign[] {
  if (Array.isArray(value)) return value as Campaign[];
  return list(name, value).map((item) => {
    const [campaign, weight, ...more] = item.split(':');
    if (!campaign || !weight || more.length > 0) {
      throw new InvalidProp(name, value, 'a list of NAME:WEIGHT such as big:90,small:10');
    }
    return { name: campaign, weight: number(`${name} (${campaign})`, weight) };
  });
}
