import { readFileSync } from 'node:fs';
import { join } from 'node:path';

type Members = Record<string, unknown>;

/** A parameter of the template, with what CloudFormation lets it be. */
export interface Parameter {
  readonly Type: string;
  readonly Default: string | number;
  readonly AllowedValues?: (string | number)[];
  readonly AllowedPattern?: string;
  readonly ConstraintDescription?: string;
  readonly MinValue?: number;
  readonly MaxValue?: number;
  readonly MaxLength?: number;
  readonly NoEcho?: boolean;
}

/** A resource of the template. */
export interface Resource {
  readonly Type: string;
  readonly Condition?: string;
  readonly Properties: Record<string, any>;
}

interface Template {
  readonly Description: string;
  readonly Parameters: Record<string, Parameter>;
  readonly Conditions: Members;
  readonly Resources: Record<string, Resource>;
  readonly Outputs: Record<string, { Condition?: string; Value: unknown }>;
}

/** infra/sam/template.yaml; the build writes it as JSON beside this file. */
export const TEMPLATE: Template = JSON.parse(readFileSync(join(__dirname, 'template.json'), 'utf8'));

/**
 * The template with its parameters given: no condition is left, and nothing that a condition leaves out. So a stack for
 * mail names no type that only text messages need and not every region knows, and a diff shows no choices.
 */
export class GivenTemplate {
  /** @param values of the parameters, the pseudo parameters that are known, and resources that others stand for. */
  constructor(private readonly values: Members) {}

  /** What a stack of it would have. */
  evaluated(): Pick<Template, 'Resources' | 'Outputs'> {
    return { Resources: this.there(TEMPLATE.Resources), Outputs: this.there(TEMPLATE.Outputs) };
  }

  private there<T extends { Condition?: string }>(all: Record<string, T>): Record<string, T> {
    const found = Object.entries(all)
      .filter(([, { Condition }]) => Condition === undefined || this.condition(Condition))
      .map(([id, { Condition, ...rest }]) => [id, this.evaluate(rest)]);
    return Object.fromEntries(found);
  }

  private condition(name: string): boolean {
    return this.evaluate(TEMPLATE.Conditions[name]) as boolean;
  }

  private evaluate(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((item) => this.evaluate(item)).filter((item) => item !== undefined);
    if (typeof value !== 'object' || value === null) return value;
    const [[name, argument] = [], ...others] = Object.entries(value);
    if (others.length === 0 && name !== undefined) {
      const read = this.intrinsic(name, argument);
      if (read !== undefined) return read.value;
    }
    const members = Object.entries(value).map(([member, item]) => [member, this.evaluate(item)]);
    return Object.fromEntries(members.filter(([, item]) => item !== undefined));
  }

  /** What an intrinsic function gives; nothing for one that CloudFormation has to evaluate. */
  private intrinsic(name: string, argument: any): { value: unknown } | undefined {
    const read: any = name === 'Ref' || name === 'Condition' ? argument : this.evaluate(argument);
    switch (name) {
      case 'Ref':
        return argument === 'AWS::NoValue' || argument in this.values ? { value: this.values[argument] } : undefined;
      case 'Condition':
        return { value: this.condition(argument) };
      case 'Fn::If':
        return { value: this.evaluate(this.condition(argument[0]) ? argument[1] : argument[2]) };
      case 'Fn::Equals':
        return { value: String(read[0]) === String(read[1]) };
      case 'Fn::Not':
        return { value: !read[0] };
      case 'Fn::And':
        return { value: read.every(Boolean) };
      case 'Fn::Join':
        return read[1].every((item: unknown) => typeof item === 'string') ? { value: read[1].join(read[0]) } : undefined;
      case 'Fn::Split':
        return Array.isArray(read[1]) ? { value: read[1] } : undefined;
      case 'Fn::Sub':
        return { value: this.substituted(argument) };
      default:
        return undefined;
    }
  }

  private substituted(argument: string | [string, Members]): unknown {
    const [text, own] = Array.isArray(argument) ? argument : [argument, {}];
    const given = { ...this.values, ...(this.evaluate(own) as Members) };
    const known = ([, value]: [string, unknown]) => typeof value === 'string' || typeof value === 'number';
    const texts = Object.fromEntries(Object.entries(given).filter(known));
    const put = text.replace(/\$\{([^}]+)\}/g, (found, name: string) => String(texts[name] ?? found));
    const left = Object.entries(given).filter(([name]) => put.includes(`\${${name}}`));
    if (left.length > 0) return { 'Fn::Sub': [put, Object.fromEntries(left)] };
    return put.includes('${') ? { 'Fn::Sub': put } : put;
  }
}
