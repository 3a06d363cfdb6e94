import { create } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DeltaDiscoveryResponseSchema } from '../../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import type { RuleSource } from '../../../rules/model.ts';
import { RuleTable } from '../../../rules/table/rule-table.ts';
import { encodeResource, rateLimitConfigTypeUrl } from '../../../rules/xds/resource.ts';
import { caseCount } from '../../../test/support/property-cases.ts';
import { limit, rule, source } from '../../../test/support/rule-builder.ts';
import {
  changedWorld,
  claimableWorld,
  emptyWorld,
  type World,
  worldInForce,
  worldParts,
} from './delta-world.ts';
import { loadResources } from './load-resources.ts';

type Told = Record<string, RuleSource>;

function rulesOf(domain: string, requestsPerUnit: number, key = 'k'): RuleSource {
  return source(domain, [rule({ key, rateLimit: limit({ requestsPerUnit }) })], '');
}

/** Of no unit. */
const bad = (domain: string): RuleSource =>
  source(domain, [rule({ key: 'k', rateLimit: limit({ unit: 'eon' }) })], '');

function response(told: Told, removed: readonly string[] = []) {
  const resources = Object.entries(told).map(([name, one]) => ({
    name,
    version: Buffer.from(encodeResource(one)).toString('hex'),
    resource: { typeUrl: rateLimitConfigTypeUrl, value: encodeResource(one) },
  }));
  return create(DeltaDiscoveryResponseSchema, { resources, removedResources: [...removed] });
}

/** A limiter's two worlds and its rules. */
class Limiter {
  told: World = emptyWorld;
  inForce: World | undefined;
  rules: string[] = [];
  /** Names, with the words of the last load. */
  refused: Record<string, string> = {};
  #hash: string | undefined;

  /** False when it is refused as a whole. */
  take(told: Told, removed: readonly string[] = []): boolean {
    this.told = changedWorld(this.told, response(told, removed));
    const { bytes, ...parts } = worldParts(this.told, this.inForce, rateLimitConfigTypeUrl);
    const { outcome } = loadResources({ bytes, parts, mergeDomains: false, hashInForce: this.#hash });
    if (!outcome.ok) return false;
    const { rules, hash, refused } = outcome;
    this.#hash = hash;
    this.inForce = worldInForce(this.told, this.inForce, refused?.resources ?? []);
    this.refused = Object.fromEntries((refused?.resources ?? []).map(({ name, message }) => [name, message]));
    if (rules !== undefined) {
      const lines = [...new RuleTable(rules.bytes).rlconfigLines()];
      this.rules = lines.map((line) => line.replace(/: .*requests_per_unit=(\d+),.*/, ' $1'));
    }
    return true;
  }

  reconnect(): void {
    this.told = claimableWorld(this.inForce);
  }
}

describe('a limiter with incremental xDS', () => {
  it('has what the responses add up to', () => {
    const limiter = new Limiter();
    expect(limiter.take({ b: rulesOf('db', 1), a: rulesOf('da', 1) })).toBe(true);
    expect(limiter.rules).toEqual(['da.k 1', 'db.k 1']);
    expect(limiter.take({ b: rulesOf('db', 2), c: rulesOf('dc', 1) }, ['a'])).toBe(true);
    expect(limiter.rules).toEqual(['db.k 2', 'dc.k 1']);
  });

  it('keeps the former rules of what it refuses, and says why; the rest is in force in one step', () => {
    const limiter = new Limiter();
    limiter.take({ a: rulesOf('da', 1), b: rulesOf('db', 1) });
    expect(limiter.take({ a: bad('da'), b: rulesOf('db', 2), c: bad('dc') })).toBe(true);
    expect(limiter.rules).toEqual(['da.k 1', 'db.k 2']);
    expect(limiter.refused).toEqual({
      a: "invalid rate limit unit 'UNKNOWN'",
      c: "invalid rate limit unit 'UNKNOWN'",
    });
    // For as long as it is so.
    limiter.take({ b: rulesOf('db', 3) });
    expect(Object.keys(limiter.refused)).toEqual(['a', 'c']);
    limiter.take({ a: rulesOf('da', 9) }, ['c']);
    expect(limiter.refused).toEqual({});
    expect(limiter.rules).toEqual(['da.k 9', 'db.k 3']);
  });

  it('refuses what takes a domain from what is in force, also by an earlier name, until the domain is free', () => {
    const limiter = new Limiter();
    limiter.take({ b: rulesOf('d', 1) });
    limiter.take({ a: rulesOf('d', 2), c: rulesOf('d', 3) });
    expect(limiter.rules).toEqual(['d.k 1']);
    expect(limiter.refused).toEqual({
      a: "duplicate domain 'd' in config file",
      c: "duplicate domain 'd' in config file",
    });
    limiter.take({}, ['b', 'c']);
    expect(limiter.rules).toEqual(['d.k 2']);
    expect(limiter.refused).toEqual({});
  });

  it('refuses what relies on a change that is refused', () => {
    const limiter = new Limiter();
    limiter.take({ a: rulesOf('d', 1) });
    limiter.take({ a: bad('e'), b: rulesOf('d', 2) });
    expect(limiter.rules).toEqual(['d.k 1']);
    expect(Object.keys(limiter.refused).sort()).toEqual(['a', 'b']);
  });

  it('says what it has in force when it comes again, and not what it was told', () => {
    const limiter = new Limiter();
    limiter.take({ a: rulesOf('da', 1) });
    limiter.take({ a: bad('da') });
    limiter.reconnect();
    expect(limiter.told).toEqual(limiter.inForce);
    limiter.take({});
    expect(limiter.refused).toEqual({});
    expect(limiter.rules).toEqual(['da.k 1']);
  });

  it('refuses as a whole what would leave it without any rules, and what is bad beyond 1,000 resources', () => {
    const limiter = new Limiter();
    expect(limiter.take({ a: bad('a') })).toBe(false);
    const many = Object.fromEntries(Array.from({ length: 1_001 }, (_, i) => [`n${i}`, bad(`d${i}`)]));
    expect(limiter.take({ ...many, a: rulesOf('a', 1) })).toBe(false);
    expect(limiter.take({ a: rulesOf('a', 1) }, ['n0'])).toBe(true);
    expect(Object.keys(limiter.refused)).toHaveLength(1_000);
  });

  it('has no rules when the server has none', () => {
    const limiter = new Limiter();
    limiter.take({ a: rulesOf('a', 1) });
    expect(limiter.take({}, ['a'])).toBe(true);
    expect(limiter.rules).toEqual([]);
  });

  it('claims nothing when that would not fit into a request', () => {
    const field = new Uint8Array();
    const world = new Map(
      Array.from({ length: 20_000 }, (_, i) => [`${'n'.repeat(50)}${i}`, { version: 'v', field }]),
    );
    expect(claimableWorld(world)).toBe(emptyWorld);
    expect(claimableWorld(new Map([['a', { version: 'v', field }]])).size).toBe(1);
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
        limiter.take({ z: rulesOf('z', 1) });
        for (const step of steps) {
          const last = new Map(step.map((one) => [one.name, one]));
          const gone = [...last.values()].filter(({ isRemoved }) => isRemoved).map((one) => one.name);
          const told: Told = {};
          for (const { name: own, domain, requests, isBad, isRemoved } of last.values()) {
            if (isRemoved) continue;
            const named = domain === 'own' ? `d-${own}` : 'shared';
            told[own] = isBad ? bad(named) : rulesOf(named, requests);
          }
          const before = limiter.inForce;
          expect(limiter.take(told, gone)).toBe(true);
          for (const [own, resource] of limiter.told) {
            const isRefused = own in limiter.refused;
            expect(limiter.inForce?.get(own)).toBe(isRefused ? before?.get(own) : resource);
          }
          for (const own of limiter.inForce?.keys() ?? []) expect(limiter.told.has(own)).toBe(true);
          // What is in force can be in force: a limiter that starts with it refuses nothing.
          expect(limiter.rules).toHaveLength(limiter.inForce?.size ?? -1);
          expect(new Set(limiter.rules.map((line) => line.split('.')[0])).size).toBe(limiter.rules.length);
        }
      }),
      { numRuns: caseCount(100) },
    );
  });
});
