import { describe, expect, it } from 'vitest';
import { capabilities, noCapabilities } from '../../rules/language/capabilities.ts';
import { fleetKind } from '../../rules/language/kinds.ts';
import type { FleetObject } from '../model/config-object.ts';
import { type FleetLimiter, type FleetLimiters, FleetRollout } from '../reconcile/fleet-rollout.ts';
import { type FleetFacts, fleetStatus } from './fleet-status.ts';

const noonMs = Date.UTC(2026, 0, 2, 12);
const fleet: FleetObject = {
  kind: fleetKind,
  namespace: 'weir-system',
  name: 'edge',
  uid: 'u',
  generation: 3,
  spec: { disconnectedGraceSeconds: 30, onDisconnected: 'Unknown' },
  status: undefined,
};
const newest = { number: 2, ms: noonMs, version: 'v2', needs: noCapabilities };

function limiter(name: string, accepted: number, traits: Partial<FleetLimiter> = {}): FleetLimiter {
  const common = {
    isWeir: true,
    state: 'connected' as const,
    sinceMs: noonMs,
    hasNothing: false,
    rejection: undefined,
    claimed: accepted,
    capabilities,
  };
  return { name, accepted, ...common, ...traits };
}

function statusWith(limiters: Partial<FleetLimiters>, facts: Partial<FleetFacts> = {}) {
  const all = { limiters: [], coming: [], isShort: false, mayBeMore: false, ...limiters };
  const standing = new FleetRollout(all);
  return fleetStatus({ fleet, limiters: standing, newest, previous: undefined, nowMs: noonMs, ...facts });
}

/** `3/3 current 3`, then the conditions. */
function statusTexts({ limiters, current, conditions }: ReturnType<typeof statusWith>): string[] {
  return [`${limiters} current ${current}`, ...conditions.map(({ status, reason }) => `${status} ${reason}`)];
}

const well = [limiter('a', 2), limiter('b', 2)];

describe('fleetStatus', () => {
  it('is complete for a fleet in which one rejects', () => {
    const refusal = { number: 2, message: 'no', sinceMs: noonMs, resources: undefined };
    const stamp = { lastTransitionTime: '2026-01-02T12:00:00Z', observedGeneration: 3 };
    const message = "not in force on every limiter of fleet 'edge'; rejected by a since 12:00:00Z: no";
    expect(statusWith({ limiters: [limiter('a', 1, { rejection: refusal }), limiter('b', 2)] })).toEqual({
      observedGeneration: 3,
      limiters: '2/2',
      expected: 2,
      connected: 2,
      current: 1,
      joining: 0,
      refusing: [{ name: 'a', message: 'no' }],
      version: 'v2',
      conditions: [
        { type: 'Ready', status: 'False', reason: 'Refused', message, ...stamp },
        {
          type: 'Progressing',
          status: 'False',
          reason: 'Settled',
          message: 'no limiter is joining or loading',
          ...stamp,
        },
        { type: 'Stalled', status: 'True', reason: 'Refused', message, ...stamp },
      ],
    });
  });

  const away = { state: 'away' } as const;
  const ofPart = { number: 2, message: 'no', sinceMs: noonMs, resources: new Map([['team/a', 'no']]) };
  const cases: [
    what: string,
    limiters: Partial<FleetLimiters>,
    facts: Partial<FleetFacts>,
    statusTexts: string[],
  ][] = [
    ['all current', { limiters: well }, {}, ['2/2 current 2', 'True AllLimiters', 'False Settled']],
    ['nobody', {}, {}, ['0/0 current 0', 'False NoLimiters', 'False Settled']],
    [
      'one that is behind',
      { limiters: [...well, limiter('c', 1)] },
      {},
      ['3/3 current 2', 'False Pending', 'True Changing'],
    ],
    [
      'one that rejects a part',
      { limiters: [...well, limiter('c', 2, { rejection: ofPart })] },
      {},
      ['3/3 current 2', 'False Refused', 'False Settled', 'True Refused'],
    ],
    [
      'one that joins',
      { limiters: [...well, limiter('c', 0, { state: 'joining' })], coming: ['d'] },
      {},
      ['2/2 current 2', 'True AllLimiters', 'True Joining'],
    ],
    [
      'one away',
      { limiters: [...well, limiter('c', 1, away)] },
      {},
      ['2/3 current 2', 'Unknown Disconnected', 'False Settled'],
    ],
    [
      'one away that had the newest rules',
      { limiters: [...well, limiter('c', 2, away)] },
      {},
      ['2/3 current 2', 'True AllLimiters', 'False Settled'],
    ],
    [
      'one that is too old for some of its rules',
      {
        limiters: [...well, limiter('c', 2, { capabilities: ['windows'] })],
      },
      { newest: { ...newest, needs: ['windows', 'calendar'] } },
      ['3/3 current 2', 'False LimiterTooOld', 'False Settled'],
    ],
    [
      'fewer than there should be',
      { limiters: well, isShort: true },
      { fleet: { ...fleet, spec: { ...fleet.spec, count: 5 } } },
      ['2/5 current 2', 'Unknown Disconnected', 'False Settled'],
    ],
    [
      'nothing to run',
      { limiters: well },
      { newest: undefined },
      ['2/2 current 0', 'False NoRules', 'False Settled'],
    ],
  ];
  it.each(cases)('reports %s', (_, limiters, facts, wanted) => {
    expect(statusTexts(statusWith(limiters, facts))).toEqual(wanted);
  });

  it('names the version that is loading', () => {
    const { conditions } = statusWith({ limiters: [...well, limiter('c', 1)] });
    expect(conditions[1]?.message).toBe('version v2 is loading');
  });

  it('is the same a second later, and keeps the time of a transition', () => {
    const previous = statusWith({ limiters: well });
    const later = { previous, nowMs: noonMs + 1_000 };
    expect(statusWith({ limiters: well }, later)).toEqual(previous);
    const [ready] = statusWith({}, later).conditions;
    expect(ready?.lastTransitionTime).toBe('2026-01-02T12:00:01Z');
  });

  it('is not ready while something is wrong with who may use it', () => {
    const problem = { reason: 'Invalid', message: 'no', meanwhile: 'what held stays' } as const;
    const { conditions } = statusWith({ limiters: well }, { problem });
    expect(conditions[0]).toMatchObject({
      status: 'False',
      reason: 'Invalid',
      message: 'no; what held stays',
    });
    expect(conditions[2]).toMatchObject({ type: 'Stalled', status: 'True', reason: 'Invalid' });
  });
});
