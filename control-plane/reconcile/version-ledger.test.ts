import { describe, expect, it } from 'vitest';
import { type Capabilities, capabilities } from '../../rules/language/capabilities.ts';
import { overrideKind } from '../../rules/language/kinds.ts';
import { configObject, configSpec } from '../../test/support/config-object-builder.ts';
import { WholeDecider } from '../../test/support/whole-decider.ts';
import type { ConfigObject } from '../model/config-object.ts';
import type { ClusterDecision } from '../model/decision.ts';
import { unrestrictedOwners } from '../model/domain-owners.ts';
import { watchKey } from '../model/object-versions.ts';
import { type LedgerEdits, VersionLedger } from './fleet-rollout.ts';

/** The ledgers of one replica. */
class Ledgers {
  now: VersionLedger;

  constructor(maxVersions?: number) {
    this.now = VersionLedger.empty(maxVersions);
  }

  /** Observes a decision; returns the version of the fleet `default`. */
  observe(decision: ClusterDecision, nowMs: number, edits?: LedgerEdits): string {
    this.now = this.now.with(decision, nowMs, edits);
    return decision.fleets.get('default')?.version ?? '';
  }
}

/** Observes what is decided on `objects`. */
function observe(ledgers: Ledgers, ...objects: ConfigObject[]): string {
  const decider = new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners });
  return ledgers.observe(decider.decideAll(objects, new Map()), 7);
}

const a = configObject({ name: 'a', spec: configSpec({ domain: 'a' }) });
const b = configObject({ name: 'b', spec: configSpec({ domain: 'b' }) });
const changedB = { ...b, generation: 2, spec: configSpec({ domain: 'b', keys: ['x'] }) };

describe('VersionLedger', () => {
  it('numbers versions as they appear and keeps the first number of unchanged rules', () => {
    const ledgers = new Ledgers();
    const first = observe(ledgers, a);
    const second = observe(ledgers, a, b);
    const third = observe(ledgers, a, changedB);
    expect(
      [first, second, third].map((version) => ledgers.now.numberOf('default', version, capabilities)),
    ).toEqual([1, 2, 3]);
    expect([ledgers.now.since(a.uid), ledgers.now.since(b.uid)]).toEqual([
      { number: 1, ms: 7, needs: [] },
      { number: 3, ms: 7, needs: [] },
    ]);
  });

  it('does not count a decision that changes nothing', () => {
    const ledgers = new Ledgers();
    const version = observe(ledgers, a);
    observe(ledgers, { ...a, generation: 2 });
    expect(ledgers.now.numberOf('default', version, capabilities)).toBe(1);
    expect(ledgers.now.since(a.uid)?.number).toBe(1);
  });

  it('counts the rules of an edited object as new, even if they are the same', () => {
    const decider = new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners });
    const ledgers = new Ledgers();
    const all: LedgerEdits[] = [];
    const edit = (edited: ConfigObject, nowMs: number): string => {
      all.push({ uids: new Set([edited.uid]), versions: { [watchKey(undefined)]: `${nowMs}` } });
      return ledgers.observe(decider.decideAll([edited, b], new Map()), nowMs, all.at(-1));
    };
    const versions = [edit(a, 9), edit({ ...a, generation: 3 }, 10)];
    expect(versions[0]).toBe(versions[1]);
    const numbers = [a, b].map(({ uid }) => ledgers.now.since(uid));
    expect(numbers).toEqual([
      { number: 2, ms: 10, needs: [] },
      { number: 1, ms: 9, needs: [] },
    ]);
    expect(ledgers.now.numberOf('default', versions[0], capabilities)).toBe(2);
    const decidedAt = (version?: string): number =>
      ledgers.now.decidedAt(version === undefined ? {} : { [watchKey(undefined)]: version });
    expect([undefined, '8', '9', '10', '11'].map(decidedAt)).toEqual([0, 0, 1, 2, 2]);
    // What others decide by other facts than edits has no version.
    ledgers.observe(decider.decideAll([b], new Map()), 12, { ...all.at(-1)!, uids: new Set() });
    expect([decidedAt('9'), decidedAt('10')]).toEqual([1, 3]);
  });

  it('counts a version that comes back as new', () => {
    const ledgers = new Ledgers();
    const first = observe(ledgers, a, b);
    observe(ledgers, a, changedB);
    expect(observe(ledgers, a, b)).toBe(first);
    expect(ledgers.now.numberOf('default', first, capabilities)).toBe(3);
    expect(ledgers.now.since(b.uid)?.number).toBe(3);
  });

  it('never gives a number twice, not even to a fleet that comes back', () => {
    const ledgers = new Ledgers();
    const version = observe(ledgers, a);
    observe(ledgers);
    expect(ledgers.now.numberOf('default', version, capabilities)).toBeUndefined();
    expect(ledgers.now.since(a.uid)).toBeUndefined();
    observe(ledgers, a);
    expect(ledgers.now.numberOf('default', version, capabilities)).toBe(2);
    expect(ledgers.now.since(a.uid)?.number).toBe(2);
  });

  it('counts rules that move to another fleet as new', () => {
    const ledgers = new Ledgers();
    observe(ledgers, a, b);
    observe(ledgers, a, { ...b, spec: configSpec({ domain: 'b', fleet: 'edge' }) });
    expect(ledgers.now.since(a.uid)?.number).toBe(1);
    expect(ledgers.now.since(b.uid)?.number).toBe(3);
  });

  it('forgets the oldest versions of a fleet', () => {
    const ledgers = new Ledgers(2);
    const versions = ['x', 'y', 'z'].map((key) =>
      observe(ledgers, { ...a, spec: configSpec({ keys: [key] }) }),
    );
    expect(versions.map((version) => ledgers.now.numberOf('default', version, capabilities))).toEqual([
      undefined,
      2,
      3,
    ]);
  });

  it('remembers a version that came back as long as its new number', () => {
    const ledgers = new Ledgers(2);
    const versions = ['x', 'y', 'x', 'z'].map((key) =>
      observe(ledgers, { ...a, spec: configSpec({ keys: [key] }) }),
    );
    expect(versions.map((version) => ledgers.now.numberOf('default', version, capabilities))).toEqual([
      3,
      undefined,
      3,
      4,
    ]);
  });

  it('distinguishes what limiters with fewer capabilities are served from the same version served to all before', () => {
    const ledgers = new Ledgers();
    const decider = new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners });
    const spec = configSpec({ domain: 'a', algorithm: 'SlidingWindow' });
    const first = observe(ledgers, a);
    const kept = new Map([[a.uid, { generation: 1, spec: a.spec }]]);
    const decision = decider.decideAll([{ ...a, generation: 2, spec }], kept);
    ledgers.observe(decision, 9);
    const { version } = decision.fleets.get('default')!;
    const numbers = (one: string) =>
      [[], capabilities].map((has) => ledgers.now.numberOf('default', one, has));
    expect(numbers(first)).toEqual([2, 1]);
    expect(numbers(version)).toEqual([undefined, 2]);
    expect(ledgers.now.since(a.uid)).toEqual({ number: 2, ms: 9, needs: ['algorithms'] });
    ledgers.observe(decider.decideAll([{ ...a, generation: 2, spec }], new Map()), 10);
    expect(ledgers.now.since(a.uid)).toEqual({ number: 2, ms: 9, needs: ['algorithms'] });
    expect(ledgers.now.newest('default')).toEqual({ number: 3, ms: 9, needs: ['algorithms'], version });
    expect(numbers(first)).toEqual([2, 1]);
  });

  it('gives an override no new number to the rules below it, whatever limiters support', () => {
    const ledgers = new Ledgers();
    const decider = new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners });
    const sliding = { ...b, spec: configSpec({ domain: 'b', algorithm: 'SlidingWindow' }) };
    const sets: Capabilities[] = [[], ['algorithms'], ['overrides'], capabilities];
    const plain = observe(ledgers, a);
    ledgers.now = ledgers.now.followedBy(sets.map((has) => ({ fleet: 'default', capabilities: has })));
    const numbersOf = (...versions: string[]) =>
      sets.map((has) => versions.map((one) => ledgers.now.numberOf('default', one, has)));
    expect(numbersOf(plain)).toEqual([[1], [1], [1], [1]]);
    const overrideSpec = {
      domain: 'a',
      match: [{ key: 'k', value: '' }],
      block: true,
      permanent: true,
      reason: 'r',
    };
    const override = configObject({ kind: overrideKind, name: 'o', uid: 'o', spec: overrideSpec });
    ledgers.observe(decider.decideAll([a, sliding], new Map()), 8);
    const before = ledgers.now.newest('default')!.version;
    ledgers.observe(decider.decideAll([a, sliding, override], new Map()), 9);
    const { version } = ledgers.now.newest('default')!;
    const needs = ['algorithms', 'overrides'];
    expect(ledgers.now.newest('default')).toEqual({ number: 3, ms: 9, needs, version });
    expect([ledgers.now.since(a.uid), ledgers.now.since(b.uid), ledgers.now.since('o')]).toEqual([
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

  it('leaves the ledger before as it was', () => {
    const ledgers = new Ledgers();
    const version = observe(ledgers, a);
    const before = ledgers.now;
    observe(ledgers, changedB);
    observe(ledgers, a);
    expect([before, ledgers.now].map((one) => one.numberOf('default', version, capabilities))).toEqual([
      1, 3,
    ]);
    expect([before.since(a.uid)?.number, before.since(b.uid), before.newest('default')?.number]).toEqual([
      1,
      undefined,
      1,
    ]);
  });

  it('knows nothing of other fleets', () => {
    const ledgers = new Ledgers();
    expect(ledgers.now.numberOf('edge', observe(ledgers, a), capabilities)).toBeUndefined();
  });
});
