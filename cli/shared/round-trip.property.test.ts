import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { descriptorLevels, domainFields, limitFields, ruleFields } from '../../rules/language/fields.ts';
import type { Rule, RuleSource } from '../../rules/model.ts';
import type { textKind } from '../../rules/reader/read-manifests.ts';
import { manifestValue, ruleFileValue } from '../../rules/write-rules.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { anyRules } from '../../test/support/rule-arbitraries.ts';
import { rule } from '../../test/support/rule-builder.ts';
import { resourcesToJson } from './json-resources.ts';
import { readRuleTexts } from './read-rule-texts.ts';
import { yamlText } from './yaml-text.ts';

const source = fc.record({
  domain: fc.constantFrom('shop', 'y', '010', 'a b', 'é', 'd'.repeat(domainFields.domain.max)),
  descriptors: fc.tuple(anyRules, fc.nat(descriptorLevels - 3), fc.boolean()).map(stretched),
});

/** Below so many more levels, and with texts and lists as long as manifests take them. */
function stretched([rules, levels, isLong]: [readonly Rule[], number, boolean]): readonly Rule[] {
  if (levels > 0) return [rule({ key: 'k', descriptors: stretched([rules, levels - 1, isLong]) })];
  const [first, ...others] = rules;
  if (!isLong || first === undefined) return rules;
  const { key, value, limits } = first;
  const longLimits = limits.map((limit, index) => ({
    ...limit,
    name: `${index}${'é'.repeat(limitFields.name.max - 1)}`,
    replaces: Array.from({ length: limitFields.replaces.max }, (_, n) => `${n}`),
  }));
  const long = {
    key: key.padEnd(ruleFields.key.max, 'é'),
    value: value.padEnd(ruleFields.value.max, 'v'),
  };
  return [{ ...first, ...long, limits: longLimits }, ...others];
}

function readBack(text: string, kind: ReturnType<typeof textKind>): RuleSource {
  const { sources, errors, skipped } = readRuleTexts([{ path: 'f', text }], { mergeDomains: false });
  expect(errors).toEqual([]);
  expect(skipped).toEqual([]);
  expect(sources).toHaveLength(1);
  expect(sources[0]!.kind).toBe(kind);
  return sources[0]!.source;
}

function expectSame(read: RuleSource, one: Pick<RuleSource, 'domain' | 'descriptors'>): void {
  expect(read.domain).toBe(one.domain);
  expect(read.descriptors).toEqual(one.descriptors);
}

describe('rules that are written', () => {
  it('are read back as they were from a rule file', () => {
    fc.assert(
      fc.property(source, (one) => {
        expectSame(readBack(yamlText(ruleFileValue(one)), 'rule-file'), one);
      }),
      { numRuns: caseCount(100) },
    );
  });

  it('are read back as they were from a manifest, YAML or JSON', () => {
    const identity = { name: 'n', namespace: undefined, labels: {}, fleet: 'edge' };
    fc.assert(
      fc.property(source, fc.boolean(), (one, isJson) => {
        const manifest = manifestValue(one, identity);
        expectSame(
          readBack(isJson ? JSON.stringify(manifest, undefined, 1) : yamlText(manifest), 'manifests'),
          one,
        );
      }),
      { numRuns: caseCount(100) },
    );
  });

  it('are read back as they were from JSON of xDS', () => {
    fc.assert(
      fc.property(source, (one) => {
        const text = JSON.stringify(resourcesToJson([{ name: 'n', ...one }]));
        expectSame(readBack(text, 'resources'), one);
      }),
      { numRuns: caseCount(100) },
    );
  });

  it('keep keys that are longer than YAML looks ahead', () => {
    const metadata = { ['k'.repeat(3000)]: { 'a b': [1, [], {}, [[null]], { x: [] }] } };
    const descriptors = [rule({ key: 'k', metadata })];
    expectSame(readBack(yamlText(ruleFileValue({ domain: 'd', descriptors })), 'rule-file'), {
      domain: 'd',
      descriptors,
    });
  });
});
