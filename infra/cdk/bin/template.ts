import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parse } from 'yaml';
import type { CollectionTag, ScalarTag } from 'yaml';

// Writes the SAM template as JSON to where the construct reads it, or to the file that is named: the package needs no
// reader of YAML.

/** CloudFormation's short forms: `!Ref x` is { Ref: x }, `!Sub x` is { Fn::Sub: x }. */
const NAMES = ['Ref', 'Condition', 'And', 'Equals', 'GetAtt', 'If', 'Join', 'Not', 'Split', 'Sub'];

function long(name: string, value: unknown): object {
  if (name === 'Ref' || name === 'Condition') return { [name]: value };
  return { [`Fn::${name}`]: name === 'GetAtt' ? String(value).split(/\.(.*)/, 2) : value };
}

const scalars: ScalarTag[] = NAMES.map((name) => ({ tag: `!${name}`, resolve: (text: string) => long(name, text) }));
const lists: CollectionTag[] = NAMES.map((name) => ({
  tag: `!${name}`, collection: 'seq', resolve: (items) => long(name, items.toJSON()) as never,
}));
const source = resolve(__dirname, '../../../sam/template.yaml');
const template: unknown = parse(readFileSync(source, 'utf8'), { customTags: [...scalars, ...lists], version: '1.1' });
const written = process.argv[2] ?? resolve(__dirname, '../lib/template.json');
writeFileSync(written, JSON.stringify(template));
