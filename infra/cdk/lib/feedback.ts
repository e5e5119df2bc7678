import { EventBus, Rule } from 'aws-cdk-lib/aws-events';
import type { EventPattern, IRuleTarget, RuleTargetInput } from 'aws-cdk-lib/aws-events';
import { Effect, PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { ConfigurationSet, EmailSendingEvent, EventDestination } from 'aws-cdk-lib/aws-ses';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { tidegateQueue } from './queues.js';

type Kind = 'bounce' | 'complaint' | 'deferral';

/**
 * Delays that the recipient's provider, or SES for its sake, asks for. A full mailbox, SES's own failures and unknown
 * reasons say nothing of the provider's pace. The values: "Contents of event data" in the SES developer guide,
 * https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns-contents.html
 */
const DELAYS = [
  'General', 'IPFailure', 'RecipientServerError', 'SendingDeferral', 'SpamDetected', 'TransientCommunicationFailure',
];

/** SES's bounces, complaints and deferrals, on their way to a queue that the scheduler reads. */
export class Feedback extends Construct {
  /** The configuration set of mails that name none. */
  readonly configurationSet: ConfigurationSet;
  /** Where one short message a bounce, complaint or deferral waits, without any address. */
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
      events: [EmailSendingEvent.BOUNCE, EmailSendingEvent.COMPLAINT, EmailSendingEvent.DELIVERY_DELAY],
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
    // Mail under an adaptive limit or a warm-up alone has the tag: without one nothing comes through these two.
    const limited = { tidegate_limit: [{ exists: true }] };
    const delays = this.rule('DelayRule', name, 'deferral', {
      description: 'Providers\' deferrals of Tidegate\'s mails under limits that hear of them; SES tries again.',
      detailType: ['Email Delivery Delayed'],
      detail: { deliveryDelay: { delayType: DELAYS } },
    }, limited);
    const softBounces = this.rule('SoftBounceRule', name, 'deferral', {
      description: 'Providers\' deferrals of Tidegate\'s mails under limits that hear of them; SES gave up.',
      detailType: ['Email Bounced'],
      detail: { bounce: { bounceType: ['Transient'], bounceSubType: ['General'] } },
    }, limited);
    const rules = [bounces, complaints, delays, softBounces];
    this.queue.addToResourcePolicy(new PolicyStatement({
      sid: 'Feedback',
      effect: Effect.ALLOW,
      principals: [new ServicePrincipal('events.amazonaws.com')],
      actions: ['sqs:SendMessage'],
      resources: [this.queue.queueArn],
      conditions: { ArnEquals: { 'aws:SourceArn': rules.map((rule) => rule.ruleArn) } },
    }));
  }

  private rule(
    id: string, name: string, kind: Kind, takes: EventPattern & { description: string }, tags: object = {},
  ): Rule {
    const mail = { tags: { 'ses:configuration-set': [name], ...tags } };
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
        tags: '$.detail.mail.tags',
        sent_at: '$.detail.mail.timestamp',
      },
      inputTemplate:
        `{"kind": "${kind}", "campaign": <campaign>, "id": <id>, "tags": <tags>, "sent_at": <sent_at>}`,
    }),
  };
}
