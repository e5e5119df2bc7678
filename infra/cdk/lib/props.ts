import type { RemovalPolicy, SecretValue } from 'aws-cdk-lib';
import type { ISecurityGroup, IVpc, SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import type { Architecture, Code } from 'aws-cdk-lib/aws-lambda';
import type { RetentionDays } from 'aws-cdk-lib/aws-logs';

/** One campaign: its mails wait in a queue of their own, and get their share of the quota. */
export interface Campaign {
  /**
   * Its name: 1 to 64 letters, digits, - and _. Its queue is `NAME-campaign-<this>`.
   * Not `express`, `merge` or `dead-letter`, which are queues of their own.
   */
  readonly name: string;

  /**
   * Its share, relative to the other weights: a whole number from 0 to 10,000. At least one is
   * above 0, and after division by their greatest common divisor they add up to at most 10,000.
   */
  readonly weight: number;

  /**
   * The SES tenant for which its mails are sent: 1 to 64 letters, digits, - and _. It must exist, and
   * be associated with the campaign's senders and configuration set. Default: none.
   */
  readonly tenant?: string;
}

/** A Valkey or Redis in which other software that sends from the account takes its sends too. */
export interface SharedBucket {
  /**
   * Where it is, such as `rediss://user:password@host:6379`; best as a secret. It stands in the
   * poller's environment: who may read the function's configuration reads it.
   */
  readonly url: string | SecretValue;

  /**
   * While the shared bucket does not answer, `closed` sends nothing, and `open` sends by the slot grid
   * alone, whatever the others send.
   * @default 'closed'
   */
  readonly lost?: 'closed' | 'open';

  /**
   * The beginning of the shared bucket's keys: `{tidegate}:account`, `{tidegate}:domain:gmail.com`.
   * 1 to 32 letters, digits, _, . and -.
   * @default 'tidegate'
   */
  readonly prefix?: string;

  /**
   * The VPC that the poller is put into to reach it. From there the poller must reach SQS, DynamoDB
   * SES and S3 too.
   * @default - none
   */
  readonly vpc?: IVpc;

  /**
   * Its subnets that the poller is put into.
   * @default - the private ones
   */
  readonly subnets?: SubnetSelection;

  /**
   * The poller's security groups.
   * @default - one of its own, that lets everything out
   */
  readonly securityGroups?: ISecurityGroup[];
}

/** Where the poller finds the list of campaigns. */
export type CampaignList = 'environment' | 'tags' | 'ledger';

/** The functions' binaries, built beforehand: each a package with `bootstrap` at its top. */
export interface TidegateCode {
  /** The scheduler's. */
  readonly scheduler: Code;
  /** The poller's. */
  readonly poller: Code;
}

/** What a Tidegate is made of, and how it sends. */
export interface TidegateProps {
  /** The campaigns, at least one. More than about 150 do not fit into one stack. */
  readonly campaigns: Campaign[];

  /**
   * What the stack sends: e-mail through SES, or text messages through AWS End User Messaging (SMS). A slot
   * is a recipient of a mail, or a part of a text. For `sms` the functions must be built with it
   * (`make build CHANNEL=sms`, and `code`).
   * @default 'email'
   */
  readonly channel?: 'email' | 'sms';

  /**
   * Origins that text messages may have; `*` is any. Texts that name none have the first one, and its type
   * gives the quota. Phone numbers, sender ids, pools and their ARNs, or `*`.
   * @default ['*']
   */
  readonly origins?: string[];

  /**
   * Countries that text messages may go to; `*` is every one. Country codes such as `+49`, or longer
   * beginnings of numbers.
   * @default ['*']
   */
  readonly allowedCountries?: string[];

  /**
   * What every physical name begins with: 1 to 54 letters, digits and -, a letter first.
   * @default - the stack's name
   */
  readonly name?: string;

  /**
   * Where the poller finds the campaigns. `environment`: in its own environment, which holds 4 KB.
   * `tags`: they are the queues `NAME-campaign-*` that carry the tag `tidegate:weight`, so that
   * one can come and go (`CampaignQueue`) without a change here. `ledger`: the operator writes
   * the list into the ledger table.
   * @default 'environment'
   */
  readonly campaignList?: CampaignList;

  /**
   * `merge` sends the campaigns through one FIFO queue; `direct` takes straight from their queues,
   * at less than half the SQS calls. Let the merge queue run empty before a change to direct.
   * @default 'merge'
   */
  readonly mode?: 'merge' | 'direct';

  /**
   * Whether the express queue is taken from, whose mails leave before all others.
   * @default false
   */
  readonly expressQueue?: boolean;

  /**
   * The express floor: the share of the slots that campaigns' mail takes before express mail. From
   * `0%` to `90%`.
   * @default '0%'
   */
  readonly campaignFloor?: string;

  /**
   * Limits by the recipients' domains, each with a rate or a share of the quota. Up to six groups,
   * such as `gmail.com+googlemail.com=10/s, tiny.example=6/m, *=25%`, in at most 400 characters.
   * @default - none
   */
  readonly limits?: string;

  /**
   * The shared bucket: a Valkey or Redis, also a cluster, from which other software that sends from the
   * account takes its sends, too. User and password are percent-encoded.
   * @default - none: nobody else sends
   */
  readonly sharedBucket?: SharedBucket;

  /**
   * Thresholds of the level `busy`, which defers low priority: how long the backlog takes, how old
   * mail is when it is sent, the share of refused sends. `off` is never.
   * @default 'depth=12h,age=12h,refused=5%', which the scheduler has
   */
  readonly backPressureBusy?: string;

  /**
   * Thresholds of the level `overloaded`, which also defers normal priority; none below that of
   * `busy`. `off` is never.
   * @default 'depth=48h,age=48h,refused=20%', which the scheduler has
   */
  readonly backPressureOverloaded?: string;

  /**
   * Whether mail of priority low is put aside into the store while the stack is busy, and of
   * normal while it is overloaded, until the level is clear again.
   * @default false
   */
  readonly deferral?: boolean;

  /**
   * Sends of one mail that may fail before it goes to the dead-letter queue. From 1 to 100.
   * @default 5
   */
  readonly maxAttempts?: number;

  /**
   * Mail that was received and is unsent at the end of its window: `timeout` leaves it to the
   * visibility timeout, `release` makes it visible at once.
   * @default 'timeout'
   */
  readonly unsent?: 'timeout' | 'release';

  /**
   * Whether the poller logs a record of each window with its sends, by which tidegate audit
   * judges a run.
   * @default 'on'
   */
  readonly audit?: 'on' | 'off';

  /**
   * The EventBridge bus that gets events of mail that SES was not given, of holds, incidents and
   * runs. It is given by its name, such as `default`.
   * @default - none
   */
  readonly eventBus?: string;

  /**
   * The OTLP endpoint to which the poller tells its windows, and the sends of mails whose producer
   * records their trace. It is a URL such as `http://localhost:4318/v1/traces`.
   * @default - none
   */
  readonly traces?: string;

  /**
   * The ARN of a version of a Lambda layer that has an OTLP extension for the poller, such as
   * OpenTelemetry's collector.
   * @default - none
   */
  readonly tracesLayer?: string;

  /**
   * While every queue is empty, the scheduler counts their messages once in this many seconds, and no
   * poller runs: the first mail after a pause waits as long, unless somebody wakes the stack.
   * 1 keeps a tick for every window. From 1 to 60.
   * @default 60
   */
  readonly idleWakeSeconds?: number;

  /**
   * Senders that mail may have; `*` is everyone. Mail is sent with its sender spelt as in the list.
   * Addresses and `*@domain`, or `*`; the poller's role (`ses:FromAddress`) refuses the others, too.
   * @default ['*']
   */
  readonly allowedSenders?: string[];

  /**
   * ARNs of the SES identities that the poller may send with, or `*`: all of account and region.
   * @default ['*']
   */
  readonly senderIdentityArns?: string[];

  /**
   * An upper bound of the quota in recipients per second, and the quota while SES does not tell it.
   * From 0.001 to 10,000.
   * @default - the account's quota alone
   */
  readonly quotaPerSecond?: number;

  /**
   * The rate margin: the fraction by which slots are spaced wider than 1/quota, so that jitter never
   * exceeds the quota. From 0.005 to 0.5.
   * @default 0.01
   */
  readonly rateMargin?: number;

  /**
   * The most sends at the same time. From 1 to 800.
   * @default - derived from the rate and the latency seen
   */
  readonly maxInFlight?: number;

  /**
   * How the daily quota is used: `full` sends at the full rate until it is used up but for the
   * reserve, `spread` sends evenly over the day.
   * @default 'full'
   */
  readonly daily?: 'full' | 'spread';

  /**
   * The part of the daily quota that only express mail may use. Recipients such as `500`, or a share
   * such as `1%`, from 0% to 99%.
   * @default '1%'
   */
  readonly dailyReserve?: string;

  /**
   * Whether every mail is marked in the ledger, so that a copy of a mail that was sent is known. A
   * mail that may have been sent, `resend` sends again, and `park` dead-letters. Marks cost two writes
   * a mail.
   * @default 'off'
   */
  readonly deduplication?: 'off' | 'resend' | 'park';

  /**
   * Days for which a mail's mark is kept; a queue keeps a message for at most 14. From 1 to 90.
   * @default 15
   */
  readonly deduplicationDays?: number;

  /**
   * The share of failed sends above which the breaker blocks; 1 is never. From 0.01 to 1.
   * @default 0.2
   */
  readonly breakerShare?: number;

  /**
   * Seconds that the share must be exceeded before the breaker blocks. From 15 to 3,600.
   * @default 60
   */
  readonly breakerSeconds?: number;

  /**
   * The effect of bounces and complaints: `hold` holds a campaign whose share of them is too high,
   * `count` only counts them, `off` takes none. With `off` there is no configuration set.
   * @default 'hold'
   */
  readonly feedback?: 'off' | 'count' | 'hold';

  /**
   * A campaign is held once permanent bounces reach this share of the recipients sent to. From 0.001
   * to 1.
   * @default 0.05
   */
  readonly bounceShare?: number;

  /**
   * A campaign is held once complaints reach this share of the recipients sent to. From 0.0001 to 1.
   * @default 0.001
   */
  readonly complaintShare?: number;

  /**
   * `DISABLED` stops the minute's trigger, and with it all sending.
   * @default 'ENABLED'
   */
  readonly schedule?: 'ENABLED' | 'DISABLED';

  /**
   * Processor that both functions run on.
   * @default Architecture.ARM_64
   */
  readonly architecture?: Architecture;

  /**
   * Megabytes of the poller, which buy its share of a processor: about 1769 × recipients per
   * second × CPU seconds per mail / 0.5. 128 to 10,240, and better not below 256.
   * @default 256
   */
  readonly pollerMemory?: number;

  /**
   * Megabytes of the scheduler. More are needed for lists that the stack enqueues if their mails
   * are large: 128 make about 100 mails of 30 KB a second, or 3,000 small ones. 128 to 10,240.
   * @default 128
   */
  readonly schedulerMemory?: number;

  /**
   * Concurrent pollers that the account keeps for this one: 0 for none (a new account cannot
   * reserve any), else 10 to 1000.
   * @default 0
   */
  readonly reservedConcurrency?: number;

  /**
   * Whether both functions are traced with X-Ray.
   * @default false
   */
  readonly tracing?: boolean;

  /**
   * What the functions log, as a level or as directives such as `info,tidegate=debug`.
   * @default 'info'
   */
  readonly logLevel?: string;

  /**
   * Days that the functions' logs are kept.
   * @default RetentionDays.ONE_MONTH
   */
  readonly logRetentionDays?: RetentionDays;

  /**
   * Whether the ledger table can be restored to any second of the last 35 days. What it holds is
   * of use for minutes; the marks of deduplication are what could be worth it.
   * @default false
   */
  readonly pointInTimeRecovery?: boolean;

  /**
   * What becomes of the queues of mails, the ledger table and the logs when they leave the stack:
   * a campaign's queue does once the campaign leaves the props. What is retained keeps its name,
   * and stands in the way of a queue or log that is to be made anew. The store's bucket is retained
   * in any case: what is in it may be mail that nothing else holds.
   * @default RemovalPolicy.DESTROY
   */
  readonly removalPolicy?: RemovalPolicy;

  /**
   * An address that is subscribed to the alarm topic; it gets one mail to confirm.
   * @default - none: subscribe to `alarmTopic`
   */
  readonly alarmEmail?: string;

  /**
   * `few` has seven alarms, on metrics that AWS publishes for nothing; the scheduler tells the rest by
   * itself. `all` has an alarm for everything, and the dashboard; they cost $5 a month.
   * @default 'few'
   */
  readonly alarms?: 'few' | 'all';

  /**
   * Age of a queue's oldest message that alarms, in seconds: 60 to 1,209,599. At 1,209,600 (14
   * days) SQS deletes.
   * @default 864000 - ten days
   */
  readonly ageAlarmSeconds?: number;

  /**
   * The functions' code, such as a build of your own.
   * @default - the zips in this package, for `architecture`
   */
  readonly code?: TidegateCode;

  /**
   * Endpoint of every AWS service, for a local AWS.
   * @default - AWS's own
   */
  readonly endpointUrl?: string;

  /**
   * Endpoint of SQS alone.
   * @default - `endpointUrl`
   */
  readonly sqsEndpointUrl?: string;

  /**
   * Endpoint of SES alone, and of End User Messaging in a stack for text messages.
   * @default - `endpointUrl`
   */
  readonly sesEndpointUrl?: string;
}
