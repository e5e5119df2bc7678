import { SecretValue, Token } from 'aws-cdk-lib';
import type { Campaign } from './props.js';
import type { Settings } from './settings.js';
import type { SharedBucket } from './shared.js';

/** A prop that cannot be: says which, its value, and what is allowed. */
export class InvalidProp extends Error {
  constructor(prop: string, value: unknown, allowed: string) {
    super(`${prop} is ${JSON.stringify(value)}, allowed: ${allowed}`);
    this.name = 'InvalidProp';
  }
}

/** The props that are lists, with which environments and policies grow. */
export type List = 'campaigns' | 'allowedSenders' | 'senderIdentityArns' | 'origins' | 'allowedCountries';

/** @returns what is said of a list that does not fit: `30 campaigns`, in place of the list. */
export function tooLong(list: List, settings: Settings, allowed: string): InvalidProp {
  return new InvalidProp(list, `${settings[list].length} ${list}`, allowed);
}

/** Names of queues that no campaign may take. */
const RESERVED = ['express', 'merge', 'dead-letter'];
const LARGEST_WEIGHT_SUM = 10_000;
const LONGEST_QUEUE_NAME = 80;

/** [smallest, largest, whole numbers only]; the units stand at the props. */
export const RANGES = {
  maxAttempts: [1, 100, true],
  idleWindows: [1, 60, true],
  idleWakeSeconds: [1, 60, true],
  quotaPerSecond: [0.001, 10_000, false],
  rateMargin: [0.005, 0.5, false],
  tickLeadMs: [0, 1000, true],
  overlapWindows: [0, 20, true],
  maxInFlight: [1, 900, true],
  deduplicationDays: [1, 90, true],
  breakerShare: [0.01, 1, false],
  breakerSeconds: [15, 3600, true],
  breakerOutcomes: [1, 10_000, true],
  breakerStopSeconds: [1, 3600, true],
  breakerProbeSeconds: [12, 600, true],
  bounceShare: [0.001, 1, false],
  complaintShare: [0.0001, 1, false],
  feedbackMinimum: [100, 1_000_000, true],
  pollerMemory: [128, 10_240, true],
  schedulerMemory: [128, 10_240, true],
  ageAlarmSeconds: [60, 1_209_599, true],
} satisfies Partial<Record<keyof Settings, [number, number, boolean]>>;

/** TypeScript checks these at compile time; JavaScript and `-c` do not. */
export const CHOICES = {
  channel: ['email', 'sms'],
  campaignList: ['environment', 'tags', 'ledger'],
  mode: ['merge', 'direct'],
  unsent: ['timeout', 'release'],
  daily: ['full', 'spread'],
  deduplication: ['off', 'resend', 'park'],
  feedback: ['off', 'count', 'hold'],
  schedule: ['ENABLED', 'DISABLED'],
  alarms: ['few', 'all'],
  expressQueue: [true, false],
  tracing: [true, false],
  pointInTimeRecovery: [true, false],
  deferral: [true, false],
  deferralReplay: ['auto', 'off'],
} satisfies Partial<Record<keyof Settings, unknown[]>>;

/** As many as there are queues for the groups of recipient domains. */
const LIMIT_QUEUES = 6;
const LONGEST_LIMITS = 400;
const GROUP = String.raw`\s*(\*|[^\s,=*+/]+(\s*\+\s*[^\s,=*+/]+)*)\s*=\s*[0-9]+(\.[0-9]+)?\s*(/\s*[smhd]|%)\s*`;
const LEVEL = String.raw`(depth=([0-9]+[smhd])+|age=([0-9]+[smhd])+|refused=[0-9]+(\.[0-9]+)?%)`;
const LEVELS: [RegExp, string] = [
  new RegExp(`^(off|${LEVEL}(,${LEVEL}){0,2})$`),
  'off, or one to three such as depth=12h,age=12h,refused=5%',
];
const URL_PATTERN = /^https?:\/\/.+/;
const PATTERNS = {
  dailyReserve: [/^([0-9]{1,15}|([0-9]|[1-8][0-9]|9[0-8])(\.[0-9]+)?%|99%)$/, 'recipients such as 500, or a share such as 1%'],
  campaignFloor: [/^([0-9]|[1-8][0-9]|90)%$/, 'a whole share, 0% to 90%'],
  limits: [
    new RegExp(`^(?=.{1,${LONGEST_LIMITS}}$)${GROUP}(,${GROUP}){0,${LIMIT_QUEUES - 1}}$`),
    `up to ${LIMIT_QUEUES} of DOMAIN+DOMAIN=NUMBER/s (or /m, /h, /d, or %), with commas between, at most `
      + `${LONGEST_LIMITS} characters`,
  ],
  backPressureBusy: LEVELS,
  backPressureOverloaded: LEVELS,
  logLevel: [/^[A-Za-z0-9_:=,]+$/, 'a level, or directives such as info,tidegate=debug'],
  alarmEmail: [/^[^@\s,]+@[^@\s,]+$/, 'one e-mail address'],
  endpointUrl: [URL_PATTERN, 'a URL such as http://127.0.0.1:4566'],
  sqsEndpointUrl: [URL_PATTERN, 'a URL such as http://127.0.0.1:4566'],
  sesEndpointUrl: [URL_PATTERN, 'a URL such as http://127.0.0.1:4566'],
} satisfies Partial<Record<keyof Settings, [RegExp, string]>>;

/** @throws InvalidProp for the first prop that cannot be. */
export function validate(settings: Settings): void {
  checkName(settings.name);
  checkCampaigns(settings.campaigns, settings.name);
  for (const [prop, [least, most, whole]] of entries(RANGES)) {
    const value = settings[prop];
    if (value !== undefined) checkRange(prop, value, least, most, whole);
  }
  for (const [prop, choices] of entries(CHOICES)) {
    const allowed: readonly unknown[] = choices;
    if (!allowed.includes(settings[prop])) {
      throw new InvalidProp(prop, settings[prop], allowed.join(', '));
    }
  }
  for (const [prop, [pattern, allowed]] of entries(PATTERNS)) {
    const value = settings[prop];
    if (value !== undefined && !Token.isUnresolved(value) && !pattern.test(value)) {
      throw new InvalidProp(prop, value, allowed);
    }
  }
  checkSenders(settings);
  checkTexts(settings);
  if (settings.sharedBucket !== undefined) checkSharedBucket(settings.sharedBucket);
  if (settings.reservedConcurrency !== 0) {
    const allowed = '0 (none), or a whole number from 10 to 1000';
    checkRange('reservedConcurrency', settings.reservedConcurrency, 10, 1000, true, allowed);
  }
}

/** @throws InvalidProp for the first fault of one campaign; `at` says where it stands. */
export function checkCampaign(campaign: Campaign, name: string, at: string): void {
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(campaign.name) || RESERVED.includes(campaign.name)) {
    const allowed = `1 to 64 letters, digits, - and _, and not ${RESERVED.join(', ')}`;
    throw new InvalidProp(`${at}.name`, campaign.name, allowed);
  }
  const queue = campaignQueueName(name, campaign.name);
  if (queue.length > LONGEST_QUEUE_NAME) {
    const allowed = `a queue's name (${queue}) has at most ${LONGEST_QUEUE_NAME} characters`;
    throw new InvalidProp(`${at}.name`, campaign.name, allowed);
  }
  checkRange(`${at}.weight`, campaign.weight, 0, LARGEST_WEIGHT_SUM, true);
  if (campaign.tenant !== undefined && !/^[A-Za-z0-9_-]{1,64}$/.test(campaign.tenant)) {
    throw new InvalidProp(`${at}.tenant`, campaign.tenant, '1 to 64 letters, digits, - and _');
  }
}

/** @throws InvalidProp where functions, queues and a configuration set cannot be named so. */
export function checkName(name: string): void {
  const allowed = '1 to 54 letters, digits and -, a letter first';
  if (Token.isUnresolved(name)) {
    throw new InvalidProp('name', name, `${allowed}, known at synthesis: set it in a nested stack`);
  }
  if (!/^[A-Za-z][A-Za-z0-9-]{0,53}$/.test(name)) throw new InvalidProp('name', name, allowed);
}

/** Checks that a priority queue is of a priority that there is. */
export function checkPriority(priority: string | undefined): void {
  if (priority !== undefined && !['critical', 'high', 'low'].includes(priority)) {
    throw new InvalidProp('priority', priority, 'critical, high or low');
  }
}

/** The name that makes a queue a campaign's. */
export function campaignQueueName(name: string, campaign: string): string {
  return `${name}-campaign-${campaign}`;
}

/** The names of the queues of recipient domains, in the order of `limits`. */
export function limitQueueNames(name: string): string[] {
  return Array.from({ length: LIMIT_QUEUES }, (_, index) => `${name}-domain-${index + 1}`);
}

/** @throws InvalidProp unless the value is a number within the range. */
export function checkRange(
  prop: string, value: unknown, least: number, most: number, whole: boolean, allowed?: string,
): void {
  const fits = typeof value === 'number' && value >= least && value <= most
    && (!whole || Number.isInteger(value));
  if (!fits) {
    const kind = whole ? 'a whole number' : 'a number';
    throw new InvalidProp(prop, value, allowed ?? `${kind} from ${least} to ${most}`);
  }
}

function checkCampaigns(campaigns: Campaign[], name: string): void {
  if (!Array.isArray(campaigns) || campaigns.length === 0) {
    throw new InvalidProp('campaigns', campaigns, 'a list of at least one { name, weight }');
  }
  const seen = new Set<string>();
  campaigns.forEach((campaign, index) => {
    checkCampaign(campaign, name, `campaigns[${index}]`);
    if (seen.has(campaign.name)) {
      throw new InvalidProp(`campaigns[${index}].name`, campaign.name, 'each name once');
    }
    seen.add(campaign.name);
  });
  const weights = campaigns.map((campaign) => campaign.weight);
  const divisor = weights.reduce(greatestCommonDivisor);
  const sum = weights.reduce((total, weight) => total + weight, 0) / (divisor || 1);
  if (divisor === 0 || sum > LARGEST_WEIGHT_SUM) {
    const allowed = `weights, not all 0, that add up to at most ${LARGEST_WEIGHT_SUM} after division `
      + 'by their greatest common divisor';
    throw new InvalidProp('campaigns[].weight', weights, `${allowed} (they add up to ${sum})`);
  }
}

function checkSharedBucket(bucket: SharedBucket): void {
  const { url, lost, prefix, vpc, subnets, securityGroups } = bucket;
  const pattern = /^(rediss?:\/\/\S+|\{\{resolve:secretsmanager:\S+\}\})$/;
  if (typeof url !== 'string' ? !(url instanceof SecretValue) : !Token.isUnresolved(url) && !pattern.test(url)) {
    const hidden = 'not shown, as a password may stand in it';
    throw new InvalidProp('sharedBucket.url', hidden, 'redis://HOST, rediss://HOST, or a secret');
  }
  if (lost !== undefined && !['closed', 'open'].includes(lost)) throw new InvalidProp('sharedBucket.lost', lost, 'closed, open');
  if (prefix !== undefined && !/^[A-Za-z0-9_.-]{1,32}$/.test(prefix)) {
    throw new InvalidProp('sharedBucket.prefix', prefix, '1 to 32 letters, digits, _, . and -');
  }
  if (vpc === undefined && (subnets ?? securityGroups) !== undefined) {
    const given = subnets === undefined ? 'securityGroups' : 'subnets';
    throw new InvalidProp('sharedBucket.vpc', vpc, `the VPC, since ${given} are given`);
  }
}

function checkSenders(settings: Settings): void {
  const sender = /^(\*|[^@\s,*]+@[^@\s,*]+|\*@[^@\s,*]+)$/;
  checkList('allowedSenders', settings.allowedSenders, sender, 'addresses and *@domain, or *');
  const identity = /^(\*|arn:[^:]+:ses:[^:]*:[^:]*:identity\/.+)$/;
  checkList('senderIdentityArns', settings.senderIdentityArns, identity, 'ARNs of SES identities, or *');
}

function checkTexts(settings: Settings): void {
  const origin = /^(\*|\+[1-9][0-9]{6,14}|[A-Za-z0-9_:/-]{1,256})$/;
  checkList('origins', settings.origins, origin, 'phone numbers such as +12065550100, sender ids, pools and their ARNs, or *');
  checkList('allowedCountries', settings.allowedCountries, /^(\*|\+[1-9][0-9]{0,6})$/, 'country codes such as +49, or *');
}

function checkList(prop: string, values: string[], pattern: RegExp, allowed: string): void {
  if (!Array.isArray(values) || values.length === 0) {
    throw new InvalidProp(prop, values, `a list of at least one: ${allowed}`);
  }
  values.forEach((value, index) => {
    if (!Token.isUnresolved(value) && !pattern.test(value)) {
      throw new InvalidProp(`${prop}[${index}]`, value, allowed);
    }
  });
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

function entries<T extends object>(record: T): [keyof T, T[keyof T]][] {
  return Object.entries(record) as [keyof T, T[keyof T]][];
}
