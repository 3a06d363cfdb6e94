import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { yamlText } from '../../cli/shared/yaml-text.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { anyRules, entriesFor, overlappingRules } from '../../test/support/rule-arbitraries.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import type { JsonObject, Rule } from '../model.ts';
import { explainDescriptor } from '../review/explain-descriptor.ts';
import type { LocatedSource } from '../review/review-sources.ts';
import { placedRules } from '../review/rule-level.ts';
import { readEnvoyConfiguration } from './envoy-configuration.ts';
import { type EnvoyFinding, reviewEnvoy } from './envoy-review.ts';
import { type KeySource, neededRateLimits } from './needed-rate-limits.ts';

function loadedAs(rules: Rule[]): LocatedSource {
  return { file: 'r.yaml', source: source('d', rules), placeOf: () => undefined };
}

function findingsOf(rate_limits: JsonObject[], rules: Rule[]): EnvoyFinding[] {
  const configuration = readEnvoyConfiguration([{ path: 'e.yaml', text: yamlText({ rate_limits }) }]);
  const review = reviewEnvoy(configuration, [loadedAs(rules)]);
  expect(review.isOpen).toBe(false);
  return review.findings;
}

const keySource = fc.constantFrom<KeySource>(
  { type: 'header', name: 'x-any' },
  { type: 'query', name: 'any' },
  { type: 'generic' },
  { type: 'header_match', name: 'x-any' },
);

describe('rules and the Envoy that is written for them', () => {
  it.each([
    ['rules that meet', overlappingRules],
    ['rules with any text', anyRules],
  ])('fit together: %s', (_, arbitrary) => {
    fc.assert(
      fc.property(arbitrary, fc.array(keySource, { minLength: 1, maxLength: 4 }), (rules, kinds) => {
        const keys = new Map<string, KeySource>();
        const visit = (level: readonly Rule[]): void => {
          for (const { key, descriptors } of level) {
            keys.set(key, kinds[keys.size % kinds.length]!);
            visit(descriptors);
          }
        };
        visit(rules);
        const needed = neededRateLimits(rules, keys);
        fc.pre(needed.length > 0);
        expect(
          findingsOf(
            needed.map(({ value }) => value),
            rules,
          ),
        ).toEqual([]);
      }),
      { numRuns: caseCount(150) },
    );
  });

  it('do not if a descriptor is left out', () => {
    const keys = fc.uniqueArray(fc.stringMatching(/^[a-z]{1,3}$/), { minLength: 2, maxLength: 5 });
    fc.assert(
      fc.property(keys, fc.nat(), (names, pick) => {
        const rules = names.map((key) => rule({ key, rateLimit: limit() }));
        const items = neededRateLimits(rules, new Map()).map(({ value }) => value);
        const codes = findingsOf(items.toSpliced(pick % items.length, 1), rules).map(({ code }) => code);
        expect(codes).toEqual(['unreached-rule']);
      }),
    );
  });

  it('reports a descriptor that limits nothing exactly if the matcher finds no limit for it', () => {
    const asked = overlappingRules.chain((rules) => fc.tuple(fc.constant(rules), entriesFor(rules)));
    fc.assert(
      fc.property(asked, ([rules, entries]) => {
        fc.pre(entries.every(({ value }) => value !== ''));
        const actions = entries.map(({ key, value }) => ({
          generic_key: { descriptor_key: key, descriptor_value: value },
        }));
        const { outcome } = explainDescriptor(placedRules(rules, 0, []), entries);
        const codes = findingsOf([{ actions }], rules).map(({ code }) => code);
        expect(codes.includes('unmatched-descriptor')).toBe(outcome.kind !== 'found');
      }),
      { numRuns: caseCount(250) },
    );
  });
});
