import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { CliCredentialsStackSynthesizer, RemovalPolicy, Stack, Validations } from 'aws-cdk-lib';
import type { App } from 'aws-cdk-lib';
import { SecurityGroup, Subnet, Vpc } from 'aws-cdk-lib/aws-ec2';
import { Architecture, Code } from 'aws-cdk-lib/aws-lambda';
import { AwsSolutionsChecks } from 'cdk-nag';
import { Tidegate } from '../lib/index.js';
import type { Campaign, SharedBucket, TidegateCode, TidegateProps } from '../lib/index.js';
import { TEMPLATE } from '../lib/template.js';
import { InvalidProp, isSwitch, PARAMETERS, propOf } from '../lib/validate.js';

/** Where `make build` puts the functions, as seen from where this file is compiled to, build/bin. */
const BUILT = resolve(__dirname, '../../../../target/lambda');

/** Those of the SAM template. */
const DEFAULT_CAMPAIGNS = [{ name: 'main', weight: 90 }, { name: 'minor', weight: 10 }];

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
  const name = given.name === undefined ? 'tidegate' : text('name', given.name);
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app, { verbose: true }));
  const regions = given.regions === undefined ? [] : list('regions', given.regions);
  if (regions.length === 0) return [stack(app, name, name, given)];
  return regions.map((region) => {
    if (!/^[a-z]{2}(-[a-z]+)+-\d$/.test(region)) {
      throw new InvalidProp('regions', region, 'regions such as eu-west-1,us-east-1');
    }
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
    terminationProtection: choice('terminationProtection', given.terminationProtection ?? true, { true: true, false: false }),
    // Needs no bootstrap stack: any CloudFormation deploys it, once the assets are in the bucket.
    synthesizer: bucket === undefined ? undefined : new CliCredentialsStackSynthesizer({ fileAssetsBucketName: text('assetsBucket', bucket) }),
  });
  new Tidegate(made, 'Mail', { ...readProps(given), sharedBucket: sharedBucket(made, given), code: prebuilt(given.prebuilt ?? BUILT) });
  return made;
}

/** The props; the construct checks them, and takes a parameter's text as well as its prop's type. */
function readProps(given: Given): TidegateProps {
  const read = PARAMETERS.map(propOf).filter((prop) => given[prop] !== undefined && given[prop] !== '').map((prop) => {
    const value = given[prop];
    const parameter = TEMPLATE.Parameters[prop[0]!.toUpperCase() + prop.slice(1)]!;
    if (prop === 'architecture') {
      return [prop, choice(prop, value, { arm64: Architecture.ARM_64, x86_64: Architecture.X86_64 })];
    }
    if (parameter.Type === 'CommaDelimitedList') return [prop, list(prop, value)];
    return [prop, isSwitch(parameter) ? choice(prop, value, { true: true, false: false }) : value];
  });
  const removal = given.removalPolicy;
  return {
    campaigns: given.campaigns === undefined ? DEFAULT_CAMPAIGNS : campaigns('campaigns', given.campaigns),
    name: given.name as string | undefined,
    campaignList: given.campaignList as TidegateProps['campaignList'],
    removalPolicy: removal === undefined ? undefined
      : choice('removalPolicy', removal, { destroy: RemovalPolicy.DESTROY, retain: RemovalPolicy.RETAIN }),
    ...Object.fromEntries(read),
  };
}

/** The shared bucket, with subnets and groups by their ids: it needs no look-up of the VPC. */
function sharedBucket(scope: Stack, given: Given): SharedBucket | undefined {
  const subnetIds = ids('subnetIds', 'subnet', given);
  const groupIds = ids('securityGroupIds', 'sg', given);
  const missing = (name: string, since: string) => new InvalidProp(name, [], `at least one, since ${since} are given`);
  if (subnetIds.length > 0 && groupIds.length === 0) throw missing('securityGroupIds', 'subnetIds');
  if (groupIds.length > 0 && subnetIds.length === 0) throw missing('subnetIds', 'securityGroupIds');
  if (given.sharedBucket === undefined || given.sharedBucket === '') {
    if (subnetIds.length === 0) return undefined;
    throw new InvalidProp('sharedBucket', given.sharedBucket, 'a URL or a secret, since subnetIds are given');
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
  return {
    ...bucket,
    // CloudFormation asks for the subnets alone, and finds their VPC itself.
    vpc: Vpc.fromVpcAttributes(scope, 'Vpc', { vpcId: '', availabilityZones: ['-'] }),
    subnets: { subnets },
    securityGroups: groupIds.map((group, index) => (
      SecurityGroup.fromSecurityGroupId(scope, `SecurityGroup${index + 1}`, group, { mutable: false })
    )),
  };
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

function prebuilt(given: unknown): TidegateCode {
  const directory = text('prebuilt', given);
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

function settings(app: App): Given {
  const known = new Set([...OTHERS, ...PARAMETERS.map(propOf)]);
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

function text(name: string, value: unknown): string {
  if (typeof value === 'number') return String(value);
  if (typeof value !== 'string') throw new InvalidProp(name, value, 'a text');
  return value;
}

function list(name: string, value: unknown): string[] {
  if (Array.isArray(value)) return value.map((item) => text(name, item));
  return text(name, value).split(',').map((item) => item.trim()).filter((item) => item !== '');
}

function choice<T>(name: string, value: unknown, choices: Record<string, T>): T {
  const chosen = choices[String(value)];
  if (chosen === undefined) throw new InvalidProp(name, value, Object.keys(choices).join(', '));
  return chosen;
}

/** As `big:90,small:10`, or as JSON. */
function campaigns(name: string, value: unknown): Campaign[] {
  if (Array.isArray(value)) return value as Campaign[];
  return list(name, value).map((item) => {
    const [campaign, weight, ...more] = item.split(':');
    if (!campaign || !weight || more.length > 0) {
      throw new InvalidProp(name, value, 'a list of NAME:WEIGHT such as big:90,small:10');
    }
    if (Number.isNaN(Number(weight))) throw new InvalidProp(`${name} (${campaign})`, weight, 'a number');
    return { name: campaign, weight: Number(weight) };
  });
}
