import { describe, expect, it } from 'vitest';
import { configObject } from '../../test/support/config-object-builder.ts';
import type { LastAcceptedSpec, ObjectOutcome } from '../model/decision.ts';
import { AcceptedSpecs, fallbackPatienceMs, newerAcceptedSpec, returnPatienceMs } from './accepted-specs.ts';

const servedConfig = {
  ...{ fleet: 'edge', domain: 'shop', generation: 1, spec: 'one', hash: '', bytes: new Uint8Array() },
  ...{ resource: 'team/shop', rules: 1, ownFields: [], needs: [] },
};

describe('newerAcceptedSpec', () => {
  const old = { generation: 1, spec: 'one' };
  it.each([
    ['takes what is newer', { generation: 2, spec: 'two' }, { generation: 3, spec: 'three' }, undefined],
    [
      'takes what limiters keep that know less',
      { generation: 2, spec: 'two' },
      old,
      { generation: 2, spec: 'two', fallback: old },
    ],
    [
      'takes it of two as well',
      { generation: 3, spec: 'three' },
      { generation: 2, spec: 'two', fallback: old },
      { generation: 3, spec: 'three', fallback: old },
    ],
    [
      'takes the newer of two fallbacks',
      { generation: 4, spec: 'four', fallback: old },
      { generation: 3, spec: 'three' },
      { generation: 4, spec: 'four', fallback: { generation: 3, spec: 'three' } },
    ],
    [
      'has the fallback that was stored with the same generation',
      { generation: 3, spec: 'three', fallback: { generation: 2, spec: 'two' } },
      { generation: 3, spec: 'three', fallback: old },
      { generation: 3, spec: 'three', fallback: old },
    ],
    [
      'takes the fallback that was stored with the same generation',
      { generation: 3, spec: 'three' },
      { generation: 3, spec: 'three', fallback: old },
      { generation: 3, spec: 'three', fallback: old },
    ],
    [
      'has no fallback if the same generation was stored without one',
      { generation: 3, spec: 'three', fallback: old },
      { generation: 3, spec: 'three' },
      { generation: 3, spec: 'three', fallback: undefined },
    ],
    [
      'knows better than what was stored before',
      { generation: 3, spec: 'three', fallback: { generation: 2, spec: 'two' } },
      old,
      { generation: 3, spec: 'three', fallback: { generation: 2, spec: 'two' } },
    ],
  ])('%s', (_, known, stored, joined: LastAcceptedSpec = stored) => {
    expect(newerAcceptedSpec(known, stored)).toEqual(joined);
    expect(newerAcceptedSpec(undefined, stored)).toBe(stored);
  });
});

describe('AcceptedSpecs', () => {
  it('retains each withdrawn fallback for the whole patience, whenever another one is dropped', () => {
    const spec = { generation: 3, spec: 'three', fallback: { generation: 1, spec: 'one' } };
    const [a, b] = ['a', 'b'].map((name) =>
      configObject({ name, uid: name, generation: 3, status: { observedGeneration: 3, conditions: [] } }),
    );
    const outcomes = new Map(
      [a!, b!].map((object) => [
        object.uid,
        { object, accepted: { status: true } as const, served: undefined },
      ]),
    );
    const both = new Map([
      ['a', spec],
      ['b', spec],
    ]);
    const onlyB = new Map([['b', spec]]);
    const withdrawn = AcceptedSpecs.none
      .joinedWith(both)
      .following({ before: both, stored: onlyB }, { monotonicMs: 0 })
      .following({ before: onlyB, stored: new Map() }, { monotonicMs: 4_000 });
    const fallbacksAt = (monotonicMs: number) => {
      const specs = withdrawn.followingLeader(new Map(), outcomes, {
        monotonicMs,
        isSure: true,
        controllerName: undefined,
      });
      return [...[...specs.known.values()].map(({ fallback }) => fallback?.generation), specs.dueMs];
    };
    const dueMs = 4_000 + fallbackPatienceMs;
    expect(fallbacksAt(fallbackPatienceMs - 1)).toEqual([1, 1, fallbackPatienceMs]);
    expect(fallbacksAt(fallbackPatienceMs)).toEqual([undefined, 1, dueMs]);
    expect(fallbacksAt(dueMs)).toEqual([undefined, undefined, Number.POSITIVE_INFINITY]);
  });

  it.each([
    ['drops a fallback whose spec others dropped before they accepted the next one', new Map(), undefined],
    ['retains a fallback that is stored', new Map([['a', { generation: 1, spec: 'one' }]]), 1],
  ])('%s', (_, storedLater, fallbackLater) => {
    const one = { generation: 1, spec: 'one' };
    const stored = new Map([['a', one]]);
    const object = configObject({
      name: 'a',
      uid: 'a',
      generation: 3,
      status: { observedGeneration: 3, conditions: [] },
    });
    const fallback = { ...one, needs: [] };
    const served = { ...servedConfig, generation: 3, spec: 'three', fallback };
    const outcomes = new Map([['a', { object, accepted: { status: true } as const, served }]]);
    const decision = { fleets: new Map(), outcomes, holders: new Map() };
    const { specs } = AcceptedSpecs.none
      .joinedWith(stored)
      .following({ before: stored, stored: new Map() }, { monotonicMs: 0 })
      .after(decision, new Set(['a']), { stored: new Map(), monotonicMs: 1_000, controllerName: undefined });
    expect(specs.known.get('a')?.fallback?.generation).toBe(1);
    const dueMs = 1_000 + fallbackPatienceMs;
    expect(specs.dueMs).toBe(dueMs);
    const later = specs
      .following({ before: new Map(), stored: storedLater }, { monotonicMs: 2_000 })
      .followingLeader(storedLater, outcomes, {
        monotonicMs: dueMs,
        isSure: true,
        controllerName: undefined,
      });
    expect(later.known.get('a')).toMatchObject({ generation: 3 });
    expect(later.known.get('a')?.fallback?.generation).toBe(fallbackLater);
  });

  it('adopts the fallback of a generation again that it alone had rejected for a while', () => {
    const one = { generation: 1, spec: 'one' };
    const stored = new Map([['a', one]]);
    const ready = {
      type: 'Programmed',
      status: 'True',
      reason: 'AllLimiters',
      observedGeneration: 3,
    } as const;
    const times = { lastTransitionTime: '2026-01-01T00:00:00Z', message: '' };
    const status = {
      observedGeneration: 3,
      conditions: [
        { ...ready, ...times },
        { ...ready, ...times, type: 'Accepted', reason: 'Valid' } as const,
      ],
    };
    const object = configObject({ name: 'a', uid: 'a', generation: 3, status });
    const rejection = { status: false, reason: 'FleetNotAllowed', message: '' } as const;
    const rejected: ObjectOutcome = { object, accepted: rejection, served: undefined };
    const served = { ...servedConfig, generation: 3, spec: 'three', fallback: undefined };
    const accepted: ObjectOutcome = { object, accepted: { status: true }, served };
    const at = { controllerName: undefined, isSure: true };
    const after = (specs: AcceptedSpecs, outcome: ObjectOutcome, monotonicMs: number): AcceptedSpecs => {
      const decision = { fleets: new Map(), outcomes: new Map([['a', outcome]]), holders: new Map() };
      return specs.after(decision, new Set(['a']), { stored, monotonicMs, controllerName: undefined }).specs;
    };
    const dropped = after(AcceptedSpecs.none.joinedWith(stored), rejected, 0);
    expect([dropped.known.size, dropped.dueMs]).toEqual([0, returnPatienceMs]);
    const outcomes = new Map([['a', rejected]]);
    const waiting = dropped.followingLeader(stored, outcomes, { ...at, monotonicMs: returnPatienceMs });
    expect([waiting.known.size, waiting.dueMs]).toEqual([0, 2 * returnPatienceMs]);
    const known = after(waiting, accepted, 2 * returnPatienceMs - 1);
    const joined = known.followingLeader(stored, new Map([['a', accepted]]), {
      ...at,
      monotonicMs: 2 * returnPatienceMs,
    });
    expect(joined.known.get('a')).toEqual({ generation: 3, spec: 'three', fallback: one });
  });
});
