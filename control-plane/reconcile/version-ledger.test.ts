import { describe, expect, it } from 'vitest';
import { type Capabilities, capabilities } from '../../rules/language/capabilities.ts';
import { overrideKind } from '../../rules/language/kinds.ts';
import { configObject, configSpec } from '../../test/support/config-object-builder.ts';
import { WholeDecider } from '../../test/support/whole-decider.ts';
import type { ConfigObject } from '../model/config-object.ts';
import { unrestrictedOwners } from './claims.ts';
import { VersionLedger } from './fleet-rollout.ts';

/** Observes what is decided on `objects`; returns the version of the fleet `default`. */
function observe(ledger: VersionLedger, ...objects: ConfigObject[]): string {
  const decider = new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners });
  const decision = decider.decideAll(objects, new Map());
  ledger.observe(decision, 7);
  return decision.fleets.get('default')?.version ?? '';
}

const a = configObject({ name: 'a', spec: configSpec({ domain: 'a' }) });
const b = configObject({ name: 'b', spec: configSpec({ domain: 'b' }) });
const changedB = { ...b, generation: 2, spec: configSpec({ domain: 'b', keys: ['x'] }) };

describe('VersionLedger', () => {
  it('numbers versions as they appear and keeps the first number of unchanged rules', () => {
    const ledger = new VersionLedger();
    const first = observe(ledger, a);
    const second = observe(ledger, a, b);
    const third = observe(ledger, a, changedB);
    expect(
      [first, second, third].map((version) => ledger.numberOf('default', version, capabilities)),
    ).toEqual([1, 2, 3]);
    expect([ledger.since(a.uid), ledger.since(b.uid)]).toEqual([
      { number: 1, ms: 7, needs: [] },
      { number: 3, ms: 7, needs: [] },
    ]);
  });

  it('does not count a decision that changes nothing', () => {
    const ledger = new VersionLedger();
    const version = observe(ledger, a);
    observe(ledger, { ...a, generation: 2 });
    expect(ledger.numberOf('default', version, capabilities)).toBe(1);
    expect(ledger.since(a.uid)?.number).toBe(1);
  });

  it('counts a version that comes back as new', () => {
    const ledger = new VersionLedger();
    const first = observe(ledger, a, b);
    observe(ledger, a, changedB);
    expect(observe(ledger, a, b)).toBe(first);
    expect(ledger.numberOf('default', first, capabilities)).toBe(3);
    expect(ledger.since(b.uid)?.number).toBe(3);
  });

  it('never gives a number twice, not even to a fleet that comes back', () => {
    const ledger = new VersionLedger();
    const version = observe(ledger, a);
    observe(ledger);
    expect(ledger.numberOf('default', version, capabilities)).toBeUndefined();
    expect(ledger.since(a.uid)).toBeUndefined();
    observe(ledger, a);
    expect(ledger.numberOf('default', version, capabilities)).toBe(2);
    expect(ledger.since(a.uid)?.number).toBe(2);
  });

  it('counts rules anew that move to another fleet', () => {
    const ledger = new VersionLedger();
    observe(ledger, a, b);
    observe(ledger, a, { ...b, spec: configSpec({ domain: 'b', fleet: 'edge' }) });
    expect(ledger.since(a.uid)?.number).toBe(1);
    expect(ledger.since(b.uid)?.number).toBe(3);
  });

  it('forgets the oldest versions of a fleet', () => {
    const ledger = new VersionLedger({ versionsRemembered: 2 });
    const versions = ['x', 'y', 'z'].map((key) =>
      observe(ledger, { ...a, spec: configSpec({ keys: [key] }) }),
    );
    expect(versions.map((version) => ledger.numberOf('default', version, capabilities))).toEqual([
      undefined,
      2,
      3,
    ]);
  });

  it('remembers a version that came back as long as its new number', () => {
    const ledger = new VersionLedger({ versionsRemembered: 2 });
    const versions = ['x', 'y', 'x', 'z'].map((key) =>
      observe(ledger, { ...a, spec: configSpec({ keys: [key] }) }),
    );
    expect(versions.map((version) => ledger.numberOf('default', version, capabilities))).toEqual([
      3,
      undefined,
      3,
      4,
    ]);
  });

  it('distinguishes what limiters with fewer capabilities are served from the same version served to all before', () => {
    const ledger = new VersionLedger();
    const decider = new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners });
    const spec = configSpec({ domain: 'a', algorithm: 'SlidingWindow' });
    const first = observe(ledger, a);
    const kept = new Map([[a.uid, { generation: 1, spec: a.spec }]]);
    const decision = decider.decideAll([{ ...a, generation: 2, spec }], kept);
    ledger.observe(decision, 9);
    const { version } = decision.fleets.get('default')!;
    const numbers = (one: string) => [[], capabilities].map((has) => ledger.numberOf('default', one, has));
    expect(numbers(first)).toEqual([2, 1]);
    expect(numbers(version)).toEqual([undefined, 2]);
    expect(ledger.since(a.uid)).toEqual({ number: 2, ms: 9, needs: ['algorithms'] });
    ledger.observe(decider.decideAll([{ ...a, generation: 2, spec }], new Map()), 10);
    expect(ledger.since(a.uid)).toEqual({ number: 2, ms: 9, needs: ['algorithms'] });
    expect(ledger.newest('default')).toEqual({ number: 3, ms: 9, needs: ['algorithms'], version });
    expect(numbers(first)).toEqual([2, 1]);
  });

  it('gives an override no new number to the rules below it, whatever limiters support', () => {
    const ledger = new VersionLedger();
    const decider = new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners });
    const sliding = { ...b, spec: configSpec({ domain: 'b', algorithm: 'SlidingWindow' }) };
    const sets: Capabilities[] = [[], ['algorithms'], ['overrides'], capabilities];
    const plain = observe(ledger, a);
    const numbersOf = (...versions: string[]) =>
      sets.map((has) => versions.map((one) => ledger.numberOf('default', one, has)));
    expect(numbersOf(plain)).toEqual([[1], [1], [1], [1]]);
    const overrideSpec = { domain: 'a', match: [{ key: 'k' }], block: true, permanent: true, reason: 'r' };
    const override = configObject({ kind: overrideKind, name: 'o', uid: 'o', spec: overrideSpec });
    ledger.observe(decider.decideAll([a, sliding], new Map()), 8);
    const before = ledger.newest('default')!.version;
    ledger.observe(decider.decideAll([a, sliding, override], new Map()), 9);
    const { version } = ledger.newest('default')!;
    const needs = ['algorithms', 'overrides'];
    expect(ledger.newest('default')).toEqual({ number: 3, ms: 9, needs, version });
    expect([ledger.since(a.uid), ledger.since(b.uid), ledger.since('o')]).toEqual([
      { number: 1, ms: 7, needs: [] },
      { number: 2, ms: 8, needs: ['algorithms'] },
      { number: 3, ms: 9, needs: ['overrides'] },
    ]);
    // All limiters have what they support of the newest snapshot.
    expect(numbersOf(plain, before, version)).toEqual([
      [3, undefined, undefined],
      [1, 3, undefined],
      [2, undefined, undefined],
      [1, 2, 3],
    ]);
  });

  it('knows nothing of other fleets', () => {
    const ledger = new VersionLedger();
    expect(ledger.numberOf('edge', observe(ledger, a), capabilities)).toBeUndefined();
  });
});
