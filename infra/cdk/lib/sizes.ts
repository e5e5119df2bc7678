import { Token } from 'aws-cdk-lib';
import type { TidegateProps } from './props.js';
import type { Resource } from './template.js';
import { InvalidProp } from './validate.js';

/** Bytes that Lambda allows of an environment, measured as JSON; and IAM of a role's inline policies. */
const LARGEST_ENVIRONMENT = 4096;
const LARGEST_POLICY = 10_240;
/** As long as the URL of a shared bucket may be that a secret holds. */
const SECRET = 256;

/**
 * Refuses lists that Lambda or IAM would refuse in the middle of a deployment. What only AWS can tell is taken at the length
 * that it has in a region with a long name.
 * @throws InvalidProp that names the way out.
 */
export function checkSizes(resources: Record<string, Resource>, props: TidegateProps, name: string): void {
  const full = new InFull(resources, props, name);
  for (const of of ['poller', 'scheduler'] as const) {
    const id = of === 'poller' ? 'Poller' : 'Scheduler';
    const environment = resources[`${id}Function`]!.Properties.Environment.Variables;
    const what = `the ${of}'s environment of ${LARGEST_ENVIRONMENT} bytes`;
    check(what, full.of(environment), LARGEST_ENVIRONMENT, props, IN_ENVIRONMENTS);
    const policy = resources[`${id}Role`]!.Properties.Policies[0].PolicyDocument;
    const inPolicy = `the policy of the ${of}'s role of ${LARGEST_POLICY} characters`;
    check(inPolicy, full.of(policy), LARGEST_POLICY, props, ['allowedSenders', 'senderIdentityArns']);
  }
}

/** Lists that environments and policies grow with. */
type List = 'campaigns' | 'allowedSenders' | 'senderIdentityArns' | 'origins' | 'allowedCountries';

const IN_ENVIRONMENTS: List[] = ['campaigns', 'allowedSenders', 'origins', 'allowedCountries'];

function check(what: string, value: unknown, most: number, props: TidegateProps, lists: List[]): void {
  const bytes = Buffer.byteLength(JSON.stringify(value));
  if (bytes <= most) return;
  const elsewhere = (list: List) => list === 'campaigns' && (props.campaignList ?? 'environment') !== 'environment';
  const length = (list: List) => (elsewhere(list) ? 0 : JSON.stringify(props[list] ?? []).length);
  const longest = lists.reduce((one, other) => (length(one) >= length(other) ? one : other));
  throw new InvalidProp(longest, `${props[longest]?.length} ${longest}`, `what fits into ${what}, and this is about ${bytes}; `
    + 'use campaignList: \'tags\' for more campaigns, *@domain for the senders of a domain, and identity/*.domain for the '
    + 'identities below it');
}

/** Texts, about as long as AWS's, for what only AWS can tell. */
class InFull {
  constructor(
    private readonly resources: Record<string, Resource>, private readonly props: TidegateProps, private readonly name: string,
  ) {}

  of(value: any): any {
    if (typeof value === 'string') return this.text(value);
    if (Array.isArray(value)) return value.map((item) => this.of(item));
    if (value === null || typeof value !== 'object') return value;
    if ('Ref' in value) {
      const queue = this.resources[value.Ref]?.Properties.QueueName;
      return queue === undefined ? this.arn() : url(queue);
    }
    if ('Fn::GetAtt' in value) return this.arn();
    if ('Fn::Join' in value) return this.of(value['Fn::Join'][1]).join(',');
    if ('Fn::Sub' in value) return value['Fn::Sub'].replace(/\$\{([^}]+)\}/g, (_: string, of: string) => this.named(of));
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, this.of(item)]));
  }

  private text(text: string): string {
    if (!Token.isUnresolved(text)) return text;
    // The list of campaigns has the URLs of their queues; elsewhere a text of the user's, such as a secret, is not known.
    if (!text.startsWith('[')) return 's'.repeat(SECRET);
    let place = 0;
    return text.replace(/\$\{Token\[[^\]]*\]\}/g, () => {
      place += 1;
      return url(`${this.name}-campaign-${this.props.campaigns[place - 1]!.name}`);
    });
  }

  private named(of: string): string {
    const lengths: Record<string, string> = {
      'AWS::Partition': 'aws',
      'AWS::Region': 'ap-southeast-1',
      'AWS::AccountId': '123456789012',
      LedgerTable: `${this.name}-MailLedger12345678-ABCDEFGHIJKLM`,
    };
    return lengths[of] ?? 'b'.repeat(63);
  }

  private arn(): string {
    return `arn:aws:service:ap-southeast-1:123456789012:${this.name}-and-as-much-again`;
  }
}

function url(queue: string): string {
  return `https://sqs.ap-southeast-1.amazonaws.com/123456789012/${queue}`;
}
