import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { App, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { Code } from 'aws-cdk-lib/aws-lambda';
import { Tidegate } from '../lib/index.js';
import type { TidegateProps } from '../lib/index.js';

// CDK's own validation takes five seconds to start; test/app.test.ts runs with it.
process.env.CDK_VALIDATION = 'false';

/** A directory with two packages, which are no binaries: nothing here runs them. */
export const prebuilt = mkdtempSync(join(tmpdir(), 'tidegate-cdk-'));
for (const name of ['scheduler', 'poller']) {
  mkdirSync(join(prebuilt, name));
  writeFileSync(join(prebuilt, name, 'bootstrap'), name);
}

/** The two packages, as a prop. */
export const code = () => ({
  scheduler: Code.fromAsset(join(prebuilt, 'scheduler')),
  poller: Code.fromAsset(join(prebuilt, 'poller')),
});

const CAMPAIGNS = [{ name: 'big', weight: 90 }, { name: 'small', weight: 10 }];

/** A Tidegate named `mail` in a stack of its own. */
export function made(props: Partial<TidegateProps> = {}): { stack: Stack; mail: Tidegate } {
  const stack = new Stack(new App(), 'mail');
  return { stack, mail: new Tidegate(stack, 'Mail', { campaigns: CAMPAIGNS, code: code(), ...props }) };
}

const cache = new Map<string, Rendered>();

/** The same, as CloudFormation gets it; equal props are rendered once. */
export function rendered(props: Partial<TidegateProps> = {}): Rendered {
  const key = JSON.stringify(props);
  const known = cache.get(key) ?? new Rendered(Template.fromStack(made(props).stack).toJSON());
  cache.set(key, known);
  return known;
}

type Resource = { Type: string; Properties: any; DeletionPolicy?: string; UpdateReplacePolicy?: string };

/** A template, with its resources by their physical names. */
export class Rendered {
  readonly resources: Record<string, Resource>;

  constructor(readonly template: any) {
    this.resources = template.Resources;
  }

  all(type: string): Resource[] {
    return Object.values(this.resources).filter((resource) => resource.Type === type);
  }

  /** The one resource of a type with such a property. */
  one(type: string, property: string, value: string): Resource {
    const found = this.all(type).filter(({ Properties }) => Properties[property] === value);
    if (found.length !== 1) throw new Error(`${found.length} of ${type} with ${property} ${value}`);
    return found[0]!;
  }

  queue(name: string): Resource {
    return this.one('AWS::SQS::Queue', 'QueueName', name);
  }

  alarm(name: string): any {
    return this.one('AWS::CloudWatch::Alarm', 'AlarmName', `mail-${name}`).Properties;
  }

  function(of: 'scheduler' | 'poller'): any {
    return this.one('AWS::Lambda::Function', 'FunctionName', `mail-${of}`).Properties;
  }

  environment(of: 'scheduler' | 'poller'): Record<string, any> {
    return this.function(of).Environment.Variables;
  }

  /** The statements of a function's role, by Sid. */
  statements(of: 'scheduler' | 'poller'): Record<string, any> {
    const policies = this.all('AWS::IAM::Role').flatMap(({ Properties }) => Properties.Policies ?? [])
      .filter(({ PolicyName }) => PolicyName === of);
    return Object.fromEntries(policies.flatMap(({ PolicyDocument }) => PolicyDocument.Statement)
      .map((statement: any) => [statement.Sid, statement]));
  }

  /** A value as it reads, with the physical or logical names of what it refers to. */
  text(value: any): string {
    if (Array.isArray(value)) return value.map((item) => this.text(item)).join(', ');
    if (value === null || typeof value !== 'object') return String(value);
    if (value.Ref) return this.nameOf(value.Ref);
    if (value['Fn::Select']?.[1]['Fn::Split']) {
      const [index, split] = value['Fn::Select'];
      return this.text(split['Fn::Split'][1]).replace(/^Arn of /, '').split(split['Fn::Split'][0])[index] ?? this.text(split['Fn::Split'][1]).replace(/^Arn of /, '');
    }
    if (value['Fn::Sub']) return value['Fn::Sub'].replace(/\$\{([^}]+)\}/g, (_: string, name: string) => this.text(name.includes('.') ? { 'Fn::GetAtt': name.split('.') } : { Ref: name }));
    if (value['Fn::GetAtt']) return `${value['Fn::GetAtt'][1]} of ${this.nameOf(value['Fn::GetAtt'][0])}`;
    if (value['Fn::Join']) return value['Fn::Join'][1].map((part: any) => this.text(part)).join(value['Fn::Join'][0]);
    throw new Error(`cannot read ${JSON.stringify(value)}`);
  }

  private nameOf(logicalId: string): string {
    const properties = this.resources[logicalId]?.Properties ?? {};
    return properties.QueueName ?? properties.FunctionName ?? properties.LogGroupName
      ?? properties.TopicName ?? properties.Name ?? logicalId.replace(/[0-9A-F]{8}$/, '');
  }
}
