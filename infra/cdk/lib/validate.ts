import { SecretValue, Token } from 'aws-cdk-lib';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import type { Campaign, SharedBucket, TidegateProps } from './props.js';
import { TEMPLATE, type Parameter } from './template.js';

/** A prop that cannot be: says which, its value, and what is allowed. */
export class InvalidProp extends Error {
  constructor(prop: string, value: unknown, allowed: string) {
    super(`${prop} is ${JSON.stringify(value)}, allowed: ${allowed}`);
    this.name = 'InvalidProp';
  }
}

/** @throws InvalidProp unless it holds. */
export function demand(holds: boolean, prop: string, value: unknown, allowed: string): asserts holds {
  if (!holds) throw new InvalidProp(prop, value, allowed);
}

/** Of campaigns and tenants. */
const NAME = /^[A-Za-z0-9_-]{1,64}$/;
/** Names of queues that no campaign may take. */
const RESERVED = ['express', 'merge', 'dead-letter'];
const LARGEST_WEIGHT_SUM = 10_000;
const LONGEST_QUEUE_NAME = 80;

/** Parameters of what the construct has other props for. */
const OTHER_PROPS = /^(First|Second)Campaign|^Campaigns$|^SharedBucket|^SubnetIds$|^SecurityGroupIds$/;

/** The parameters that props of their name give, as `maxInFlight` gives MaxInFlight. */
export const PARAMETERS = Object.keys(TEMPLATE.Parameters).filter((name) => !OTHER_PROPS.test(name));

/** The prop of a parameter. */
export function propOf(parameter: string): string {
  return parameter[0]!.toLowerCase() + parameter.slice(1);
}

/**
 * The values of the template's parameters, each checked by what the template allows.
 * @throws InvalidProp for the first prop that cannot be.
 */
export function parameterValues(props: TidegateProps): Record<string, unknown> {
  const { lost, prefix, url, vpc, subnets, securityGroups } = props.sharedBucket ?? ({} as Partial<SharedBucket>);
  const needsVpc = subnets === undefined ? 'securityGroups' : 'subnets';
  demand(vpc !== undefined || (subnets ?? securityGroups) === undefined, 'sharedBucket.vpc', vpc, `the VPC, since ${needsVpc} are given`);
  const bucket = url instanceof SecretValue ? url.unsafeUnwrap() : url;
  demand(props.sharedBucket === undefined || Boolean(bucket), 'sharedBucket.url', url, 'a URL or a secret');
  const given = Object.fromEntries(Object.entries(TEMPLATE.Parameters).map(([name, { Default, Type }]) => (
    [name, Type === 'CommaDelimitedList' ? String(Default).split(',') : Default]
  )));
  const set = (name: string, prop: string, value: unknown) => {
    if (value !== undefined) given[name] = checked(prop, value, TEMPLATE.Parameters[name]!);
  };
  for (const name of PARAMETERS) set(name, propOf(name), (props as unknown as Record<string, unknown>)[propOf(name)]);
  set('SharedBucket', 'sharedBucket.url', bucket);
  set('SharedBucketLost', 'sharedBucket.lost', lost);
  set('SharedBucketPrefix', 'sharedBucket.prefix', prefix);
  return given as Record<string, unknown>;
}

/** The value as the template's parameter has it. */
function checked(prop: string, value: unknown, parameter: Parameter): any {
  if (parameter.Type === 'CommaDelimitedList') {
    demand(Array.isArray(value) && value.length > 0, prop, value, `a list of at least one: ${allowed(parameter)}`);
    value.forEach((item, index) => check(`${prop}[${index}]`, item, parameter));
    return value;
  }
  const plain = value instanceof Architecture ? value.name : value;
  demand(typeof plain === 'boolean' || !isSwitch(parameter), prop, value, allowed(parameter));
  const [on, off] = parameter.AllowedValues?.includes('on') ? ['on', 'off'] : ['true', 'false'];
  const text = isSwitch(parameter) ? (plain ? on : off) : plain;
  check(prop, text, parameter);
  return text;
}

/** Whether a parameter's prop is a truth value. */
export function isSwitch({ AllowedValues = [] }: Parameter): boolean {
  return AllowedValues.includes('on') || AllowedValues.includes('true');
}

function check(prop: string, value: unknown, parameter: Parameter): void {
  if (Token.isUnresolved(value)) return;
  const { AllowedValues, AllowedPattern, MinValue = -Infinity, MaxValue = Infinity, MaxLength = Infinity } = parameter;
  const text = String(value);
  const fits = ['string', 'number'].includes(typeof value)
    && (AllowedValues === undefined || AllowedValues.map(String).includes(text))
    && (AllowedPattern === undefined || new RegExp(`^(?:${AllowedPattern})$`).test(text))
    && (parameter.Type !== 'Number' || (Number(value) >= MinValue && Number(value) <= MaxValue))
    && text.length <= MaxLength && text !== '';
  const shown = parameter.NoEcho ? 'not shown, as a password may stand in it' : value;
  demand(fits, prop, shown, allowed(parameter));
}

function allowed(parameter: Parameter): string {
  const { AllowedValues, ConstraintDescription, MinValue, MaxValue } = parameter;
  if (isSwitch(parameter)) return 'true, false';
  if (AllowedValues !== undefined) return AllowedValues.join(', ');
  return ConstraintDescription?.replace(/^empty, (or )?/, '') ?? `a number from ${MinValue} to ${MaxValue}`;
}

/** @throws InvalidProp for the first fault of one campaign; `at` says where it stands. */
export function checkCampaign({ name, weight, tenant }: Campaign, tidegate: string, at: string): void {
  const names = `1 to 64 letters, digits, - and _, and not ${RESERVED.join(', ')}`;
  demand(NAME.test(name) && !RESERVED.includes(name), `${at}.name`, name, names);
  const queue = `${tidegate}-campaign-${name}`;
  const longest = `a queue's name (${queue}) has at most ${LONGEST_QUEUE_NAME} characters`;
  demand(queue.length <= LONGEST_QUEUE_NAME, `${at}.name`, name, longest);
  const weighs = Number.isInteger(weight) && weight >= 0 && weight <= LARGEST_WEIGHT_SUM;
  demand(weighs, `${at}.weight`, weight, `a whole number from 0 to ${LARGEST_WEIGHT_SUM}`);
  demand(tenant === undefined || NAME.test(tenant), `${at}.tenant`, tenant, '1 to 64 letters, digits, - and _');
}

/** @throws InvalidProp for the first fault of the campaigns. */
export function checkCampaigns(campaigns: Campaign[], name: string): void {
  demand(Array.isArray(campaigns) && campaigns.length > 0, 'campaigns', campaigns, 'a list of at least one { name, weight }');
  campaigns.forEach((campaign, index) => {
    checkCampaign(campaign, name, `campaigns[${index}]`);
    const first = campaigns.findIndex((other) => other.name === campaign.name);
    demand(first === index, `campaigns[${index}].name`, campaign.name, 'each name once');
  });
  const weights = campaigns.map((campaign) => campaign.weight);
  const divisor = weights.reduce(greatestCommonDivisor);
  const sum = weights.reduce((total, weight) => total + weight, 0) / (divisor || 1);
  const weighed = `weights, not all 0, that add up to at most ${LARGEST_WEIGHT_SUM} after division by their greatest common divisor`;
  demand(divisor > 0 && sum <= LARGEST_WEIGHT_SUM, 'campaigns[].weight', weights, `${weighed} (they add up to ${sum})`);
}

/** @throws InvalidProp where functions, queues and a configuration set cannot be named so. */
export function checkName(name: string): void {
  const names = '1 to 54 letters, digits and -, a letter first';
  demand(!Token.isUnresolved(name), 'name', name, `${names}, known at synthesis: set it in a nested stack`);
  demand(/^[A-Za-z][A-Za-z0-9-]{0,53}$/.test(name), 'name', name, names);
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}
