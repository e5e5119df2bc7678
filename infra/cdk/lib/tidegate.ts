import { Aws, Duration, Stack } from 'aws-cdk-lib';
import type { CfnResource } from 'aws-cdk-lib';
import type { Alarm, Dashboard } from 'aws-cdk-lib/aws-cloudwatch';
import { AttributeType, BillingMode, Table } from 'aws-cdk-lib/aws-dynamodb';
import { Rule, Schedule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction } from 'aws-cdk-lib/aws-events-targets';
import { Effect, Grant, PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import type { Function } from 'aws-cdk-lib/aws-lambda';
import type { LogGroup } from 'aws-cdk-lib/aws-logs';
import type { Bucket } from 'aws-cdk-lib/aws-s3';
import type { ConfigurationSet } from 'aws-cdk-lib/aws-ses';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { EmailSubscription } from 'aws-cdk-lib/aws-sns-subscriptions';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { Alarms } from './alarms.js';
import { dashboard } from './dashboard.js';
import { checkEnvironmentSize, pollerEnvironment, schedulerEnvironment } from './environment.js';
import type { Places } from './environment.js';
import { explain } from './explain.js';
import { Feedback } from './feedback.js';
import { logGroup, tidegateFunction } from './functions.js';
import { TidegateMetrics } from './metrics.js';
import { pollerRole, schedulerRole } from './permissions.js';
import type { TidegateProps } from './props.js';
import { CampaignQueue, limitQueue, mailQueue, mergeQueue, tidegateQueue, withRemoval } from './queues.js';
import { Receipts } from './receipts.js';
import { withDefaults } from './settings.js';
import type { Settings } from './settings.js';
import { DEFERRAL_PREFIX, deferralBucket } from './deferral.js';
import { limitQueueNames, InvalidProp, validate } from './validate.js';

/** What an operator reads of the channel's account. */
const SES_READS = [
  'ses:GetAccount', 'ses:GetSuppressedDestination', 'ses:GetTenant', 'ses:ListSuppressedDestinations', 'ses:TestRenderEmailTemplate',
];
const SMS_READS = ['sms-voice:DescribePhoneNumbers', 'sms-voice:DescribeSpendLimits'];

/**
 * Sends e-mail campaigns through Amazon SES at exactly the account's quota: queues, two functions,
 * the ledger, SES's feedback, alarms and a dashboard.
 *
 * @example
 * const mail = new Tidegate(this, 'Mail', {
 *   campaigns: [{ name: 'news', weight: 90 }, { name: 'receipts', weight: 10 }],
 * });
 * mail.grantSend(shop, 'receipts');
 */
export class Tidegate extends TidegateMetrics {
  /** What every physical name begins with. */
  readonly name: string;
  /** Starts the pollers, second by second; runs once a minute. */
  readonly scheduler: Function;
  /** Sends the mails of one second. */
  readonly poller: Function;
  /** The scheduler's log. */
  readonly schedulerLog: LogGroup;
  /** The poller's log. */
  readonly pollerLog: LogGroup;
  /** What the pollers share: claims, sums, the control record. */
  readonly ledger: Table;
  /** The minute's trigger. */
  readonly rule: Rule;
  /** Where mails go that cannot be sent, each with its reason. */
  readonly deadLetterQueue: Queue;
  /** The queue that the campaigns are merged into; nobody takes from it in direct mode. */
  readonly mergeQueue: Queue;
  /** The queue whose mails leave before all others; nobody takes from it unless `expressQueue`. */
  readonly expressQueue: Queue;
  /** The queues of the groups of recipient domains (`limits`), in their order; there are six. */
  readonly limitQueues: Queue[];
  /** Where mail is put aside under pressure; it stays when the stack is deleted. */
  readonly deferralBucket: Bucket;
  /** Asynchronous invokes that neither function took. */
  readonly failedInvocationsQueue: Queue;
  /** SES's bounces and complaints, or the receipts of texts, unless `feedback` is off. */
  readonly feedbackQueue?: Queue;
  /** The configuration set of mails that name none, unless `feedback` is off. */
  readonly configurationSet?: ConfigurationSet;
  /** That of texts, with `channel: 'sms'`. */
  readonly textConfigurationSet?: CfnResource;
  /** What every alarm tells. */
  readonly alarmTopic: Topic;
  /** The alarms, by their names without the Tidegate's. */
  readonly alarms: Readonly<Record<string, Alarm>>;
  /** One page that says whether mails leave as they should. */
  readonly dashboard?: Dashboard;

  private readonly settings: Settings;
  private readonly campaigns: ReadonlyMap<string, CampaignQueue>;

  /** @throws InvalidProp which names the first prop that cannot be, its value, and what is allowed. */
  constructor(scope: Construct, id: string, props: TidegateProps) {
    super(scope, id);
    const settings = withDefaults(props, Stack.of(this).stackName);
    validate(settings);
    checkEnvironmentSize(settings);
    this.settings = settings;
    this.name = settings.name;

    this.alarmTopic = this.topic();
    this.campaigns = this.campaignQueues();
    // Every queue is there whatever the props say: they only tell the functions which ones to use,
    // so that a wrong one never deletes a queue with mail in it.
    const removal = settings.removalPolicy;
    this.mergeQueue = mergeQueue(this, 'MergeQueue', `${this.name}-merge`, removal);
    this.expressQueue = mailQueue(this, 'ExpressQueue', `${this.name}-express`, removal);
    this.limitQueues = limitQueueNames(this.name)
      .map((name, index) => limitQueue(this, index + 1, name, removal));
    this.deferralBucket = deferralBucket(this);
    this.deadLetterQueue = withRemoval(
      tidegateQueue(this, 'DeadLetterQueue', `${this.name}-dead-letter`), removal,
    );
    this.failedInvocationsQueue = tidegateQueue(
      this, 'FailedInvocationsQueue', `${this.name}-failed-invocations`,
    );
    if (settings.feedback !== 'off') {
      if (settings.channel === 'sms') {
        ({ queue: this.feedbackQueue, configurationSet: this.textConfigurationSet } = new Receipts(this, this.name));
      } else {
        ({ queue: this.feedbackQueue, configurationSet: this.configurationSet } = new Feedback(this, this.name));
      }
    }
    this.ledger = this.table();

    this.schedulerLog = logGroup(this, 'scheduler', settings);
    this.pollerLog = logGroup(this, 'poller', settings);
    this.poller = this.pollerFunction();
    this.scheduler = this.schedulerFunction();
    this.rule = this.everyMinute();

    const campaignAges = Object.fromEntries(
      [...this.campaigns].flatMap(([name, { ageAlarm }]) => (ageAlarm ? [[`age-${name}`, ageAlarm]] : [])),
    );
    const watched = { settings, scheduler: this.scheduler, poller: this.poller };
    const alarms = new Alarms(this, {
      ...watched,
      metrics: this,
      topic: this.alarmTopic,
      deadLetterQueue: this.deadLetterQueue,
      mergeQueue: this.mergeQueue,
      expressQueue: this.expressQueue,
      limitQueues: this.limitQueues,
      campaignAges,
    });
    this.alarms = alarms.byName;
    if (settings.alarms === 'all') {
      this.dashboard = dashboard(this, {
        ...watched,
        ledger: this.ledger,
        alarms: this.alarms,
        campaignAges,
        queues: [this.expressQueue, this.mergeQueue, this.deadLetterQueue],
      });
    }
  }

  /** The campaigns' names, in the order of the props. */
  get campaignNames(): string[] {
    return [...this.campaigns.keys()];
  }

  /**
   * The queue that a campaign's mails are put on.
   * @throws InvalidProp where there is no such campaign.
   */
  campaignQueue(campaign: string): Queue {
    const found = this.campaigns.get(campaign);
    if (found === undefined) {
      throw new InvalidProp('campaign', campaign, `one of ${this.campaignNames.join(', ')}`);
    }
    return found.queue;
  }

  /**
   * Lets a producer put mails on a campaign's queue, on the express queue (`express`), or on those
   * of all campaigns of the props.
   * @throws InvalidProp where there is no such queue.
   */
  grantSend(grantee: IGrantable, campaign?: string): Grant {
    const names = campaign === undefined ? this.campaignNames : [campaign];
    const grants = names.map((name) => {
      const express = name === 'express' && this.settings.expressQueue;
      return (express ? this.expressQueue : this.campaignQueue(name)).grantSendMessages(grantee);
    });
    return grants.reduce((all, grant) => all.combine(grant));
  }

  /**
   * Lets an operator run the command `tidegate` on the stack: see what stands, and change the control
   * record (pauses, weights, holds, the rate's cap).
   */
  grantOperate(grantee: IGrantable): Grant {
    const queues = [
      ...this.campaignNames.map((name) => this.campaignQueue(name)),
      ...(this.settings.expressQueue ? [this.expressQueue] : []),
      this.mergeQueue, ...this.limitQueues, this.deadLetterQueue,
    ];
    const stack = Stack.of(this);
    const stackArn = stack.formatArn({
      service: 'cloudformation', resource: 'stack', resourceName: `${stack.stackName}/*`,
    });
    const may = (action: string, ...resourceArns: string[]): Grant =>
      Grant.addToPrincipal({ grantee, actions: [action], resourceArns });
    const functions = [this.scheduler.functionArn, this.poller.functionArn];
    return [
      ...queues.map((queue) => queue.grant(grantee, 'sqs:GetQueueAttributes')),
      may('cloudformation:DescribeStacks', stackArn),
      may('lambda:GetFunctionConfiguration', ...functions),
      this.grantWake(grantee),
      may('s3:ListBucket', this.deferralBucket.bucketArn),
      // These know no resources, or can be told none that is not the account's.
      may('cloudwatch:DescribeAlarms', '*'),
      may('cloudwatch:GetMetricData', '*'),
      ...(this.settings.channel === 'sms' ? SMS_READS : SES_READS).map((action) => may(action, '*')),
    ].reduce(
      (all, grant) => all.combine(grant),
      this.ledger.grant(grantee, 'dynamodb:BatchGetItem', 'dynamodb:GetItem', 'dynamodb:UpdateItem'),
    );
  }

  /**
   * Lets a producer have its mail sent within two seconds although the stack sleeps, by invoking the
   * scheduler asynchronously with any event.
   */
  grantWake(grantee: IGrantable): Grant {
    return Grant.addToPrincipal({
      grantee, actions: ['lambda:InvokeFunction'], resourceArns: [this.scheduler.functionArn],
    });
  }

  /**
   * Lets an operator take mails out of the dead-letter queue and out of the deferral bucket, and put
   * them back on their campaigns' queues.
   */
  grantReplay(grantee: IGrantable): Grant {
    const actions = ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'];
    const deferred = this.deferralBucket.arnForObjects(`${DEFERRAL_PREFIX}/*`);
    return [
      Grant.addToPrincipal({ grantee, actions, resourceArns: [deferred] }),
      Grant.addToPrincipal({
        grantee, actions: ['s3:ListBucket'], resourceArns: [this.deferralBucket.bucketArn],
      }),
      this.grantSend(grantee),
    ].reduce((all, grant) => all.combine(grant), this.deadLetterQueue.grantConsumeMessages(grantee));
  }

  private topic(): Topic {
    const topic = new Topic(this, 'AlarmTopic', {
      topicName: `${this.settings.name}-alarms`, enforceSSL: true,
    });
    // A topic with a policy of its own has lost the one that lets its account publish.
    topic.addToResourcePolicy(new PolicyStatement({
      sid: 'Alarms',
      effect: Effect.ALLOW,
      principals: [new ServicePrincipal('cloudwatch.amazonaws.com')],
      actions: ['sns:Publish'],
      resources: [topic.topicArn],
      conditions: { StringEquals: { 'aws:SourceAccount': Aws.ACCOUNT_ID } },
    }));
    if (this.settings.alarmEmail !== undefined) {
      topic.addSubscription(new EmailSubscription(this.settings.alarmEmail));
    }
    return topic;
  }

  private campaignQueues(): ReadonlyMap<string, CampaignQueue> {
    return new Map(this.settings.campaigns.map((campaign) => [
      campaign.name,
      new CampaignQueue(this, `Campaign-${campaign.name}`, {
        tidegate: this.settings.name,
        campaign,
        alarmTopic: this.alarmTopic,
        ageAlarmSeconds: this.settings.ageAlarmSeconds,
        alarm: this.settings.alarms === 'all',
        removalPolicy: this.settings.removalPolicy,
      }),
    ]));
  }

  private table(): Table {
    const table = new Table(this, 'Ledger', {
      billingMode: BillingMode.PAY_PER_REQUEST,
      partitionKey: { name: 'pk', type: AttributeType.STRING },
      timeToLiveAttribute: 'expires_at',
      pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: this.settings.pointInTimeRecovery },
    });
    withRemoval(table, this.settings.removalPolicy);
    if (!this.settings.pointInTimeRecovery) {
      explain(table, 'AwsSolutions-DDB3', 'The ledger holds what is of use for minutes: which second is being served, and '
        + 'the control record. A copy of yesterday\'s is worth nothing; pointInTimeRecovery is '
        + 'there for who keeps deduplication\'s marks.');
    }
    return table;
  }

  private places(): Places {
    return {
      ledgerTable: this.ledger.tableName,
      campaigns: this.settings.campaigns.map((campaign) => (
        { ...campaign, url: this.campaignQueue(campaign.name).queueUrl }
      )),
      mergeQueue: this.settings.mode === 'merge' ? this.mergeQueue.queueUrl : undefined,
      expressQueue: this.settings.expressQueue ? this.expressQueue.queueUrl : undefined,
      limitQueues: this.limitQueues.map((queue) => queue.queueUrl),
      deferralBucket: this.deferralBucket.bucketName,
      alarmTopic: this.alarmTopic.topicArn,
      deadLetterQueue: this.deadLetterQueue.queueUrl,
      feedbackQueue: this.feedbackQueue?.queueUrl,
      configurationSet: this.configurationSet?.configurationSetName ?? this.textConfigurationSet?.ref,
    };
  }

  private schedulerFunction(): Function {
    return tidegateFunction(this, this.settings, {
      of: 'scheduler',
      description: 'Issues one tick for each second of the coming minute.',
      memorySize: this.settings.schedulerMemory,
      timeout: Duration.seconds(90),
      role: schedulerRole(this, this.schedulerLog, this.protected()),
      logGroup: this.schedulerLog,
      environment: schedulerEnvironment(this.settings, this.places(), this.poller.functionName),
      failedInvocations: this.failedInvocationsQueue,
    });
  }

  private pollerFunction(): Function {
    return tidegateFunction(this, this.settings, {
      of: 'poller',
      description: 'Sends the mails of one window of one second.',
      memorySize: this.settings.pollerMemory,
      // Below the queues' visibility timeout of 30: a mail must not come back while it is sent.
      timeout: Duration.seconds(15),
      reservedConcurrentExecutions: this.settings.reservedConcurrency || undefined,
      ...this.network(),
      role: pollerRole(this, this.pollerLog, this.protected()),
      logGroup: this.pollerLog,
      environment: pollerEnvironment(this.settings, this.places()),
      failedInvocations: this.failedInvocationsQueue,
    });
  }

  /** The scheduler stays outside: it takes from no shared bucket. */
  private network() {
    const { vpc, subnets: vpcSubnets, securityGroups } = this.settings.sharedBucket ?? {};
    return vpc === undefined ? {} : { vpc, vpcSubnets, securityGroups };
  }

  private protected() {
    return {
      settings: this.settings,
      ledger: this.ledger,
      failedInvocations: this.failedInvocationsQueue,
      mergeQueue: this.mergeQueue,
      expressQueue: this.expressQueue,
      limitQueues: this.limitQueues,
      deferralBucket: this.deferralBucket,
      alarmTopic: this.alarmTopic,
      deadLetterQueue: this.deadLetterQueue,
      feedbackQueue: this.feedbackQueue,
    };
  }

  private everyMinute(): Rule {
    return new Rule(this, 'EveryMinute', {
      description: 'Starts the scheduler once a minute.',
      schedule: Schedule.rate(Duration.minutes(1)),
      enabled: this.settings.schedule === 'ENABLED',
      targets: [new LambdaFunction(this.scheduler, {
        retryAttempts: 2, maxEventAge: Duration.minutes(1),
      })],
    });
  }
}
