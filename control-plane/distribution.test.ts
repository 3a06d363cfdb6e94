import { beforeEach, describe, expect, it } from 'vitest';
import { configObject, configSpec, invalidSpec } from '../test/support/config-object-builder.ts';
import { recordedTelemetry } from '../test/support/control-plane-telemetry.ts';
import { ManualTimers } from '../test/support/manual-timers.ts';
import { Distribution, type DistributionOptions } from './distribution.ts';
import type { ConfigObject } from './model/config-object.ts';
import type { FleetSnapshot } from './model/fleet-snapshot.ts';
import { anyoneOwnsAnything } from './reconcile/claims.ts';
import { Decider, noPolicy } from './reconcile/decide.ts';
import { VersionLedger } from './reconcile/fleet-standing.ts';

let timers: ManualTimers;
let objects: ConfigObject[];
/** Domains of the default fleet, by push. */
let served: string[][];
let cutOff: boolean;
let distribution: Distribution;

beforeEach(() => {
  timers = new ManualTimers();
  objects = [];
  served = [];
  cutOff = false;
  distribution = start();
});

function start(options: Partial<DistributionOptions> = {}): Distribution {
  return new Distribution({
    ...recordedTelemetry(),
    source: { objects: () => objects },
    decider: new Decider({ mergeDomains: false, domainOwners: anyoneOwnsAnything }),
    policy: () => noPolicy,
    ledger: new VersionLedger(),
    xds: {
      serve: (fleets: ReadonlyMap<string, FleetSnapshot>) =>
        served.push(fleets.get('default')?.resources.map(({ domain }) => domain) ?? []),
      cutOff: (isCutOff: boolean) => {
        cutOff = isCutOff;
      },
    },
    clock: { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs },
    timers,
    decided: () => {},
    ...options,
  });
}

const shop = (generation: number, spec: unknown): ConfigObject =>
  configObject({ name: 'shop', uid: 'u1', generation, spec });

describe('Distribution', () => {
  it('serves nothing before the first complete list', () => {
    distribution.useKept(new Map());
    distribution.changed();
    timers.advance(10_000);
    expect(served).toEqual([]);
    distribution.listed();
    timers.advance(10_000);
    expect(served).toEqual([[]]);
  });

  it('serves nothing before it knows what has to stay in force', () => {
    objects = [shop(2, invalidSpec())];
    distribution.listed();
    timers.advance(10_000);
    expect(served).toEqual([]);
    distribution.useKept(new Map([['u1', { generation: 1, spec: configSpec({ domain: 'shop' }) }]]));
    timers.advance(10_000);
    expect(served).toEqual([['shop']]);
  });

  it('serves nothing before it knows who may use what', () => {
    let policy: typeof noPolicy | undefined;
    distribution = start({ policy: () => policy });
    distribution.useKept(new Map());
    distribution.listed();
    timers.advance(10_000);
    expect(served).toEqual([]);
    policy = noPolicy;
    distribution.policyChanged();
    timers.advance(100);
    expect(served).toEqual([[]]);
  });

  it('serves nothing that newer schemas may say otherwise', () => {
    let isConfirmed = false;
    distribution = start({ schemas: { confirms: () => isConfirmed } });
    distribution.useKept(new Map());
    distribution.listed();
    timers.advance(10_000);
    expect([served, distribution.decision]).toEqual([[], undefined]);
    isConfirmed = true;
    distribution.policyChanged();
    timers.advance(100);
    expect(served).toEqual([[]]);
  });

  it('decides anew when an override ends, also after longer than timers hold', () => {
    const days = 86_400_000;
    const decider = new Decider({ mergeDomains: false, domainOwners: anyoneOwnsAnything });
    const ending = {
      decide: (...args: Parameters<Decider['decide']>) => ({
        ...decider.decide(...args),
        dueMs: timers.nowMs < 30 * days ? 30 * days : undefined,
      }),
    } as Decider;
    const waits: number[] = [];
    const after = (ms: number, then: () => void) => {
      waits.push(ms);
      return timers.after(ms, then);
    };
    distribution = start({ decider: ending, timers: { after, every: () => () => {} } });
    distribution.useKept(new Map());
    distribution.listed();
    timers.advance(30 * days - 1);
    // Once a day.
    expect(served).toHaveLength(30);
    timers.advance(100);
    expect(served).toHaveLength(31);
    expect(Math.max(...waits)).toBeLessThan(2 ** 31);
    expect(timers.size).toBe(0);
  });

  it('takes objects for the newest a second after they are reachable', () => {
    distribution.useKept(new Map());
    distribution.listed();
    timers.advance(100);
    distribution.cutOff('watch', true);
    expect(cutOff).toBe(true);
    distribution.cutOff('watch', false);
    timers.advance(999);
    distribution.cutOff('watch', true);
    distribution.cutOff('lease', true);
    timers.advance(10_000);
    distribution.cutOff('watch', false);
    timers.advance(10_000);
    expect(cutOff).toBe(true);
    distribution.cutOff('lease', false);
    timers.advance(999);
    expect(cutOff).toBe(true);
    expect(served).toHaveLength(1);
    timers.advance(200);
    expect(cutOff).toBe(false);
    expect(served).toHaveLength(2);
  });

  it('leaves the last accepted rules in force', () => {
    distribution.useKept(new Map());
    objects = [shop(1, configSpec({ domain: 'shop' }))];
    distribution.listed();
    timers.advance(100);
    objects = [shop(2, invalidSpec())];
    distribution.changed();
    timers.advance(100);
    expect(served).toEqual([['shop'], ['shop']]);
    expect(distribution.kept.get('u1')?.generation).toBe(1);
    objects = [];
    distribution.changed();
    timers.advance(100);
    expect(served.at(-1)).toEqual([]);
    expect(distribution.kept.size).toBe(0);
  });

  it('does not go back to what another replica kept longer ago', () => {
    distribution.useKept(new Map());
    objects = [shop(3, configSpec({ domain: 'shop' }))];
    distribution.listed();
    timers.advance(100);
    objects = [shop(4, invalidSpec())];
    distribution.useKept(new Map([['u1', { generation: 1, spec: configSpec({ domain: 'old' }) }]]));
    timers.advance(100);
    expect(served.at(-1)).toEqual(['shop']);
  });

  it('decides a storm of changes ten times a second once two of them were decided at once', () => {
    distribution.useKept(new Map());
    distribution.listed();
    for (let i = 0; i < 1_000; i++) {
      distribution.changed();
      timers.advance(1);
    }
    timers.advance(1_000);
    expect(served).toHaveLength(13);
  });

  it('decides nothing more once it is closed', () => {
    distribution.useKept(new Map());
    distribution.listed();
    distribution.close();
    timers.advance(1_000);
    expect(served).toEqual([]);
    expect(timers.size).toBe(0);
  });
});
