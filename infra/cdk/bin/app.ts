import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { CliCredentialsStackSynthesizer, RemovalPolicy, Stack, Validations, type App } from 'aws-cdk-lib';
import { SecurityGroup, Subnet, Vpc } from 'aws-cdk-lib/aws-ec2';
import { Architecture, Code } from 'aws-cdk-lib/aws-lambda';
import { AwsSolutionsChecks } from 'cdk-nag';
import { Tidegate, type Campaign, type SharedBucket, type TidegateCode, type TidegateProps } from '../lib/index.js';
import { TEMPLATE } from '../lib/template.js';
import { demand, InvalidProp, isSwitch, PARAMETERS, propOf } from '../lib/validate.js';

/** Where `make build` puts the functions, as seen from where this file is compiled to, build/bin. */
const BUILT = resolve(__dirname, '../../../../target/lambda');

/** Those of the SAM template. */
const DEFAULT_CAMPAIGNS = [{ name: 'main', weight: 90 }, { name: 'minor', weight: 10 }];

/** A setting that is on or off. */
const SWITCH = { true: true, false: false };

/** Settings that give props of another form, or are the app's own. */
const OTHERS = [
  'campaigns', 'name', 'campaignList', 'removalPolicy', 'sharedBucket', 'sharedBucketLost', 'sharedBucketPrefix', 'subnetIds',
  'securityGroupIds', 'settings', 'regions', 'prebuilt', 'assetsBucket', 'terminationProtection',
];

type Given = Record<string, unknown>;

/**
 * The app: one stack a region, by the settings in the context (`-c NAME=VALUE`, or `context` in
 * cdk.json), checked by cdk-nag.
 * @throws InvalidProp for the first setting that cannot be.
 */
export function addStacks(app: App): Stack[] {
  const given = settings(app);
  const name = text('name', given.name ?? 'tidegate');
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app, { verbose: true }));
  const regions = list('regions', given.regions ?? '');
  if (regions.length === 0) return [stack(app, name, name, given)];
  return regions.map((region) => {
    demand(/^[a-z]{2}(-[a-z]+)+-\d$/.test(region), 'regions', region, 'regions such as eu-west-1,us-east-1');
    return stack(app, `${name}-${region}`, name, given, region);
  });
}

function stack(app: App, id: string, stackName: string, given: Given, region?: string): Stack {
  const bucket = given.assetsBucket;
  const made = new Stack(app, id, {
    stackName,
    description: TEMPLATE.Description,
    env: region === undefined ? undefined : { region, account: process.env.CDK_DEFAULT_ACCOUNT },
    // With the stack go its queues and the mail in them.
    terminationProtection: choice('terminationProtection', given.terminationProtection ?? true, SWITCH),
    // Needs no bootstrap stack: any CloudFormation deploys it, once the assets are in the bucket.
    synthesizer: bucket === undefined ? undefined : new CliCredentialsStackSynthesizer({ fileAssetsBucketName: text('assetsBucket', bucket) }),
  });
  new Tidegate(made, 'Mail', { ...readProps(given), sharedBucket: sharedBucket(made, given), code: prebuilt(given.prebuilt ?? BUILT) });
  return made;
}

/** The props; the construct checks them, and takes a parameter's text as well as its prop's type. */
function readProps(given: Given): TidegateProps {
  const props: Given = {
    campaigns: given.campaigns === undefined ? DEFAULT_CAMPAIGNS : campaigns('campaigns', given.campaigns),
    name: given.name,
    campaignList: given.campaignList,
    removalPolicy: choice('removalPolicy', given.removalPolicy, { destroy: RemovalPolicy.DESTROY, retain: RemovalPolicy.RETAIN }),
  };
  for (const name of PARAMETERS) {
    const prop = propOf(name);
    const value = given[prop] === '' ? undefined : given[prop];
    const parameter = TEMPLATE.Parameters[name]!;
    if (prop === 'architecture') props[prop] = choice(prop, value, { arm64: Architecture.ARM_64, x86_64: Architecture.X86_64 });
    else if (isSwitch(parameter)) props[prop] = choice(prop, value, SWITCH);
    else props[prop] = parameter.Type === 'CommaDelimitedList' && value !== undefined ? list(prop, value) : value;
  }
  return props as unknown as TidegateProps;
}

/** The shared bucket, with subnets and groups by their ids: it needs no look-up of the VPC. */
function sharedBucket(scope: Stack, given: Given): SharedBucket | undefined {
  const subnetIds = ids('subnetIds', 'subnet', given);
  const groupIds = ids('securityGroupIds', 'sg', given);
  demand(subnetIds.length === 0 || groupIds.length > 0, 'securityGroupIds', [], 'at least one, since subnetIds are given');
  demand(groupIds.length === 0 || subnetIds.length > 0, 'subnetIds', [], 'at least one, since securityGroupIds are given');
  if (given.sharedBucket === undefined || given.sharedBucket === '') {
    demand(subnetIds.length === 0, 'sharedBucket', given.sharedBucket, 'a URL or a secret, since subnetIds are given');
    return undefined;
  }
  const bucket = {
    url: text('sharedBucket', given.sharedBucket),
    lost: given.sharedBucketLost as SharedBucket['lost'],
    prefix: given.sharedBucketPrefix as string | undefined,
  };
  if (subnetIds.length === 0) return bucket;
  const subnets = subnetIds.map((subnetId, index) => (
    Subnet.fromSubnetAttributes(scope, `Subnet${index + 1}`, { subnetId, availabilityZone: '', routeTableId: '' })
  ));
  const securityGroups = groupIds.map((group, index) => (
    SecurityGroup.fromSecurityGroupId(scope, `SecurityGroup${index + 1}`, group, { mutable: false })
  ));
  // CloudFormation asks for the subnets alone, and finds their VPC itself.
  const vpc = Vpc.fromVpcAttributes(scope, 'Vpc', { vpcId: '', availabilityZones: ['-'] });
  return { ...bucket, vpc, subnets: { subnets }, securityGroups };
}

function ids(name: string, prefix: string, given: Given): string[] {
  const found = list(name, given[name] ?? '');
  const form = new RegExp(`^${prefix}-([0-9a-f]{8}|[0-9a-f]{17})$`);
  for (const id of found) demand(form.test(id), name, id, `a list such as ${prefix}-0a1b2c3d`);
  return found;
}

function prebuilt(given: unknown): TidegateCode {
  const directory = text('prebuilt', given);
  const code = (name: string) => {
    const there = existsSync(join(directory, name, 'bootstrap'));
    demand(there, 'prebuilt', directory, 'a directory with scheduler/bootstrap and poller/bootstrap, such as target/lambda after make build');
    return Code.fromAsset(join(directory, name));
  };
  return { scheduler: code('scheduler'), poller: code('poller') };
}

function settings(app: App): Given {
  const known = new Set([...OTHERS, ...PARAMETERS.map(propOf)]);
  // CDK's own keys hold a colon, a slash or a hyphen; a plain word that is not known is misspelt.
  const words = (all: object) => Object.entries(all).filter(([name]) => /^[A-Za-z]+$/.test(name));
  const context = words(app.node.getAllContext() as Given);
  const file = context.find(([name]) => name === 'settings')?.[1];
  // What `-c` or cdk.json says counts before the file.
  const given = [...(file === undefined ? [] : words(fromFile(text('settings', file)))), ...context];
  for (const [name] of given) demand(known.has(name), 'a setting', name, [...known].join(', '));
  return Object.fromEntries(given);
}

function fromFile(path: string): Given {
  const allowed = 'a JSON file of settings, such as {"alarmEmail": "ops@example.org"}';
  let read: unknown;
  try {
    read = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new InvalidProp('settings', path, `${allowed} (${(error as Error).message})`);
  }
  demand(typeof read === 'object' && read !== null && !Array.isArray(read), 'settings', path, allowed);
  return read as Given;
}

function text(name: string, value: unknown): string {
  demand(typeof value === 'string' || typeof value === 'number', name, value, 'a text');
  return String(value);
}

function list(name: string, value: unknown): string[] {
  if (Array.isArray(value)) return value.map((item) => text(name, item));
  return text(name, value).split(',').map((item) => item.trim()).filter((item) => item !== '');
}

/** The choice of this name; none where there is no value. */
function choice<T>(name: string, value: unknown, choices: Record<string, T>): T | undefined {
  const chosen = choices[String(value)];
  demand(chosen !== undefined || value === undefined, name, value, Object.keys(choices).join(', '));
  return chosen;
}

/** As `big:90,small:10`, or as JSON. */
function campaigns(name: string, value: unknown): Campaign[] {
  if (Array.isArray(value)) return value as Campaign[];
  return list(name, value).map((item) => {
    const [, campaign, weight] = /^([^:]+):([^:]+)$/.exec(item) ?? [];
    demand(campaign !== undefined && weight !== undefined, name, value, 'a list of NAME:WEIGHT such as big:90,small:10');
    demand(!Number.isNaN(Number(weight)), `${name} (${campaign})`, weight, 'a number');
    return { name: campaign, weight: Number(weight) };
  });
}
