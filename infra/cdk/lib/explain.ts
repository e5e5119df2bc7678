import { Validations, type Stack } from 'aws-cdk-lib';
import type { CfnInclude } from 'aws-cdk-lib/cloudformation-include';
import type { IConstruct } from 'constructs';
import type { Resource } from './template.js';

const NO_REDRIVE = 'No queue of Tidegate has a redrive policy: a mail that waits for its slot is received many times, and '
  + 'must never drift into a dead-letter queue. The poller itself moves what cannot be sent to the dead-letter queue, with '
  + 'its reason; an alarm tells of it.';
const NO_ACCESS_LOG = 'Two roles alone reach it, and CloudTrail\'s data events tell of that where it is asked for; a log of every '
  + 'access would need a bucket of its own.';
const NO_RECOVERY = 'The ledger holds what is of use for minutes: which second is being served, and the control record. A copy '
  + 'of yesterday\'s is worth nothing; pointInTimeRecovery is there for who keeps deduplication\'s marks.';
const WILDCARD = 'It knows no resources, or its resources come and go under a prefix of this Tidegate\'s own, or they are the '
  + 'user\'s choice (allowedSenders, senderIdentityArns, origins): infra/sam/template.yaml says which at each statement.';

/**
 * Tells cdk-nag why a rule does not apply to a resource of the template. An aws-cdk-lib from before Validations gives a
 * library no way to say so without a dependency on cdk-nag: there the app has to.
 */
export function explain(template: CfnInclude, logicalId: string, { Type, Properties }: Resource): void {
  const resource = template.getResource(logicalId);
  if (Type === 'AWS::SQS::Queue') acknowledge(resource, 'SQS3', NO_REDRIVE);
  if (Type === 'AWS::S3::Bucket') acknowledge(resource, 'S1', NO_ACCESS_LOG);
  if (Type === 'AWS::DynamoDB::Table') acknowledge(resource, 'DDB3', NO_RECOVERY);
  if (Type !== 'AWS::IAM::Role') return;
  const statements = Properties.Policies.flatMap(({ PolicyDocument }: any) => PolicyDocument.Statement);
  for (const allowed of statements.flatMap(({ Resource }: any) => Resource)) {
    const text: unknown = allowed['Fn::Sub'] ?? allowed;
    if (typeof text === 'string' && text.includes('*')) {
      acknowledge(resource, `IAM5[Resource::${asFound(text, template, resource.stack)}]`, WILDCARD);
    }
  }
}

/** The rule's finding names what is referred to in angle brackets, by its id in the stack. */
function asFound(text: string, template: CfnInclude, stack: Stack): string {
  return text.replace(/\$\{([\w:]+)([^}]*)\}/g, (_, of: string, attribute: string) => (
    `<${of.startsWith('AWS::') ? of : stack.getLogicalId(template.getResource(of))}${attribute}>`
  ));
}

/** Says so of a queue that a campaign has of its own. */
export function explainQueue(queue: IConstruct): void {
  acknowledge(queue, 'SQS3', NO_REDRIVE);
}

function acknowledge(construct: IConstruct, rule: string, reason: string): void {
  (Validations as typeof Validations | undefined)?.of(construct).acknowledge({ id: `AwsSolutions-${rule}`, reason });
}
