import { setImmediate as turn } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { configObject, configSpec, invalidSpec } from '../test/support/config-object-builder.ts';
import { recordedTelemetry } from '../test/support/control-plane-telemetry.ts';
import { ManualTimers } from '../test/support/manual-timers.ts';
import { publishedFields } from '../test/support/published-fields.ts';
import { Distribution, type DistributionOptions } from './distribution.ts';
import { ApiError } from './kubernetes/api-error.ts';
import type { ConfigObject } from './model/config-object.ts';
import type { FleetSnapshot } from './model/fleet-snapshot.ts';
import { anyoneOwnsAnything } from './reconcile/claims.ts';
import { Decider, noPolicy } from './reconcile/decide.ts';
import { VersionLedger } from './reconcile/fleet-standing.ts';
import { SchemaStore } from './source/schema-store.ts';

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
    source: {
      get objects() {
        return new Map(objects.map((object) => [object.uid, object]));
      },
    },
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

const known = { domain: {}, descriptors: {} };

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

  it.each([
    ['has no default', () => publishedFields({ ...known, plain: {} }), 3],
    ['is not published', () => publishedFields(known), 0],
    ['cannot be looked up', () => new ApiError({ status: 503, reason: '', message: 'away' }), 0],
  ])(
    'decides on all objects at its pace while one is edited over and over whose unknown field %s',
    async (_, answer, first) => {
      const waitFor = (ms: number) => new Promise<void>((resolve) => void timers.after(ms, resolve));
      const request = async () => {
        await waitFor(15);
        const given = answer();
        if (given instanceof ApiError) throw given;
        return given;
      };
      const schemas: SchemaStore = new SchemaStore({
        ...recordedTelemetry(),
        client: { request: request as never, denied: undefined },
        clock: { monotonicMs: () => timers.nowMs },
        timers,
        changed: () => distribution.policyChanged(),
      });
      const policy = () => schemas.schemas && { ...noPolicy, schemas: schemas.schemas };
      distribution = start({ schemas, policy });
      distribution.useKept(new Map());
      distribution.listed();
      schemas.start();
      const spec = { ...configSpec({ domain: 'shop' }), plain: true };
      const run = async (ms: number, edit: () => void) => {
        for (const endMs = timers.nowMs + ms; timers.nowMs < endMs; ) {
          if (timers.nowMs % 60 === 0) edit();
          timers.advance(5);
          await turn();
        }
      };
      await run(60, () => {});
      const edit = (others: ConfigObject[]) => () => {
        objects = [shop(timers.nowMs, spec), ...others];
        distribution.changed();
      };
      await run(240, edit([]));
      expect(served.length).toBeGreaterThan(first);
      await run(960, edit([]));
      const before = served.length;
      const mail = configObject({ name: 'mail', uid: 'u2', spec: configSpec({ domain: 'mail' }) });
      await run(1_200, edit([mail]));
      expect(served.length - before).toBeGreaterThanOrEqual(11);
      expect(served.at(-1)).toEqual(['mail', 'shop']);
      schemas.close();
    },
  );

  it('decides anew when an override ends, also after longer than timers hold', () => {
    const days = 86_400_000;
    const decider = new Decider({ mergeDomains: false, domainOwners: anyoneOwnsAnything });
    const ending = Object.assign(decider, {
      decide: (...args: Parameters<Decider['decide']>) => ({
        ...Decider.prototype.decide.apply(decider, args),
        dueMs: timers.nowMs < 30 * days ? 30 * days : undefined,
      }),
    });
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
    expect(distribution.persisted.get('u1')?.generation).toBe(1);
    objects = [];
    distribution.changed();
    timers.advance(100);
    expect(served.at(-1)).toEqual([]);
    expect(distribution.persisted.size).toBe(0);
  });

  it('keeps what is stored of an object that is read later, or was read at an older generation', () => {
    distribution.useKept(new Map([['u1', { generation: 2, spec: configSpec({ domain: 'two' }) }]]));
    const show = (...now: ConfigObject[]): void => {
      objects = now;
      distribution.changed();
      timers.advance(100);
    };
    distribution.listed();
    show();
    show(shop(1, configSpec({ domain: 'one' })));
    show(shop(1, configSpec({ domain: 'one' })));
    show(shop(3, invalidSpec()));
    expect(served.at(-1)).toEqual(['two']);
    show(shop(4, configSpec({ domain: 'four' })));
    show(shop(5, invalidSpec()));
    expect(served.at(-1)).toEqual(['four']);
  });

  it('serves what is stored of an object of which it alone accepted a newer generation', () => {
    distribution.useKept(new Map());
    objects = [shop(1, configSpec({ domain: 'one' }))];
    distribution.listed();
    timers.advance(100);
    const status = {
      observedGeneration: 1,
      domain: 'two',
      fleet: 'default',
      servedGeneration: 1,
      conditions: [],
    };
    const mail = configObject({ name: 'mail', uid: 'u2', generation: 2, spec: invalidSpec(), status });
    objects = [shop(3, configSpec({ domain: 'two' })), mail];
    distribution.changed();
    timers.advance(100);
    expect(served.at(-1)).toEqual(['two']);
    const stored = { u1: { generation: 2, spec: configSpec({ domain: 'one' }) } };
    const ofMail = { generation: 1, spec: configSpec({ domain: 'two' }) };
    distribution.useKept(new Map([...Object.entries(stored), ['u2', ofMail]]));
    timers.advance(100);
    expect(served.slice(2)).toEqual([['two', 'one']]);
    expect(distribution.persisted.get('u1')?.generation).toBe(2);
  });

  describe('of an object that is in force by its status, at a generation whose spec is not stored', () => {
    const status = (controllerName: string, servedGeneration: number) => ({
      ...{ observedGeneration: servedGeneration, controllerName, domain: 'shop', fleet: 'default' },
      ...{ servedGeneration, conditions: [] },
    });
    const begin = (said: ReturnType<typeof status> | undefined): void => {
      distribution = start({ controllerName: 'ours' });
      objects = [{ ...shop(3, invalidSpec()), status: said }];
      distribution.useKept(new Map());
      distribution.listed();
      timers.advance(29_000);
    };

    it('waits for a replica that knows it', () => {
      begin(status('ours', 2));
      expect([served, distribution.decision]).toEqual([[], undefined]);
      distribution.useKept(new Map([['u1', { generation: 2, spec: configSpec({ domain: 'shop' }) }]]));
      timers.advance(100);
      expect(served).toEqual([['shop']]);
      expect(timers.size).toBe(0);
    });

    it('waits for half a minute at most, once', () => {
      begin(status('ours', 2));
      timers.advance(2_000);
      expect(served).toEqual([[]]);
      objects = [{ ...shop(4, invalidSpec()), status: status('ours', 2) }];
      distribution.changed();
      timers.advance(100);
      expect(served).toEqual([[], []]);
    });

    it('remembers what is accepted while it waits', () => {
      begin(status('ours', 2));
      const mail = configObject({ name: 'mail', uid: 'u2', spec: configSpec({ domain: 'mail' }) });
      objects = [...objects, mail];
      distribution.changed();
      timers.advance(100);
      objects = [objects[0]!, { ...mail, generation: 2, spec: invalidSpec() }];
      distribution.changed();
      timers.advance(2_000);
      expect(served).toEqual([['mail']]);
    });

    it.each([
      ['by nobody', undefined],
      ['by another control plane', status('theirs', 2)],
      ['at this generation', status('ours', 3)],
    ])('waits for nothing where it is in force %s', (_, said) => {
      begin(said);
      expect(served).toEqual([[]]);
    });
  });

  it('keeps what is stored of an object that was not accepted at the generation that was read before', () => {
    distribution.useKept(new Map());
    objects = [shop(1, invalidSpec())];
    distribution.listed();
    timers.advance(100);
    distribution.useKept(new Map([['u1', { generation: 2, spec: configSpec({ domain: 'two' }) }]]));
    timers.advance(100);
    objects = [shop(3, invalidSpec())];
    distribution.changed();
    timers.advance(100);
    expect(served.at(-1)).toEqual(['two']);
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
