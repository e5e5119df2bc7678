import { EventBus, Rule } from 'aws-cdk-lib/aws-events';
import type { EventPattern, IRuleTarget, RuleTargetInput } from 'aws-cdk-lib/aws-events';
import { Effect, PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { ConfigurationSet, EmailSendingEvent, EventDestination } from 'aws-cdk-lib/aws-ses';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { tidegateQueue } from './queues.js';

type Kind = 'bounce' | 'complaint';

/** SES's bounces and complaints, on their way to a queue that the scheduler reads. */
export class Feedback extends Construct {
  /** The configuration set of mails that name none. */
  readonly configurationSet: ConfigurationSet;
  /** Where one short message a bounce or complaint waits, without any address. */
  readonly queue: Queue;

  constructor(scope: Construct, name: string) {
    super(scope, 'Feedback');
    this.configurationSet = new ConfigurationSet(this, 'ConfigurationSet', {
      configurationSetName: name,
      reputationMetrics: true,
      sendingEnabled: true,
    });
    this.configurationSet.addEventDestination('Events', {
      // SES writes to the default bus and to no other.
      destination: EventDestination.eventBus(EventBus.fromEventBusName(this, 'Bus', 'default')),
      events: [EmailSendingEvent.BOUNCE, EmailSendingEvent.COMPLAINT],
      enabled: true,
      configurationSetEventDestinationName: 'feedback',
    });
    this.queue = tidegateQueue(this, 'Queue', `${name}-feedback`);
    const bounces = this.rule('BounceRule', name, 'bounce', {
      description: 'Hard bounces of Tidegate\'s mails.',
      detailType: ['Email Bounced'],
      detail: { bounce: { bounceType: ['Permanent'] } },
    });
    const complaints = this.rule('ComplaintRule', name, 'complaint', {
      description: 'Complaints about Tidegate\'s mails.',
      detailType: ['Email Complaint Received'],
      detail: {
        // Most providers name no type; not-spam is a mail taken out of the spam folder.
        complaint: {
          complaintFeedbackType: [{ exists: false }, { 'anything-but': ['not-spam'] }],
        },
      },
    });
    this.queue.addToResourcePolicy(new PolicyStatement({
      sid: 'Feedback',
      effect: Effect.ALLOW,
      principals: [new ServicePrincipal('events.amazonaws.com')],
      actions: ['sqs:SendMessage'],
      resources: [this.queue.queueArn],
      conditions: { ArnEquals: { 'aws:SourceArn': [bounces.ruleArn, complaints.ruleArn] } },
    }));
  }

  private rule(id: string, name: string, kind: Kind, takes: EventPattern & { description: string }): Rule {
    const mail = { tags: { 'ses:configuration-set': [name] } };
    return new Rule(this, id, {
      description: takes.description,
      eventPattern: {
        source: ['aws.ses'], detailType: takes.detailType, detail: { ...takes.detail, mail },
      },
      targets: [this.target(withoutAddresses(kind))],
    });
  }

  /** The library's own target would let EventBridge read the queue's attributes as well. */
  private target(input: RuleTargetInput): IRuleTarget {
    return {
      bind: () => ({ id: 'feedback', arn: this.queue.queueArn, input, targetResource: this.queue }),
    };
  }
}

/** What is told of an event. EventBridge itself puts the quotes around a string in a value's place. */
function withoutAddresses(kind: Kind): RuleTargetInput {
  return {
    bind: () => ({
      inputPathsMap: {
        campaign: '$.detail.mail.tags.tidegate_campaign',
        id: '$.detail.mail.messageId',
      },
      inputTemplate: `{"kind": "${kind}", "campaign": <campaign>, "id": <id>}`,
    }),
  };
}
