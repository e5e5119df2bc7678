import { Token } from 'aws-cdk-lib';
import type { Campaign } from './props.js';
import { SHARED_BUCKET_DEFAULTS } from './settings.js';
import type { Settings } from './settings.js';
import { DEFERRAL_PREFIX } from './deferral.js';
import { campaignQueueName, limitQueueNames, tooLong } from './validate.js';
import type { List } from './validate.js';

/** A function's environment variables. */
export type Environment = Record<string, string>;

/** What the environments name of the stack; each a name or URL, or a token of one. */
export interface Places {
  readonly ledgerTable: string;
  readonly campaigns: (Campaign & { readonly url: string })[];
  readonly mergeQueue?: string;
  readonly expressQueue?: string;
  readonly limitQueues: string[];
  readonly deferralBucket: string;
  readonly deadLetterQueue: string;
  readonly feedbackQueue?: string;
  readonly alarmTopic: string;
  readonly configurationSet?: string;
}

/** Bytes that Lambda allows, measured as JSON. */
const LARGEST_ENVIRONMENT = 4096;

/** The lists that stand in environments. */
const LISTS: List[] = ['campaigns', 'allowedSenders', 'origins', 'allowedCountries'];

/** Bytes that are kept for the shared bucket's URL where a secret holds it. */
const SECRET_URL = 256;

/** The scheduler's variables. */
export function schedulerEnvironment(settings: Settings, places: Places, poller: string): Environment {
  return defined({
    ...shared(settings, places),
    TIDEGATE_POLLER_FUNCTION: poller,
    TIDEGATE_ALARM_TOPIC: settings.alarms === 'few' ? places.alarmTopic : undefined,
    TIDEGATE_IDLE_WAKE_SECONDS: settings.idleWakeSeconds,
    TIDEGATE_OVERLAP_WINDOWS: settings.overlapWindows,
    TIDEGATE_CAMPAIGN_QUEUES:
      settings.campaignList === 'tags' ? campaignQueueName(settings.name, '') : undefined,
    TIDEGATE_FEEDBACK: settings.feedback,
    TIDEGATE_FEEDBACK_QUEUE_URL: places.feedbackQueue,
    TIDEGATE_BOUNCE_SHARE: settings.bounceShare,
    TIDEGATE_COMPLAINT_SHARE: settings.complaintShare,
    TIDEGATE_FEEDBACK_MINIMUM: settings.feedbackMinimum,
    TIDEGATE_BACK_PRESSURE_BUSY: settings.backPressureBusy,
    TIDEGATE_BACK_PRESSURE_OVERLOADED: settings.backPressureOverloaded,
    TIDEGATE_DEFERRAL_REPLAY: settings.deferral ? settings.deferralReplay : undefined,
  });
}

/** The poller's variables. */
export function pollerEnvironment(settings: Settings, places: Places): Environment {
  return defined({
    ...shared(settings, places),
    TIDEGATE_DEAD_LETTER_QUEUE_URL: places.deadLetterQueue,
    TIDEGATE_CAMPAIGN_FLOOR: settings.campaignFloor,
    TIDEGATE_LIMITS: settings.limits,
    ...sharedBucket(settings),
    TIDEGATE_CONFIGURATION_SET: places.configurationSet,
    TIDEGATE_RATE_MARGIN: settings.rateMargin,
    TIDEGATE_MAX_ATTEMPTS: settings.maxAttempts,
    TIDEGATE_MAX_IN_FLIGHT: settings.maxInFlight,
    TIDEGATE_UNSENT: settings.unsent,
    TIDEGATE_IDLE_WINDOWS: settings.idleWindows,
    TIDEGATE_DEDUPLICATION: settings.deduplication,
    TIDEGATE_DEDUPLICATION_DAYS: settings.deduplicationDays,
    TIDEGATE_BREAKER_SHARE: settings.breakerShare,
    TIDEGATE_BREAKER_SECONDS: settings.breakerSeconds,
    TIDEGATE_BREAKER_OUTCOMES: settings.breakerOutcomes,
    TIDEGATE_BREAKER_STOP_SECONDS: settings.breakerStopSeconds,
    TIDEGATE_BREAKER_PROBE_SECONDS: settings.breakerProbeSeconds,
    TIDEGATE_ALLOWED_SENDERS: settings.allowedSenders.join(','),
    TIDEGATE_ALLOWED_COUNTRIES: settings.channel === 'sms' ? settings.allowedCountries.join(',') : undefined,
  });
}

/**
 * Refuses lists that Lambda would refuse at deployment. URLs and the table's name are known
 * then only, so they are taken at the length they have in a region with a long name.
 * @throws InvalidProp that names the way out.
 */
export function checkEnvironmentSize(settings: Settings): void {
  const url = (queue: string) => `https://sqs.ap-southeast-1.amazonaws.com/123456789012/${queue}`;
  const places: Places = {
    ledgerTable: `${settings.name}-MailLedger12345678-ABCDEFGHIJKLM`,
    campaigns: settings.campaigns.map((campaign) => (
      { ...campaign, url: url(campaignQueueName(settings.name, campaign.name)) }
    )),
    mergeQueue: settings.mode === 'merge' ? url(`${settings.name}-merge.fifo`) : undefined,
    expressQueue: settings.expressQueue ? url(`${settings.name}-express`) : undefined,
    limitQueues: limitQueueNames(settings.name).map(url),
    deferralBucket: 'b'.repeat(63),
    alarmTopic: 'a'.repeat(256),
    deadLetterQueue: url(`${settings.name}-dead-letter`),
    feedbackQueue: url(`${settings.name}-feedback`),
    configurationSet: settings.name,
  };
  const environments = {
    poller: pollerEnvironment(settings, places),
    scheduler: schedulerEnvironment(settings, places, `${settings.name}-poller`),
  };
  for (const [of, variables] of Object.entries(environments)) {
    const texts = Object.entries(variables)
      .map(([name, value]) => [name, Token.isUnresolved(value) ? 's'.repeat(SECRET_URL) : value] as const);
    const bytes = Buffer.byteLength(JSON.stringify(Object.fromEntries(texts)));
    if (bytes <= LARGEST_ENVIRONMENT) continue;
    const length = (list: List) => variables[variable(list)]?.length ?? 0;
    const longest = LISTS.reduce((one, other) => (length(one) >= length(other) ? one : other));
    throw tooLong(longest, settings, `what fits into the ${of}'s environment of ${LARGEST_ENVIRONMENT} bytes, and this is about ${bytes}; `
      + 'use campaignList: \'tags\' for more campaigns, and *@domain for the senders of a domain');
  }
}

/** allowedSenders is TIDEGATE_ALLOWED_SENDERS. */
function variable(list: List): string {
  return `TIDEGATE_${list.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}

function shared(settings: Settings, places: Places): Variables {
  return {
    TIDEGATE_LEDGER: `dynamodb:${places.ledgerTable}`,
    ...(settings.channel === 'sms' ? { TIDEGATE_CHANNEL: 'sms', TIDEGATE_ORIGINS: settings.origins.join(',') } : {}),
    TIDEGATE_QUOTA_PER_SECOND: settings.quotaPerSecond,
    TIDEGATE_CAMPAIGNS: settings.campaignList === 'environment' ? campaigns(places) : 'ledger',
    TIDEGATE_MERGE_QUEUE_URL: places.mergeQueue,
    TIDEGATE_EXPRESS_QUEUE_URL: places.expressQueue,
    // With no limit too: what still waits in one of them is sent.
    TIDEGATE_LIMIT_QUEUES: places.limitQueues.join(','),
    TIDEGATE_DEFERRAL: settings.deferral ? `s3://${places.deferralBucket}/${DEFERRAL_PREFIX}` : undefined,
    TIDEGATE_TICK_LEAD_MS: settings.tickLeadMs,
    TIDEGATE_DAILY: settings.daily,
    TIDEGATE_DAILY_RESERVE: settings.dailyReserve,
    RUST_LOG: settings.logLevel,
    AWS_ENDPOINT_URL: settings.endpointUrl,
    AWS_ENDPOINT_URL_SQS: settings.sqsEndpointUrl,
    AWS_ENDPOINT_URL_SESV2: settings.sesEndpointUrl,
    AWS_ENDPOINT_URL_PINPOINT_SMS_VOICE_V2: settings.channel === 'sms' ? settings.sesEndpointUrl : undefined,
  };
}

function sharedBucket({ sharedBucket: given }: Settings): Variables {
  if (given === undefined) return {};
  const { url, lost = SHARED_BUCKET_DEFAULTS.lost, prefix = SHARED_BUCKET_DEFAULTS.prefix } = given;
  return {
    // Lambda has no other way to be given it; who may read the function's configuration reads it.
    TIDEGATE_SHARED_BUCKET: typeof url === 'string' ? url : url.unsafeUnwrap(),
    TIDEGATE_SHARED_BUCKET_LOST: lost,
    TIDEGATE_SHARED_BUCKET_PREFIX: prefix,
  };
}

function campaigns(places: Places): string {
  const list = places.campaigns.map(({ name, weight, tenant, url }) => ({
    name, queue_url: url, weight, tenant,
  }));
  return JSON.stringify(list);
}

type Variables = Record<string, string | number | undefined>;

function defined(variables: Variables): Environment {
  return Object.fromEntries(
    Object.entries(variables)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [name, String(value)]),
  );
}
