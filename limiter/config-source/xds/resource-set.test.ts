import { create } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DeltaDiscoveryResponseSchema } from '../../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import type { Entry, RuleSource } from '../../../rules/model.ts';
import { encodeResource, rateLimitConfigTypeUrl } from '../../../rules/reader/resource.ts';
import { RuleTable } from '../../../rules/table/rule-table.ts';
import { caseCount } from '../../../test/support/property-cases.ts';
import { overlappingRules, shortKey } from '../../../test/support/rule-arbitraries.ts';
import { limit, rule, source } from '../../../test/support/rule-builder.ts';
import { type RulesReview, reviewLoad } from '../load-review.ts';
import { loadResources } from './load-resources.ts';
import {
  claimableResources,
  noResources,
  type PartsToLoad,
  partsToLoad,
  partsToReview,
  type ResourceSet,
  type ReviewedResources,
  resourcesInForce,
  shareToChange,
  withChanges,
} from './resource-set.ts';

type Reported = Record<string, RuleSource>;

function withoutOverrides(domain: string, requestsPerUnit: number, key = 'k'): RuleSource {
  return source(domain, [rule({ key, rateLimit: limit({ requestsPerUnit }) })], '');
}

/** A limit without a unit. */
const bad = (domain: string): RuleSource =>
  source(domain, [rule({ key: 'k', rateLimit: limit({ unit: 'eon' }) })], '');

function response(reported: Reported, removed: readonly string[] = []) {
  const resources = Object.entries(reported).map(([name, one]) => ({
    name,
    version: Buffer.from(encodeResource(one)).toString('hex'),
    resource: { typeUrl: rateLimitConfigTypeUrl, value: encodeResource(one) },
  }));
  return create(DeltaDiscoveryResponseSchema, { resources, removedResources: [...removed] });
}

const review = { counterKeys: 'compatible', sanitizeDescriptorMetricDots: false } as const;

/** A limiter's two sets of resources, its rules, and the result of their review. */
class Limiter {
  reported: ResourceSet = noResources;
  inForce: ResourceSet | undefined;
  table: RuleTable | undefined;
  reviewed: ReviewedResources | undefined;
  /** Names, with the words of the last load. */
  refused: Record<string, string> = {};
  /** Domains that the last load compiled; undefined: all of them. */
  compiled: readonly string[] | undefined = [];
  #hash: string | undefined;
  readonly #mergeDomains: boolean;

  constructor({ mergeDomains = false } = {}) {
    this.#mergeDomains = mergeDomains;
  }

  get rules(): string[] {
    const lines = [...(this.table?.rlconfigLines() ?? [])];
    return lines.map((line) => line.replace(/: .*requests_per_unit=(\d+),.*/, ' $1'));
  }

  /** False when it is rejected as a whole. */
  take(reported: Reported, removed: readonly string[] = [], share = 1): boolean {
    this.reported = withChanges(this.reported, response(reported, removed));
    const typeUrl = rateLimitConfigTypeUrl;
    const { bytes, ...parts } = partsToLoad(this.reported, this.inForce, { typeUrl, share });
    const { outcome } = this.#load(bytes, parts, this.#hash);
    this.compiled = [];
    if (!outcome.ok) return false;
    const { rules, hash, rejected: refused } = outcome;
    this.#hash = hash;
    this.inForce = resourcesInForce(this.reported, this.inForce, refused?.resources ?? []);
    this.refused = Object.fromEntries((refused?.resources ?? []).map(({ name, message }) => [name, message]));
    if (rules === undefined) return true;
    this.table = RuleTable.with(this.table, rules);
    this.compiled = rules.domains;
    expect(rules.sources).toBe(this.inForce.size);
    return true;
  }

  review(): RulesReview {
    const resources = this.inForce!;
    const { bytes, parts, join } = partsToReview(resources, this.reviewed, review.counterKeys);
    const found = reviewLoad(this.#load(bytes, parts, undefined).reviewed!(), review);
    this.reviewed = { resources, review: join(found) };
    return this.reviewed.review;
  }

  reconnect(): void {
    this.reported = claimableResources(this.inForce);
  }

  #load(bytes: Uint8Array, parts: Omit<PartsToLoad, 'bytes'>, hashInForce: string | undefined) {
    return loadResources({ bytes, parts, mergeDomains: this.#mergeDomains, hashInForce });
  }
}

describe('a limiter with incremental xDS', () => {
  it('has what the responses add up to', () => {
    const limiter = new Limiter();
    expect(limiter.take({ b: withoutOverrides('db', 1), a: withoutOverrides('da', 1) })).toBe(true);
    expect(limiter.rules).toEqual(['da.k 1', 'db.k 1']);
    expect(limiter.take({ b: withoutOverrides('db', 2), c: withoutOverrides('dc', 1) }, ['a'])).toBe(true);
    expect(limiter.rules).toEqual(['db.k 2', 'dc.k 1']);
  });

  it('keeps the former rules of what it rejects, and says why; the rest is in force in one step', () => {
    const limiter = new Limiter();
    limiter.take({ a: withoutOverrides('da', 1), b: withoutOverrides('db', 1) });
    expect(limiter.take({ a: bad('da'), b: withoutOverrides('db', 2), c: bad('dc') })).toBe(true);
    expect(limiter.rules).toEqual(['da.k 1', 'db.k 2']);
    expect(limiter.refused).toEqual({
      a: "invalid rate limit unit 'UNKNOWN'",
      c: "invalid rate limit unit 'UNKNOWN'",
    });
    // For as long as it is so.
    limiter.take({ b: withoutOverrides('db', 3) });
    expect(Object.keys(limiter.refused)).toEqual(['a', 'c']);
    limiter.take({ a: withoutOverrides('da', 9) }, ['c']);
    expect(limiter.refused).toEqual({});
    expect(limiter.rules).toEqual(['da.k 9', 'db.k 3']);
  });

  it('rejects what takes a domain from what is in force, also by an earlier name, until the domain is free', () => {
    const limiter = new Limiter();
    limiter.take({ b: withoutOverrides('d', 1) });
    limiter.take({ a: withoutOverrides('d', 2), c: withoutOverrides('d', 3) });
    expect(limiter.rules).toEqual(['d.k 1']);
    expect(limiter.refused).toEqual({
      a: "duplicate domain 'd' in config file",
      c: "duplicate domain 'd' in config file",
    });
    limiter.take({}, ['b', 'c']);
    expect(limiter.rules).toEqual(['d.k 2']);
    expect(limiter.refused).toEqual({});
  });

  it('rejects what relies on a change that is rejected', () => {
    const limiter = new Limiter();
    limiter.take({ a: withoutOverrides('d', 1) });
    limiter.take({ a: bad('e'), b: withoutOverrides('d', 2) });
    expect(limiter.rules).toEqual(['d.k 1']);
    expect(Object.keys(limiter.refused).sort()).toEqual(['a', 'b']);
  });

  it('says what it has in force when it comes again, and not what it was sent', () => {
    const limiter = new Limiter();
    limiter.take({ a: withoutOverrides('da', 1) });
    limiter.take({ a: bad('da') });
    limiter.reconnect();
    expect(limiter.reported).toEqual(limiter.inForce);
    limiter.take({});
    expect(limiter.refused).toEqual({});
    expect(limiter.rules).toEqual(['da.k 1']);
  });

  it('rejects as a whole what would leave it without any rules, and what is bad beyond 1,000 resources', () => {
    const limiter = new Limiter();
    expect(limiter.take({ a: bad('a') })).toBe(false);
    const many = Object.fromEntries(Array.from({ length: 1_001 }, (_, i) => [`n${i}`, bad(`d${i}`)]));
    expect(limiter.take({ ...many, a: withoutOverrides('a', 1) })).toBe(false);
    expect(limiter.take({ a: withoutOverrides('a', 1) }, ['n0'])).toBe(true);
    expect(Object.keys(limiter.refused)).toHaveLength(1_000);
  });

  it('has no rules when the server has none', () => {
    const limiter = new Limiter();
    limiter.take({ a: withoutOverrides('a', 1) });
    expect(limiter.take({}, ['a'])).toBe(true);
    expect(limiter.rules).toEqual([]);
  });

  it('claims nothing when that would not fit into a request', () => {
    const field = new Uint8Array();
    const resources = new Map(
      Array.from({ length: 20_000 }, (_, i) => [
        `${'n'.repeat(50)}${i}`,
        { version: 'v', field, domain: 'd', isOverride: false },
      ]),
    );
    expect(claimableResources(resources)).toBe(noResources);
    expect(
      claimableResources(new Map([['a', { version: 'v', field, domain: 'd', isOverride: false }]])).size,
    ).toBe(1);
  });

  it('has after any responses exactly what is good of the last state, or was good before under that name', () => {
    const name = fc.constantFrom<string>('a', 'b', 'c', 'd');
    const change = fc.record({
      name,
      // Domains of their own, but for one that all want.
      domain: fc.constantFrom('own', 'own', 'shared'),
      requests: fc.nat(5),
      isBad: fc.boolean(),
      isRemoved: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(fc.array(change, { maxLength: 4 }), { maxLength: 8 }), (steps) => {
        const limiter = new Limiter();
        limiter.take({ z: withoutOverrides('z', 1) });
        for (const step of steps) {
          const last = new Map(step.map((one) => [one.name, one]));
          const gone = [...last.values()].filter(({ isRemoved }) => isRemoved).map((one) => one.name);
          const reported: Reported = {};
          for (const { name: own, domain, requests, isBad, isRemoved } of last.values()) {
            if (isRemoved) continue;
            const named = domain === 'own' ? `d-${own}` : 'shared';
            reported[own] = isBad ? bad(named) : withoutOverrides(named, requests);
          }
          const before = limiter.inForce;
          expect(limiter.take(reported, gone)).toBe(true);
          for (const [own, resource] of limiter.reported) {
            const isRefused = own in limiter.refused;
            expect(limiter.inForce?.get(own)).toBe(isRefused ? before?.get(own) : resource);
          }
          for (const own of limiter.inForce?.keys() ?? []) expect(limiter.reported.has(own)).toBe(true);
          // What is in force can be in force: a limiter that starts with it rejects nothing.
          expect(limiter.rules).toHaveLength(limiter.inForce?.size ?? -1);
          expect(new Set(limiter.rules.map((line) => line.split('.')[0])).size).toBe(limiter.rules.length);
        }
      }),
      { numRuns: caseCount(50) },
    );
  });
});

describe('rules that come by changes', () => {
  const change = fc.record({
    name: fc.constantFrom<string>('a', 'b', 'c', 'd', 'e'),
    domain: fc.constantFrom('k', 'k_a', 'x', 'own', 'own', 'own'),
    rules: overlappingRules,
    state: fc.constantFrom<'good' | 'good' | 'good' | 'bad' | 'gone'>('good', 'good', 'good', 'bad', 'gone'),
  });
  const requests = fc.array(
    fc.array(fc.record({ key: shortKey, value: shortKey }), { minLength: 1, maxLength: 3 }),
    {
      minLength: 5,
      maxLength: 5,
    },
  );

  /** Of all that is in force, as the first response of a stream would bring it. */
  function whole(inForce: ResourceSet, mergeDomains: boolean) {
    const limiter = new Limiter({ mergeDomains });
    limiter.inForce = inForce;
    const { bytes, parts } = partsToReview(inForce, undefined, 'compatible');
    const { outcome, reviewed } = loadResources({ bytes, parts, mergeDomains, hashInForce: undefined });
    if (!outcome.ok || outcome.rules === undefined) throw new Error('what is in force cannot be loaded');
    return { table: new RuleTable(outcome.rules.bytes), review: reviewLoad(reviewed!(), review) };
  }

  function shown(table: RuleTable) {
    const { domainCount, ruleCount, contentHash } = table;
    const lines = [...table.rlconfigLines(), ...table.ruleFileLines()];
    return {
      domainCount,
      ruleCount,
      contentHash,
      lines,
      listed: [...table.listedRules()],
    };
  }

  /** A rule's number counts within its layer. */
  function matched(table: RuleTable, domain: string, entries: readonly Entry[]) {
    const match = table.match(domain, entries);
    return match && { ...match, rule: { ...match.rule, order: 0 } };
  }

  it('are those that all of it would be, compiled from scratch: shown, matched, rejected and reviewed', () => {
    let patched = 0;
    const steps = fc.array(
      fc.tuple(fc.array(change, { minLength: 1, maxLength: 3 }), fc.boolean(), fc.boolean()),
      {
        maxLength: 8,
      },
    );
    fc.assert(
      fc.property(fc.boolean(), steps, requests, (mergeDomains, history, asked) => {
        const limiter = new Limiter({ mergeDomains });
        const anew = new Limiter({ mergeDomains });
        const first = { y: withoutOverrides('y', 1), z: withoutOverrides('z', 1) };
        for (const one of [limiter, anew]) one.take(first);
        for (const [changes, isReviewed, isWhole] of history) {
          const last = new Map(changes.map((one) => [one.name, one]));
          const gone = [...last.values()].filter(({ state }) => state === 'gone').map(({ name }) => name);
          const reported: Reported = {};
          for (const { name, domain, rules, state } of last.values()) {
            if (state === 'gone') continue;
            const own = domain === 'own' ? `k_${name}` : domain;
            reported[name] = state === 'bad' ? bad(own) : source(own, rules, '');
          }
          expect(limiter.take(reported, gone, isWhole ? 0 : 1)).toBe(anew.take(reported, gone, 0));
          if (limiter.compiled !== undefined && limiter.compiled.length > 0) patched++;
          expect(limiter.refused).toEqual(anew.refused);
          expect([...limiter.inForce!].sort()).toEqual([...anew.inForce!].sort());
          const all = whole(limiter.inForce!, mergeDomains);
          const table = limiter.table!;
          expect(shown(table)).toEqual(shown(all.table));
          const [base, ...over] = table.layers;
          const inWorker = over.reduce(
            (before, layer) => RuleTable.with(before, layer),
            new RuleTable(base.bytes),
          );
          for (const domain of ['k', 'k_a', 'k_b', 'x', 'y', 'none']) {
            for (const entries of asked) {
              const expected = matched(all.table, domain, entries);
              expect(matched(table, domain, entries)).toEqual(expected);
              expect(matched(inWorker, domain, entries)).toEqual(expected);
            }
            expect(table.hasDomain(domain)).toBe(all.table.hasDomain(domain));
          }
          if (!isReviewed) continue;
          const { warnings, ...rest } = limiter.review();
          const byIdentity = (found: RulesReview) => found.warnings.map(({ identity }) => identity).sort();
          expect({ warnings: byIdentity({ warnings, ...rest }), ...rest }).toEqual({
            ...all.review,
            warnings: byIdentity(all.review),
          });
        }
      }),
      { numRuns: caseCount(30) },
    );
    expect(patched).toBeGreaterThan(caseCount(10));
  });

  it('cost what has changed: of that alone is the rest compiled', () => {
    const limiter = new Limiter();
    const many = Object.fromEntries(
      Array.from({ length: 50 }, (_, i) => [`n${i}`, withoutOverrides(`d${i}`, 1)]),
    );
    const share = () => (limiter.table === undefined ? 0 : shareToChange(limiter.table));
    limiter.take(many, [], share());
    expect(limiter.compiled).toBe(undefined);
    limiter.take({ n7: withoutOverrides('d7', 2) }, [], share());
    expect(limiter.compiled).toEqual(['d7']);
    limiter.take({ n7: withoutOverrides('e7', 2) }, ['n8'], share());
    expect(limiter.compiled).toEqual(['e7', 'd7', 'd8']);
    expect(limiter.table?.layers).toHaveLength(2);
    limiter.reconnect();
    limiter.take({}, [], share());
    expect(limiter.compiled).toEqual([]);
    // Where the server says it all once more.
    limiter.reported = noResources;
    limiter.take({ ...many, n7: withoutOverrides('e7', 2) }, ['n8'], share());
    expect(limiter.compiled).toEqual(['d8']);
  });

  it('are compiled with all others from time to time, so that little is held twice', () => {
    const limiter = new Limiter();
    const one = (i: number, requests: number) => ({ [`n${i}`]: withoutOverrides(`d${i}`, requests) });
    limiter.take(Object.assign({}, ...Array.from({ length: 2_000 }, (_, i) => one(i, 1))));
    let wholes = 0;
    for (let i = 0; i < 1_000; i++) {
      limiter.take(one(i, 2), [], shareToChange(limiter.table!));
      if (limiter.compiled === undefined) wholes++;
      const [base, ...over] = limiter.table!.layers.map(({ bytes }) => bytes.byteLength);
      expect(over.length).toBeLessThanOrEqual(256);
      expect(over.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(base! / 3);
    }
    expect(wholes).toBeGreaterThan(0);
    expect(wholes).toBeLessThan(10);
  });
});
