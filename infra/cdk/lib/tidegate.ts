import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import {
  aws_cloudwatch as cloudwatch, aws_dynamodb as dynamodb, aws_ec2 as ec2, aws_iam as iam, aws_lambda as lambda, aws_logs as logs, aws_s3 as s3,
  aws_sns as sns, aws_sqs as sqs, CfnDeletionPolicy, CfnOutput, Duration, Lazy, RemovalPolicy, Stack, Token,
} from 'aws-cdk-lib';
import { CfnInclude } from 'aws-cdk-lib/cloudformation-include';
import { Construct } from 'constructs';
import { CampaignQueue } from './campaigns.js';
import { explain } from './explain.js';
import type { TidegateProps } from './props.js';
import { GivenTemplate } from './template.js';
import { checkCampaigns, checkName, demand, parameterValues } from './validate.js';

/** A function whose metrics they are. */
export type MetricFunction = 'scheduler' | 'poller';

/** The functions' zips beside lib, where this is the package; a checkout has none. */
const ZIPS = resolve(__dirname, '../functions');
const LIMIT_QUEUES = [1, 2, 3, 4, 5, 6];
const CAMPAIGN_LISTS = ['environment', 'tags', 'ledger'];
/** Their names, queues' URLs and weights take some 2.7 KB of the 4 KB that Lambda allows of an environment. */
const MOST_CAMPAIGNS = 20;
/** Alarms that a widget of a dashboard shows. */
const MOST_ALARMS = 100;

/** What an operator reads of the channel's account. */
const SES_READS = [
  'ses:GetAccount', 'ses:GetSuppressedDestination', 'ses:GetTenant', 'ses:ListSuppressedDestinations', 'ses:TestRenderEmailTemplate',
];
const SMS_READS = ['sms-voice:DescribePhoneNumbers', 'sms-voice:DescribeSpendLimits'];

/**
 * Sends e-mail campaigns through Amazon SES at exactly the account's quota: queues, two functions,
 * the ledger, SES's feedback, alarms and a dashboard. All of it is the SAM template's, but for the campaigns' queues.
 *
 * @example
 * const mail = new Tidegate(this, 'Mail', {
 *   campaigns: [{ name: 'news', weight: 90 }, { name: 'receipts', weight: 10 }],
 * });
 * mail.grantSend(shop, 'receipts');
 */
export class Tidegate extends Construct {
  /** What every physical name begins with. */
  readonly name: string;
  /** The template's resources, by their ids in it, for what has no member here: `template.getResource('Dashboard')`. */
  readonly template: CfnInclude;
  /** Starts the pollers, second by second; runs once a minute. */
  readonly scheduler: lambda.IFunction;
  /** Sends the mails of one second. */
  readonly poller: lambda.IFunction;
  /** The scheduler's log. */
  readonly schedulerLog: logs.ILogGroup;
  /** The poller's log. */
  readonly pollerLog: logs.ILogGroup;
  /** What the pollers share: claims, sums, the control record. */
  readonly ledger: dynamodb.ITable;
  /** Where mails go that cannot be sent, each with its reason. */
  readonly deadLetterQueue: sqs.IQueue;
  /** The queue that the campaigns are merged into; nobody takes from it in direct mode. */
  readonly mergeQueue: sqs.IQueue;
  /** The queue whose mails leave before all others; nobody takes from it unless `expressQueue`. */
  readonly expressQueue: sqs.IQueue;
  /** The queues of the groups of recipient domains (`limits`), in their order; there are six. */
  readonly limitQueues: sqs.IQueue[];
  /** Where mail waits longer than a queue should; it stays when the stack is deleted. */
  readonly storeBucket: s3.IBucket;
  /** What every alarm tells. */
  readonly alarmTopic: sns.ITopic;
  /** The alarms, by their names without the Tidegate's. */
  readonly alarms: Readonly<Record<string, cloudwatch.IAlarm>>;

  private readonly campaigns: ReadonlyMap<string, CampaignQueue>;

  /** @throws InvalidProp which names the first prop that cannot be, its value, and what is allowed. */
  constructor(scope: Construct, id: string, private readonly props: TidegateProps) {
    super(scope, id);
    this.name = props.name ?? Stack.of(this).stackName;
    checkName(this.name);
    checkCampaigns(props.campaigns, this.name);
    const { campaignList = 'environment', removalPolicy = RemovalPolicy.DESTROY } = props;
    demand(CAMPAIGN_LISTS.includes(campaignList), 'campaignList', campaignList, CAMPAIGN_LISTS.join(', '));
    const fit = campaignList !== 'environment' || props.campaigns.length <= MOST_CAMPAIGNS;
    demand(fit, 'campaigns', `${props.campaigns.length} campaigns`, `${MOST_CAMPAIGNS} in the poller's environment, `
      + 'which holds 4 KB; use campaignList: \'tags\' for more');
    const values = parameterValues(props);

    this.alarmTopic = sns.Topic.fromTopicArn(this, 'AlarmTopic', Lazy.string({ produce: () => this.ref('AlarmTopic') }));
    this.campaigns = new Map(props.campaigns.map((campaign) => [campaign.name, new CampaignQueue(this, `Campaign-${campaign.name}`, {
      tidegate: this.name,
      campaign,
      alarmTopic: this.alarmTopic,
      ageAlarmSeconds: props.ageAlarmSeconds,
      alarm: props.alarms === 'all',
      removalPolicy,
    })]));
    const [first, second] = this.campaignNames.map((name) => this.campaignQueue(name).queueUrl);
    const { vpc, subnets, securityGroups } = props.sharedBucket ?? {};
    const groups = vpc === undefined ? [] : securityGroups ?? [new ec2.SecurityGroup(this, 'PollerGroup', { vpc })];
    const evaluated = new GivenTemplate({
      ...values,
      'AWS::StackName': this.name,
      Campaigns: campaignList === 'environment' ? this.campaignsAsJson() : campaignList,
      SecondCampaignName: second === undefined ? '' : props.campaigns[1]!.name,
      FirstCampaignQueue: first,
      SecondCampaignQueue: second,
      SubnetIds: vpc === undefined ? '' : vpc.selectSubnets(subnets).subnetIds,
      SecurityGroupIds: groups.map((group) => group.securityGroupId),
    }).evaluated();
    this.withoutTemplatesCampaigns(evaluated.Resources);
    this.template = this.included(evaluated);
    this.outputs(evaluated.Outputs);

    for (const [logicalId, resource] of Object.entries(evaluated.Resources)) {
      const made = this.template.getResource(logicalId);
      explain(this.template, logicalId, resource);
      const { deletionPolicy, updateReplacePolicy } = made.cfnOptions;
      // Queues of mails, the ledger and the logs; the store's bucket is retained whatever the prop says.
      if (deletionPolicy === CfnDeletionPolicy.DELETE && updateReplacePolicy === CfnDeletionPolicy.RETAIN) {
        made.applyRemovalPolicy(removalPolicy, { applyToUpdateReplacePolicy: false });
      }
    }
    this.code('poller');
    this.code('scheduler');

    this.mergeQueue = this.queue('MergeQueue', true);
    this.expressQueue = this.queue('ExpressMailQueue');
    this.limitQueues = LIMIT_QUEUES.map((number) => this.queue(`LimitQueue${number}`));
    this.deadLetterQueue = this.queue('DeadLetterQueue');
    this.storeBucket = s3.Bucket.fromBucketName(this, 'StoreBucket', this.ref('StoreBucket'));
    this.ledger = dynamodb.Table.fromTableName(this, 'Ledger', this.ref('LedgerTable'));
    this.schedulerLog = logs.LogGroup.fromLogGroupName(this, 'SchedulerLog', this.ref('SchedulerLog'));
    this.pollerLog = logs.LogGroup.fromLogGroupName(this, 'PollerLog', this.ref('PollerLog'));
    this.scheduler = this.function('Scheduler');
    this.poller = this.function('Poller', groups[0]);
    this.alarms = Object.fromEntries([
      ...Object.entries(evaluated.Resources).filter(([, { Type }]) => Type === 'AWS::CloudWatch::Alarm').map(([logicalId, { Properties }]) => (
        [Properties.AlarmName.slice(this.name.length + 1), cloudwatch.Alarm.fromAlarmArn(this, logicalId, this.arn(logicalId))]
      )),
      ...[...this.campaigns].flatMap(([name, { ageAlarm }]) => (ageAlarm ? [[`age-${name}`, ageAlarm]] : [])),
    ]);
  }

  /** The campaigns' names, in the order of the props. */
  get campaignNames(): string[] {
    return [...this.campaigns.keys()];
  }

  /**
   * The queue that a campaign's mails are put on.
   * @throws InvalidProp where there is no such campaign.
   */
  campaignQueue(campaign: string): sqs.Queue {
    const found = this.campaigns.get(campaign);
    demand(found !== undefined, 'campaign', campaign, `one of ${this.campaignNames.join(', ')}`);
    return found.queue;
  }

  /** Any metric of a function, by its name: docs/operations/metrics.md lists them. */
  metric(of: MetricFunction, metricName: string, options?: cloudwatch.MetricOptions): cloudwatch.Metric {
    return this.minuteSum({ Function: of }, metricName, options);
  }

  /** Any metric of a campaign: `Sent`, `Fed`, `Bounced`, `Complained`. Express mail is `express`. */
  metricCampaign(campaign: string, metricName: string, options?: cloudwatch.MetricOptions): cloudwatch.Metric {
    return this.minuteSum({ Campaign: campaign }, metricName, options);
  }

  /**
   * Lets a producer put mails on a campaign's queue, on the express queue (`express`), or on those
   * of all campaigns of the props.
   * @throws InvalidProp where there is no such queue.
   */
  grantSend(grantee: iam.IGrantable, campaign?: string): iam.Grant {
    const names = campaign === undefined ? this.campaignNames : [campaign];
    return combined(names.map((name) => {
      const express = name === 'express' && this.props.expressQueue;
      return (express ? this.expressQueue : this.campaignQueue(name)).grantSendMessages(grantee);
    }));
  }

  /**
   * Lets an operator run the command `tidegate` on the stack: see what stands, and change the control
   * record (pauses, weights, holds, the rate's cap).
   */
  grantOperate(grantee: iam.IGrantable): iam.Grant {
    const stack = Stack.of(this);
    const queues = [
      ...this.campaignNames.map((name) => this.campaignQueue(name)),
      ...(this.props.expressQueue ? [this.expressQueue] : []),
      this.mergeQueue, ...this.limitQueues, this.deadLetterQueue,
    ];
    const may = (action: string, ...resourceArns: string[]) => iam.Grant.addToPrincipal({ grantee, actions: [action], resourceArns });
    return combined([
      this.ledger.grant(grantee, 'dynamodb:BatchGetItem', 'dynamodb:GetItem', 'dynamodb:UpdateItem'),
      ...queues.map((queue) => queue.grant(grantee, 'sqs:GetQueueAttributes')),
      may('cloudformation:DescribeStacks', stack.formatArn({ service: 'cloudformation', resource: 'stack', resourceName: `${stack.stackName}/*` })),
      may('lambda:GetFunctionConfiguration', this.scheduler.functionArn, this.poller.functionArn),
      this.grantWake(grantee),
      may('logs:FilterLogEvents', `arn:${stack.partition}:logs:${stack.region}:${stack.account}:log-group:/aws/lambda/${this.poller.functionName}:*`),
      may('s3:ListBucket', this.storeBucket.bucketArn),
      // These know no resources, or can be told none that is not the account's.
      may('cloudwatch:DescribeAlarms', '*'),
      may('cloudwatch:GetMetricData', '*'),
      ...(this.props.channel === 'sms' ? SMS_READS : SES_READS).map((action) => may(action, '*')),
    ]);
  }

  /**
   * Lets a producer have its mail sent within two seconds although the stack sleeps, by invoking the
   * scheduler asynchronously with any event.
   */
  grantWake(grantee: iam.IGrantable): iam.Grant {
    return iam.Grant.addToPrincipal({ grantee, actions: ['lambda:InvokeFunction'], resourceArns: [this.scheduler.functionArn] });
  }

  /**
   * Lets an operator take mails out of the dead-letter queue and out of the store, and put
   * them back on their campaigns' queues.
   */
  grantReplay(grantee: iam.IGrantable): iam.Grant {
    const actions = ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'];
    return combined([
      this.deadLetterQueue.grantConsumeMessages(grantee),
      iam.Grant.addToPrincipal({ grantee, actions, resourceArns: [this.storeBucket.arnForObjects('store/*')] }),
      iam.Grant.addToPrincipal({ grantee, actions: ['s3:ListBucket'], resourceArns: [this.storeBucket.bucketArn] }),
      this.grantSend(grantee),
    ]);
  }

  /** The sum of one minute, unless the options say otherwise. */
  private minuteSum(dimensions: Record<string, string>, metricName: string, options?: cloudwatch.MetricOptions): cloudwatch.Metric {
    const dimensionsMap = { Stack: this.name, ...dimensions };
    const minute = { statistic: cloudwatch.Stats.SUM, period: Duration.minutes(1) };
    return new cloudwatch.Metric({ namespace: 'Tidegate', metricName, dimensionsMap, ...minute, ...options });
  }

  private campaignsAsJson(): string {
    return JSON.stringify(this.props.campaigns.map(({ name, weight, tenant }) => (
      { name, queue_url: this.campaignQueue(name).queueUrl, weight, tenant }
    )));
  }

  /** A campaign of the construct comes and goes with its queue; the template's two queues would stay, unused. */
  private withoutTemplatesCampaigns(resources: Record<string, any>): void {
    for (const id of ['FirstCampaignQueue', 'SecondCampaignQueue', 'AgeFirstAlarm', 'AgeSecondAlarm']) delete resources[id];
    const { Properties } = resources.QueuePolicy;
    Properties.Queues = Properties.Queues.filter((queue: unknown) => typeof queue !== 'string');
    const body = resources.Dashboard?.Properties.DashboardBody;
    if (body === undefined) return;
    const alarms = Object.values(resources).filter(({ Type }) => Type === 'AWS::CloudWatch::Alarm').length;
    const ages = this.campaignNames.slice(0, MOST_ALARMS - alarms)
      .map((name) => `"\${Alarm}-age-${name}"`).join(', ');
    body['Fn::Sub'][0] = body['Fn::Sub'][0].replace('"${Alarm}-age-first", "${Alarm}-age-second"', () => ages);
  }

  private included({ Resources }: { Resources: object }): CfnInclude {
    const folder = mkdtempSync(join(tmpdir(), 'tidegate-cdk-'));
    try {
      const templateFile = join(folder, 'template.json');
      writeFileSync(templateFile, JSON.stringify({ Resources }));
      return new CfnInclude(this, 'Template', { templateFile, preserveLogicalIds: false });
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  /** Those of the template, under its names: by them the command `tidegate` finds the stack. Of two in one stack, the first's. */
  private outputs(outputs: Record<string, any>): void {
    const stack = Stack.of(this);
    if (stack.node.tryFindChild('CampaignQueueUrls') !== undefined) return;
    const put = (value: any): any => {
      if (typeof value !== 'object' || value === null) return value;
      if (value.Ref !== undefined) return this.ref(value.Ref);
      return value['Fn::Join'][1].map(put).join(value['Fn::Join'][0]);
    };
    for (const [id, { Value, Description, Export }] of Object.entries(outputs)) {
      new CfnOutput(stack, id, { value: put(Value), description: Description, exportName: Export?.Name });
    }
    const urls = this.campaignNames.map((name) => [name, this.campaignQueue(name).queueUrl]);
    new CfnOutput(stack, 'CampaignQueueUrls', { value: JSON.stringify(Object.fromEntries(urls)) });
  }

  /** Points a function at the package's own zip, unless the props say otherwise. */
  private code(of: MetricFunction): void {
    const { architecture, channel } = this.props;
    const name = `${of}-${architecture?.name ?? 'arm64'}${channel === 'sms' ? '-sms' : ''}.zip`;
    const zip = join(ZIPS, name);
    const lacking = `{ scheduler, poller }, since this package lacks ${basename(zip)}: it is a checkout, or was packaged without it`;
    demand(this.props.code !== undefined || existsSync(zip), 'code', undefined, lacking);
    const code = this.props.code?.[of] ?? lambda.Code.fromAsset(zip);
    const function_ = this.template.getResource(of === 'scheduler' ? 'SchedulerFunction' : 'PollerFunction') as lambda.CfnFunction;
    const { s3Location } = code.bind(function_);
    demand(s3Location !== undefined, 'code', of, 'a package in S3, such as Code.fromAsset(…)');
    const { bucketName, objectKey, objectVersion } = s3Location;
    function_.code = { s3Bucket: bucketName, s3Key: objectKey, s3ObjectVersion: objectVersion };
    code.bindToResource(function_);
  }

  private function(of: 'Scheduler' | 'Poller', securityGroup?: ec2.ISecurityGroup): lambda.IFunction {
    return lambda.Function.fromFunctionAttributes(this, of, {
      functionArn: this.arn(`${of}Function`),
      role: iam.Role.fromRoleName(this, `${of}Role`, this.ref(`${of}Role`)),
      sameEnvironment: true,
      securityGroup,
    });
  }

  private queue(logicalId: string, fifo = false): sqs.IQueue {
    return sqs.Queue.fromQueueAttributes(this, logicalId, { queueArn: this.arn(logicalId), queueUrl: this.ref(logicalId), fifo });
  }

  private ref(logicalId: string): string {
    return this.template.getResource(logicalId).ref;
  }

  private arn(logicalId: string): string {
    return Token.asString(this.template.getResource(logicalId).getAtt('Arn'));
  }
}

function combined(grants: iam.Grant[]): iam.Grant {
  return grants.reduce((all, grant) => all.combine(grant));
}
