import { EventBus, Rule } from 'aws-cdk-lib/aws-events';
import type { IRuleTarget, RuleTargetInput } from 'aws-cdk-lib/aws-events';
import { Effect, PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { ConfigurationSet, EmailSendingEvent, EventDestination } from 'aws-cdk-lib/aws-ses';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { tidegateQueue } from './queues.js';

type Kind = 'bounce' | 'complaint' | 'deferral' | 'suppressed' | 'dropped';

/** What becomes of an event: the notice that it is, of whom, and why. */
interface Taken {
  description: string;
  detailType: string;
  detail: object;
  kind: Kind;
  /** Where the event has the recipients that it concerns. */
  recipients: string;
  /** Where the event has a reason. */
  reason?: string;
  /** Tags that the mail must have besides the configuration set. */
  tags?: object;
}

/**
 * Delays that the recipient's provider, or SES for its sake, asks for. A full mailbox, SES's own failures and unknown
 * reasons say nothing of the provider's pace. The values: "Contents of event data" in the SES developer guide,
 * https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns-contents.html
 */
const DELAYS = [
  'General', 'IPFailure', 'RecipientServerError', 'SendingDeferral', 'SpamDetected', 'TransientCommunicationFailure',
];

/**
 * Bounces and complaints of these sub types SES does not count: it did not try to reach the address. "Suppressed", of
 * SES's own list, counts.
 */
const SUPPRESSED = [
  'OnAccountSuppressionList', 'OnTenantSuppressionList', 'UnsubscribedRecipient', 'EmailValidationSuppressed',
];

/** In a real complaint the sub type is null, which anything-but takes, or missing. */
const COUNTED = [{ exists: false }, { 'anything-but': SUPPRESSED }];

/** SES's bounces, complaints, deferrals and dropped mail, on their way to a queue that the scheduler reads. */
export class Feedback extends Construct {
  /** The configuration set of mails that name none. */
  readonly configurationSet: ConfigurationSet;
  /** Where one short message an event waits. */
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
      events: [
        EmailSendingEvent.BOUNCE, EmailSendingEvent.COMPLAINT, EmailSendingEvent.DELIVERY_DELAY,
        EmailSendingEvent.RENDERING_FAILURE, EmailSendingEvent.REJECT,
      ],
      enabled: true,
      configurationSetEventDestinationName: 'feedback',
    });
    this.queue = tidegateQueue(this, 'Queue', `${name}-feedback`);
    const bounced = { detailType: 'Email Bounced', recipients: 'bounce.bouncedRecipients' };
    const complained = { detailType: 'Email Complaint Received', recipients: 'complaint.complainedRecipients' };
    // Mail under an adaptive limit or a warm-up alone has the tag: without one no deferral comes through.
    const deferred = { kind: 'deferral' as const, tags: { tidegate_limit: [{ exists: true }] } };
    const dropped = { kind: 'dropped' as const, detail: {}, recipients: 'mail.destination' };
    const taken: Record<string, Taken> = {
      BounceRule: {
        description: 'Hard bounces of Tidegate\'s mails.',
        ...bounced,
        kind: 'bounce',
        detail: { bounce: { bounceType: ['Permanent'], bounceSubType: COUNTED } },
      },
      ComplaintRule: {
        description: 'Complaints about Tidegate\'s mails.',
        ...complained,
        kind: 'complaint',
        detail: {
          complaint: {
            // Most providers name no type; not-spam is a mail taken out of the spam folder.
            complaintFeedbackType: [{ exists: false }, { 'anything-but': ['not-spam'] }],
            complaintSubType: COUNTED,
          },
        },
      },
      SuppressedBounceRule: {
        description: 'Bounces of Tidegate\'s mails to addresses that SES did not try to reach.',
        ...bounced,
        kind: 'suppressed',
        detail: { bounce: { bounceSubType: SUPPRESSED } },
      },
      SuppressedComplaintRule: {
        description: 'Complaints about Tidegate\'s mails to addresses that SES did not try to reach.',
        ...complained,
        kind: 'suppressed',
        detail: { complaint: { complaintSubType: SUPPRESSED } },
      },
      DelayRule: {
        description: 'Providers\' deferrals of Tidegate\'s mails under limits that hear of them; SES tries again.',
        detailType: 'Email Delivery Delayed',
        recipients: 'deliveryDelay.delayedRecipients',
        detail: { deliveryDelay: { delayType: DELAYS } },
        ...deferred,
      },
      SoftBounceRule: {
        description: 'Providers\' deferrals of Tidegate\'s mails under limits that hear of them; SES gave up.',
        ...bounced,
        // SES takes replies of people who are away for soft bounces, too. These have no failed action.
        detail: {
          bounce: {
            bounceType: ['Transient'], bounceSubType: ['General'], bouncedRecipients: { action: ['failed'] },
          },
        },
        ...deferred,
      },
      RenderingFailureRule: {
        description: 'Tidegate\'s mails whose template SES could not render.',
        detailType: 'Email Rendering Failed',
        reason: 'failure.errorMessage',
        ...dropped,
      },
      RejectRule: {
        description: 'Tidegate\'s mails that SES accepted and then rejected.',
        detailType: 'Email Rejected',
        reason: 'reject.reason',
        ...dropped,
      },
    };
    const rules = Object.entries(taken).map(([id, of]) => this.rule(id, name, of));
    this.queue.addToResourcePolicy(new PolicyStatement({
      sid: 'Feedback',
      effect: Effect.ALLOW,
      principals: [new ServicePrincipal('events.amazonaws.com')],
      actions: ['sqs:SendMessage'],
      resources: [this.queue.queueArn],
      conditions: { ArnEquals: { 'aws:SourceArn': rules.map((rule) => rule.ruleArn) } },
    }));
  }

  private rule(id: string, name: string, taken: Taken): Rule {
    const mail = { tags: { 'ses:configuration-set': [name], ...taken.tags } };
    return new Rule(this, id, {
      description: taken.description,
      eventPattern: { source: ['aws.ses'], detailType: [taken.detailType], detail: { ...taken.detail, mail } },
      targets: [this.target(notice(taken))],
    });
  }

  /** The library's own target would let EventBridge read the queue's attributes as well. */
  private target(input: RuleTargetInput): IRuleTarget {
    return {
      bind: () => ({ id: 'feedback', arn: this.queue.queueArn, input, targetResource: this.queue }),
    };
  }
}

/** Neither subject nor other headers come into it. EventBridge itself puts the quotes around a string in a value's place. */
function notice({ kind, recipients, reason }: Taken): RuleTargetInput {
  const why = reason ? ', "reason": <reason>' : '';
  return {
    bind: () => ({
      inputPathsMap: {
        campaign: '$.detail.mail.tags.tidegate_campaign',
        id: '$.detail.mail.messageId',
        recipients: `$.detail.${recipients}`,
        tags: '$.detail.mail.tags',
        sent_at: '$.detail.mail.timestamp',
        ...(reason ? { reason: `$.detail.${reason}` } : {}),
      },
      inputTemplate: `{"kind": "${kind}", "campaign": <campaign>, "id": <id>, "recipients": <recipients>, `
        + `"tags": <tags>, "sent_at": <sent_at>${why}}`,
    }),
  };
}
