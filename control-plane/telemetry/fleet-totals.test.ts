import { describe, expect, it } from 'vitest';
import { capabilities } from '../../rules/language/capabilities.ts';
import { decisionOf, limiterReport } from '../../test/support/control-plane-view.ts';
import { fleetSnapshot, versionOfNothing } from '../model/fleet-snapshot.ts';
import { fleetTotals, otherFleets } from './control-plane-metrics.ts';

const decision = decisionOf([
  { name: 'a', fleet: 'edge', rules: 2, bytes: 10 },
  { name: 'b', fleet: 'edge', rules: 3, bytes: 20 },
  { name: 'c', fleet: 'core', rules: 5, bytes: 30, generation: 4, servedGeneration: 3 },
  { name: 'd', fleet: 'none', servedGeneration: undefined },
]);
const edge = decision.fleets.get('edge')?.version as string;
const none = { in_force: 0, pending: 0, refused: 0, too_old: 0 };

describe('fleetTotals', () => {
  it('adds up what each fleet is served, and how its limiters stand to it', () => {
    const limiters = [
      limiterReport({ fleet: 'edge', acceptedVersion: edge }),
      limiterReport({ fleet: 'edge', acceptedVersion: edge, refusal: { version: edge, message: '' } }),
      limiterReport({ fleet: 'edge', acceptedVersion: 'old', refusal: { version: edge, message: '' } }),
      limiterReport({ fleet: 'edge', acceptedVersion: 'old', refusal: { version: 'old', message: '' } }),
      limiterReport({ fleet: 'edge' }),
    ];
    expect([...fleetTotals(decision, limiters)]).toEqual([
      ['core', { rules: 5, snapshotBytes: 30, limiters: none }],
      [
        'edge',
        { rules: 5, snapshotBytes: 30, limiters: { in_force: 2, pending: 2, refused: 1, too_old: 0 } },
      ],
    ]);
  });

  it('puts fleets without objects together, whose present version is the empty one', () => {
    const empty = 'e3b0c44298fc1c14';
    const limiters = [
      limiterReport({ fleet: 'typo', acceptedVersion: empty }),
      limiterReport({ fleet: 'x'.repeat(1000), acceptedVersion: edge }),
    ];
    expect(fleetTotals(decision, limiters).get(otherFleets)).toEqual({
      rules: 0,
      snapshotBytes: 0,
      limiters: { in_force: 1, pending: 1, refused: 0, too_old: 0 },
    });
  });

  it('distinguishes limiters with all rules that they support from those that are behind', () => {
    const resource = { name: 'a', domain: 'a', bytes: new Uint8Array(), hash: 'a', needs: capabilities };
    const served = fleetSnapshot('edge', [resource]);
    const old = versionOfNothing;
    const reports = [[], capabilities].flatMap((has) => [
      limiterReport({ fleet: 'edge', capabilities: has, acceptedVersion: old }),
      limiterReport({ fleet: 'edge', capabilities: has, acceptedVersion: served.version }),
      limiterReport({ fleet: 'edge', capabilities: has, refusal: { version: old, message: '' } }),
    ]);
    const all = { fleets: new Map([['edge', served]]), outcomes: new Map(), holders: new Map() };
    const totals = fleetTotals(all, reports);
    expect(totals.get('edge')?.limiters).toEqual({ in_force: 1, pending: 3, refused: 1, too_old: 1 });
  });

  it('names the first fleets alone', () => {
    expect([...fleetTotals(decision, [], 1)]).toEqual([
      ['core', { rules: 5, snapshotBytes: 30, limiters: none }],
      [otherFleets, { rules: 5, snapshotBytes: 30, limiters: none }],
    ]);
  });

  it('knows nothing in force before the first list', () => {
    expect([...fleetTotals(undefined, [limiterReport({ acceptedVersion: 'old' })])]).toEqual([
      [
        otherFleets,
        { rules: 0, snapshotBytes: 0, limiters: { in_force: 0, pending: 1, refused: 0, too_old: 0 } },
      ],
    ]);
  });
});
