import { describe, expect, it } from 'vitest';
import { fleetKind } from '../../rules/language/kinds.ts';
import { expectationOf, joinedEndpoints, readFleet, readSlice } from './fleet-readings.ts';

const metadata = { namespace: 'weir-system', name: 'edge', uid: 'u', generation: 1 };

describe('readFleet', () => {
  it('fills in what the API server would', () => {
    const reading = readFleet({ metadata, spec: {}, status: { odd: true } });
    expect(reading).toEqual({
      item: {
        kind: fleetKind,
        ...metadata,
        spec: { disconnectedGraceSeconds: 30, onDisconnected: 'Unknown' },
        status: undefined,
      },
    });
  });

  it.each([
    ['no uid', { metadata: { name: 'a', generation: 1 }, spec: {} }, /metadata.uid/],
    ['no generation', { metadata: { name: 'a', uid: 'u' }, spec: {} }, /metadata.generation/],
  ])('says that an object has %s', (_, object, problem) => {
    const reading = readFleet(object);
    expect('unreadable' in reading && reading.unreadable).toMatch(problem);
  });

  it('retains the last readable spec, or the defaults, and says what is wrong with the newest', () => {
    const spec = { onDisconnected: 'Hope' };
    const unreadable = expect.stringMatching(/^spec\.onDisconnected: /);
    const defaults = { disconnectedGraceSeconds: 30, onDisconnected: 'Unknown' };
    expect(readFleet({ metadata, spec })).toMatchObject({
      item: { generation: 1, spec: defaults, unreadable },
    });
    const before = readFleet({ metadata, spec: { count: 3 } });
    const next = readFleet(
      { metadata: { ...metadata, generation: 2 }, spec },
      'item' in before ? before.item : undefined,
    );
    expect(next).toMatchObject({ item: { generation: 2, spec: { ...defaults, count: 3 }, unreadable } });
    expect(readFleet({ metadata, spec: 'none' })).toMatchObject({
      item: { unreadable: expect.stringMatching(/^spec: /) },
    });
  });
});

describe('endpoints', () => {
  const pod = { kind: 'Pod', name: 'lim-0', uid: 'p0' };
  const slice = (...endpoints: object[]) => {
    const reading = readSlice({ metadata: { name: 's' }, endpoints });
    return 'item' in reading ? reading.item : [];
  };

  it('are ready unless it is said otherwise', () => {
    expect(slice({ addresses: ['10.0.0.1'], targetRef: pod })).toEqual([
      {
        key: 'p0',
        name: 'lim-0',
        podUid: 'p0',
        addresses: ['10.0.0.1'],
        isReady: true,
        isTerminating: false,
      },
    ]);
    const conditions = { ready: false, terminating: true };
    expect(slice({ addresses: ['10.0.0.1'], conditions })).toMatchObject([
      { key: '10.0.0.1', name: '10.0.0.1', isReady: false, isTerminating: true },
    ]);
  });

  it('of one pod in two slices are one', () => {
    const four = slice({ addresses: ['10.0.0.1'], targetRef: pod, conditions: { ready: true } });
    const six = slice({ addresses: ['fd00::1'], targetRef: pod, conditions: { ready: false } });
    expect(joinedEndpoints([four, six])).toMatchObject([
      { key: 'p0', addresses: ['10.0.0.1', 'fd00::1'], isReady: true },
    ]);
  });

  it.each([
    ['ready if it is ready in any', 'isReady', { ready: true }, { ready: false }, [true, true, false]],
    [
      'terminating if it is in all',
      'isTerminating',
      { terminating: true },
      { terminating: false },
      [true, false, false],
    ],
  ] as const)('of one pod are %s', (_, name, yes, no, expected) => {
    const found = [
      [yes, yes],
      [yes, no],
      [no, no],
    ].map((pair) => {
      const slices = pair.map((conditions) => slice({ addresses: ['10.0.0.1'], targetRef: pod, conditions }));
      const [one] = joinedEndpoints(slices);
      expect(joinedEndpoints(slices.toReversed())[0]?.[name]).toBe(one?.[name]);
      return one?.[name];
    });
    expect(found).toEqual(expected);
  });

  it('are none in a slice without any, and are reported if they cannot be read', () => {
    expect(readSlice({ metadata: { name: 's' }, endpoints: null })).toEqual({ item: [] });
    expect(readSlice({ metadata: { name: 's' }, endpoints: [{}] })).toHaveProperty('unreadable');
  });
});

it('a spec says whether an absent limiter counts, and how long', () => {
  const spec = { count: 3, disconnectedGraceSeconds: 5, onDisconnected: 'Ignore' } as const;
  expect(expectationOf({ kind: fleetKind, ...metadata, spec, status: undefined }, undefined)).toEqual({
    count: 3,
    endpoints: undefined,
    graceMs: 5_000,
    ignoresDisconnected: true,
  });
});
