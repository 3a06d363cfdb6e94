import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { composite, NaiveMatcher } from '../../test/support/naive-matcher.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { entriesFor, overlappingRules } from '../../test/support/rule-arbitraries.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import type { Entry, Rule, RuleSource } from '../model.ts';
import { compileRules } from './compile-rules.ts';
import { RuleTable } from './rule-table.ts';

/** The rules of each domain. */
type World = ReadonlyMap<string, readonly Rule[]>;

const domain = fc.constantFrom('a', 'b', 'c', 'd_a');
const world: fc.Arbitrary<World> = fc
  .array(fc.tuple(domain, fc.oneof(fc.constant<Rule[]>([]), overlappingRules)), { maxLength: 4 })
  .map((list) => new Map(list));
/** The domains of the world have new rules; the others of a layer are gone. */
const layer = fc.record({ rules: world, gone: fc.uniqueArray(domain, { maxLength: 2 }) });

function sourcesOf(rules: World): RuleSource[] {
  return Array.from(rules, ([name, descriptors]) => source(name, [...descriptors]));
}

/** Key and value joined, as a table has them. */
function joined(rules: readonly Rule[]): Rule[] {
  return rules.map((one) => ({
    ...one,
    key: composite(one),
    value: '',
    descriptors: joined(one.descriptors),
  }));
}

function countOf(rules: readonly Rule[]): number {
  return rules.reduce((sum, { descriptors }) => sum + 1 + countOf(descriptors), 0);
}

function pathsBelow(rules: readonly Rule[], path: string): string[] {
  return joined(rules)
    .sort((a, b) => (a.key < b.key ? -1 : 1))
    .flatMap(({ key, descriptors }) => [`${path}.${key}`, ...pathsBelow(descriptors, `${path}.${key}`)]);
}

const domains = ['a', 'b', 'c', 'd_a', 'none'];

/** What a table says of itself, and of the domains. */
function answers(table: RuleTable): object {
  const { domainCount, ruleCount } = table;
  return {
    ...{ domainCount, ruleCount },
    names: table.domainNames(),
    paths: Array.from(table.listedRules(), ({ path }) => path),
    rules: domains.map((name) => plain(table.rulesOf(name))),
    levels: domains.map((name) => [0, 1, 2, 3, 4].map((level) => table.hasLevel(name, level))),
    has: domains.map((name) => table.hasDomain(name)),
  };
}

/** How it is written elsewhere. */
function written(table: RuleTable): object {
  return { hash: table.contentHash, file: [...table.ruleFileLines()], rlconfig: [...table.rlconfigLines()] };
}

/** Without getters. */
function plain(rules: readonly Rule[] | undefined): Rule[] | undefined {
  return rules?.map((one) => ({ ...one, descriptors: plain(one.descriptors)! }));
}

function naiveAnswers(rules: World): object {
  const names = [...rules.keys()].sort();
  const naive = new NaiveMatcher(sourcesOf(rules));
  return {
    domainCount: rules.size,
    ruleCount: countOf([...rules.values()].flat()),
    names,
    paths: names.flatMap((name) => [name, ...pathsBelow(rules.get(name)!, name)]),
    rules: domains.map((name) => rules.get(name) && joined(rules.get(name)!)),
    levels: domains.map((name) => [0, 1, 2, 3, 4].map((level) => naive.hasLevel(name, level))),
    has: domains.map((name) => rules.has(name)),
  };
}

describe('a table of rules and of changed domains over them', () => {
  it('says what one table of all rules says', () => {
    fc.assert(
      fc.property(world, fc.array(layer, { maxLength: 4 }), (first, layers) => {
        const now = new Map(first);
        let table = RuleTable.with(undefined, { bytes: compileRules(sourcesOf(first)), domains: undefined });
        for (const { rules, gone } of layers) {
          for (const name of gone) now.delete(name);
          for (const [name, own] of rules) now.set(name, own);
          table = RuleTable.with(table, {
            bytes: compileRules(sourcesOf(rules)),
            domains: [...new Set([...gone, ...rules.keys()])],
          });
        }
        const whole = new RuleTable(compileRules(sourcesOf(now)));
        for (const either of [table, whole]) expect(answers(either)).toEqual(naiveAnswers(now));
        expect(written(table)).toEqual(written(whole));
        expect(table.layers.length).toBeLessThanOrEqual(1 + Math.min(layers.length, 4));
        const [base, ...over] = table.layers;
        const again = over.reduce<RuleTable>(
          (before, one) => RuleTable.with(before, one),
          RuleTable.with(undefined, base),
        );
        expect(written(again)).toEqual(written(whole));
        expect(again.layers).toEqual(table.layers);
      }),
      { numRuns: caseCount(50) },
    );
  });

  it('forgets layers of which each domain has changed since', () => {
    const one = (name: string) => ({
      bytes: compileRules([source(name, [rule({ key: 'k', rateLimit: limit() })])]),
      domains: [name],
    });
    const base = { bytes: compileRules([]), domains: undefined };
    const both = { bytes: compileRules([source('a', []), source('b', [])]), domains: ['a', 'b'] };
    const layersAfter = (...layers: { bytes: ArrayBuffer; domains: string[] }[]) =>
      layers.reduce((before, next) => RuleTable.with(before, next), RuleTable.with(undefined, base)).layers;
    const [a, otherA, b] = [one('a'), one('a'), one('b')];
    expect(layersAfter(both, a, otherA)).toEqual([base, both, otherA]);
    expect(layersAfter(both, a, b)).toEqual([base, a, b]);
  });

  it('has to begin with all domains', () => {
    const part = { bytes: compileRules([]), domains: ['d'] };
    expect(() => RuleTable.with(undefined, part)).toThrow('rules of some domains have no others to go over');
  });
});

describe('RuleTable.walk', () => {
  it('steps from rule to rule as the naive matcher does', () => {
    const rulesAndEntries = overlappingRules.chain((rules) =>
      fc.tuple(fc.constant(rules), fc.array(entriesFor(rules), { minLength: 5, maxLength: 10 })),
    );
    fc.assert(
      fc.property(rulesAndEntries, ([rules, requests]) => {
        const sources = [source('d', rules)];
        const table = new RuleTable(compileRules(sources));
        const naive = new NaiveMatcher(sources);
        expect(table.walk('e')).toBeUndefined();
        for (const entries of requests) {
          expect(stepsOf(table, entries)).toEqual(naive.walked('d', entries));
          expect(childrenOf(table, entries)).toEqual(naiveChildren(rules, entries));
        }
      }),
      { numRuns: caseCount(50) },
    );
  });

  function stepsOf(table: RuleTable, entries: readonly Entry[]): object[] {
    const walk = table.walk('d')!;
    const steps: object[] = [];
    let { start: place } = walk;
    for (const { key, value } of entries) {
      const step = walk.step(place, key, value);
      if (step === undefined) break;
      const { how, composite: text, shares, rule: found } = step;
      steps.push({ how, composite: text, shares, limits: found?.limits });
      place = step.place;
    }
    return steps;
  }

  /** The composites of the rules that are called exactly `key_value`, one below the other. */
  function childrenOf(table: RuleTable, entries: readonly Entry[]): string[] {
    const walk = table.walk('d')!;
    const found: string[] = [];
    let { start: place } = walk;
    for (const entry of entries) {
      const step = walk.child(place, composite(entry));
      if (step === undefined) break;
      expect(step.how).toBe('exact');
      found.push(step.composite);
      place = step.place;
    }
    return found;
  }

  function naiveChildren(rules: readonly Rule[], entries: readonly Entry[]): string[] {
    const [entry, ...rest] = entries;
    const found = entry && rules.find((one) => composite(one) === composite(entry));
    return found === undefined ? [] : [composite(found), ...naiveChildren(found.descriptors, rest)];
  }
});
