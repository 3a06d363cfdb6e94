import fc from 'fast-check';
import { dump } from 'js-yaml';
import { describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { caseCount } from '../../test/support/property-cases.ts';
import { limit, rule } from '../../test/support/rule-builder.ts';
import type { JsonObject, JsonValue, Limit, Rule } from '../model.ts';
import { decodeRuleFile } from './read-rule-files.ts';

/** Texts that YAML may take for something else, and a few that it may not. */
const text = fc.oneof(
  fc.constantFrom(
    'k',
    'user_id',
    '/a/*',
    'a b',
    'é',
    '😀',
    '',
    ' ',
    ' x',
    'x ',
    '~',
    'null',
    'y',
    'No',
    'true',
    '010',
    '5',
  ),
  fc.constantFrom(
    '1.5',
    '1e3',
    '0x1',
    '<<',
    '-',
    '- a',
    '?',
    ':',
    'a: b',
    'a:',
    '#',
    'a #b',
    'a#b',
    '*a',
    '&a',
    '!a',
    '@',
  ),
  fc.constantFrom(
    '%',
    '`',
    '|',
    '>',
    '[',
    ']',
    '{a',
    ',',
    "'",
    '"',
    "it's",
    '\\',
    '\\n',
    'a\nb',
    '\n',
    '\t',
    'a\tb',
    '---',
  ),
  fc.constantFrom('__proto__', 'constructor', 'a\r\nb', '\u2028', '\u0085', '\ufeff', '.', '...', '=', '0o7'),
  fc.string({ maxLength: 6 }),
);

const leaf = fc.oneof(fc.constantFrom<JsonValue>(null, true, false, 0, -1, 2.5, 1e21, 4294967296), text);

function json(depth: number): fc.Arbitrary<JsonValue> {
  if (depth === 0) return leaf;
  const inner = json(depth - 1);
  return fc.oneof(leaf, fc.array(inner, { maxLength: 3 }), fc.dictionary(text, inner, { maxKeys: 3 }));
}

const metadata: fc.Arbitrary<JsonObject> = fc.dictionary(text, json(2), { minKeys: 1, maxKeys: 3 });

const rateLimit: fc.Arbitrary<Limit> = fc
  .record({
    unit: text,
    requestsPerUnit: fc.constantFrom(0, 1, 999_999_999, 1_000_000_000, 4_294_967_295),
    unlimited: fc.boolean(),
    name: text,
    replaces: fc.array(text, { maxLength: 2 }),
  })
  .map(limit);

function rules(depth: number): fc.Arbitrary<Rule[]> {
  const one = fc.record({
    key: text,
    value: text,
    rateLimit: fc.option(rateLimit, { nil: undefined }),
    shadowMode: fc.boolean(),
    quotaMode: fc.boolean(),
    detailedMetric: fc.boolean(),
    valueToMetric: fc.boolean(),
    shareThreshold: fc.boolean(),
    metadata: fc.option(metadata, { nil: undefined }),
    descriptors: depth === 0 ? fc.constant<Rule[]>([]) : rules(depth - 1),
  });
  return fc.array(one.map(rule), { maxLength: 3 });
}

/** A rule as a file spells it, without what is at its default. */
function written(given: Rule): object {
  const [limits] = given.limits;
  return {
    key: given.key,
    ...(given.value === '' ? {} : { value: given.value }),
    ...(limits === undefined ? {} : { rate_limit: writtenLimit(limits) }),
    ...(given.shadowMode ? { shadow_mode: true } : {}),
    ...(given.quotaMode ? { quota_mode: true } : {}),
    ...(given.detailedMetric ? { detailed_metric: true } : {}),
    ...(given.valueToMetric ? { value_to_metric: true } : {}),
    ...(given.shareThreshold ? { share_threshold: true } : {}),
    ...(given.metadata === undefined ? {} : { metadata: given.metadata }),
    ...(given.descriptors.length === 0 ? {} : { descriptors: given.descriptors.map(written) }),
  };
}

function writtenLimit({ unit, requestsPerUnit, unlimited, name, replaces }: Limit): object {
  return {
    unit,
    requests_per_unit: requestsPerUnit,
    unlimited,
    name,
    replaces: replaces.map((replaced) => ({ name: replaced })),
  };
}

/** Block style with every text in JSON's quotes, comments and empty lines: what careful people write. */
function block(value: unknown, indent = ''): string {
  if (typeof value !== 'object' || value === null) return ` ${JSON.stringify(value)} # a comment\n`;
  const entries = Object.entries(value);
  if (entries.length === 0) return Array.isArray(value) ? ' []\n' : ' {}\n';
  const lines = entries.map(([key, member]) => {
    const deeper = `${indent}  `;
    return `${indent}${Array.isArray(value) ? '-' : `${JSON.stringify(key)}:`}${block(member, deeper)}`;
  });
  return `\n${lines.join('\n')}`;
}

const styles: Record<string, (document: object) => string> = {
  'as JSON': (document) => JSON.stringify(document),
  'as JSON on many lines': (document) => JSON.stringify(document, null, 2),
  'in blocks with quotes and comments': (document) => block(document),
  'with Windows line breaks': (document) => block(document).replaceAll('\n', '\r\n'),
  'by js-yaml': (document) => dump(document, { noRefs: true }),
  'by js-yaml with shared parts as aliases': (document) => dump(document),
  'by js-yaml with flat lists': (document) => dump(document, { seqNoIndent: true, indent: 4, lineWidth: -1 }),
  'by js-yaml with inner brackets': (document) => dump(document, { flowLevel: 3, noRefs: true }),
  'by js-yaml with double quotes': (document) => dump(document, { quoteStyle: 'double', forceQuotes: true }),
  'by yaml': (document) => stringify(document, { version: '1.1' }),
  'by yaml with quotes': (document) =>
    stringify(document, { version: '1.1', defaultStringType: 'QUOTE_DOUBLE' }),
};

describe('decodeRuleFile', () => {
  it.each(Object.entries(styles))('reads back what is written %s', (style, print) => {
    fc.assert(
      fc.property(text, rules(2), (domain, descriptors) => {
        const model = { domain, descriptors: descriptors.map(written) };
        // The packages write these without quotes, which YAML 1.1 as Go reads it would need: numbers with `_` in them.
        fc.pre(!style.startsWith('by ') || !/"(?:<<|0o7|[-+.]*\d[^"]*_[^"]*)"/.test(JSON.stringify(model)));
        const document = print(model);
        const { source, errors } = decodeRuleFile({ name: 'f', text: document });
        expect(errors).toEqual([]);
        expect(source).toEqual({ name: 'f', domain, descriptors });
      }),
      { numRuns: caseCount(100) },
    );
  });

  it('never throws, whatever the text', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.string({ unit: 'binary', maxLength: 40 }), fc.uint8Array({ maxLength: 40 })),
        (content) => {
          const { source, errors } = decodeRuleFile({ name: 'f', text: content });
          expect(source !== undefined || errors.length > 0).toBe(true);
        },
      ),
      { numRuns: caseCount(1500) },
    );
  });
});
