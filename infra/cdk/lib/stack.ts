import { CfnOutput, Stack } from 'aws-cdk-lib';
import type { StackProps } from 'aws-cdk-lib';
import { SecurityGroup, Subnet, Vpc } from 'aws-cdk-lib/aws-ec2';
import type { Construct } from 'constructs';
import type { TidegateProps } from './props.js';
import { Tidegate } from './tidegate.js';

/** Where the poller is put to reach a shared bucket, by ids: it needs no look-up of the VPC. */
export interface Network {
  readonly subnetIds: string[];
  readonly securityGroupIds: string[];
}

/** What a stack of one Tidegate has beside it. */
export interface TidegateStackProps extends StackProps {
  /**
   * @default - as `sharedBucket` of the Tidegate says
   */
  readonly network?: Network;
}

/** A stack of one Tidegate, whose outputs are those of the SAM template. */
export class TidegateStack extends Stack {
  /** What the stack is of. */
  readonly mail: Tidegate;

  constructor(scope: Construct, id: string, tidegate: TidegateProps, props: TidegateStackProps) {
    const { network, ...ofStack } = props;
    super(scope, id, {
      description: 'Tidegate sends e-mail campaigns through Amazon SES at exactly the account\'s quota.',
      ...ofStack,
    });
    const mail = new Tidegate(this, 'Mail', within(this, tidegate, network));
    this.mail = mail;
    this.output('ExpressQueueUrl', tidegate.expressQueue ? mail.expressQueue.queueUrl : undefined);
    this.output('MergeQueueUrl', tidegate.mode !== 'direct' ? mail.mergeQueue.queueUrl : undefined);
    this.output('LimitQueueUrls', mail.limitQueues.map((queue) => queue.queueUrl).join(','));
    this.output('DeferralBucket', mail.deferralBucket.bucketName);
    this.output('DeadLetterQueueUrl', mail.deadLetterQueue.queueUrl);
    this.output('FeedbackQueueUrl', mail.feedbackQueue?.queueUrl);
    this.output('FailedInvocationsQueueUrl', mail.failedInvocationsQueue.queueUrl);
    this.output('LedgerTable', mail.ledger.tableName);
    this.output('SchedulerFunction', mail.scheduler.functionName);
    this.output('PollerFunction', mail.poller.functionName);
    this.output('SchedulerLogGroup', mail.schedulerLog.logGroupName);
    this.output('PollerLogGroup', mail.pollerLog.logGroupName);
    // The name under which a campaign's own stack (infra/sam/campaign.yaml) finds the topic.
    this.output('AlarmTopic', mail.alarmTopic.topicArn, `${this.stackName}-AlarmTopic`);
    this.output('Dashboard', mail.dashboard?.dashboardName);
    this.output('ConfigurationSet', mail.configurationSet?.configurationSetName ?? mail.textConfigurationSet?.ref);
    this.campaignQueues();
  }

  /** One output a campaign, where its name is free, and a map of all of them. */
  private campaignQueues(): void {
    const urls = this.mail.campaignNames.map((name) => (
      [name, this.mail.campaignQueue(name).queueUrl] as const
    ));
    for (const [name, url] of urls) {
      const words = name.split(/[^A-Za-z0-9]+/).filter((word) => word !== '');
      const id = `${words.map((word) => word[0]?.toUpperCase() + word.slice(1)).join('')}QueueUrl`;
      if (this.node.tryFindChild(id) === undefined) this.output(id, url);
    }
    this.output('CampaignQueueUrls', JSON.stringify(Object.fromEntries(urls)));
  }

  private output(id: string, value: string | undefined, exportName?: string): void {
    if (value !== undefined) new CfnOutput(this, id, { value, exportName });
  }
}

function within(scope: Stack, tidegate: TidegateProps, network?: Network): TidegateProps {
  if (network === undefined || tidegate.sharedBucket === undefined) return tidegate;
  const subnets = network.subnetIds.map((subnetId, index) => (
    Subnet.fromSubnetAttributes(scope, `Subnet${index + 1}`, { subnetId, availabilityZone: '', routeTableId: '' })
  ));
  return {
    ...tidegate,
    sharedBucket: {
      ...tidegate.sharedBucket,
      // CloudFormation asks for the subnets alone, and finds their VPC itself.
      vpc: Vpc.fromVpcAttributes(scope, 'Vpc', { vpcId: '', availabilityZones: ['-'] }),
      subnets: { subnets },
      securityGroups: network.securityGroupIds.map((id, index) => (
        SecurityGroup.fromSecurityGroupId(scope, `SecurityGroup${index + 1}`, id, { mutable: false })
      )),
    },
  };
}
