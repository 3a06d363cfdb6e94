import { beforeEach, describe, expect, it } from 'vitest';
import { configObject, configSpec } from '../../test/support/config-object-builder.ts';
import { recordedTelemetry, reportTo } from '../../test/support/control-plane-telemetry.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { WholeDecider } from '../../test/support/whole-decider.ts';
import type { ConfigObject } from '../model/config-object.ts';
import type { ClusterDecision } from '../model/decision.ts';
import { unrestrictedOwners } from '../model/domain-owners.ts';
import type { LimiterReport } from '../model/fleet-snapshot.ts';
import type { RecordedEvent } from '../replicas/event-recorder.ts';
import { CollisionWatch } from './collision-watch.ts';
import { type CollisionSearch, collisionsOf, encodedObjects, searchInThread } from './counter-collisions.ts';

const decider = new WholeDecider({ mergeDomains: true, domainOwners: unrestrictedOwners });

let timers: ManualTimers;
let decision: ClusterDecision;
let limiters: LimiterReport[];
let leads: boolean;
let searches: number;
let stopped: number;
let reported: RecordedEvent[];
let failures: string[];
let answer: (objects: ReturnType<typeof encodedObjects>) => CollisionSearch;
let watch: CollisionWatch;

function limiter(name: string, traits: Partial<LimiterReport> = {}): LimiterReport {
  return {
    id: name,
    instance: name,
    name,
    fleet: 'default',
    isWeir: true,
    countsCompatibly: true,
    capabilities: [],
    connectedMs: 0,
    acceptedVersion: undefined,
    refusal: undefined,
    ...traits,
  };
}

function decide(...objects: ConfigObject[]): void {
  decision = decider.decideAll(objects, new Map());
}

function update(): void {
  watch.update({ decision, world: { reports: [{ replica: 'plane-a', limiters }], leads } });
}

/** Lets all that is due happen, some minutes long. */
async function settle(): Promise<void> {
  update();
  for (let round = 0; round < 50; round++) {
    timers.advance(10_000);
    await new Promise((next) => setImmediate(next));
  }
}

function notes(): string[] {
  return reported.map(({ object, note }) => `${object.name}: ${note}`);
}

beforeEach(() => {
  timers = new ManualTimers();
  limiters = [limiter('pod-1')];
  [leads, searches, stopped, reported, failures] = [true, 0, 0, [], []];
  answer = (objects) => ({ found: Promise.resolve(collisionsOf(objects)), stop: () => stopped++ });
  watch = new CollisionWatch({
    search: (objects) => {
      searches++;
      return answer(objects);
    },
    events: { record: (event) => reported.push(event) },
    log: recordedTelemetry(reportTo(failures)).log,
    clock: { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs },
    timers,
  });
});

const bank = configObject({ name: 'bank', createdMs: 1, spec: configSpec({ domain: 'bank', keys: ['ip'] }) });
const other = configObject({
  name: 'other',
  createdMs: 2,
  spec: configSpec({ domain: 'bank_ip', keys: ['x'] }),
});
const rest =
  'in one key, as the limiter pod-1 has compatible keys: with COUNTER_KEYS=unambiguous no two counters meet';

describe('objects whose counters could meet', () => {
  it('are reported as a warning on the younger one', async () => {
    decide(other, bank);
    await settle();
    expect(reported).toEqual([
      {
        object: other,
        type: 'Warning',
        reason: 'CountersCanMeet',
        note: `The rule bank_ip_x_*_ and bank_ip_*_ of default/bank could count ${rest}`,
      },
    ]);
  });

  it('are reported without the rules of another namespace', async () => {
    decide({ ...bank, namespace: 'secret', uid: 'u' }, other);
    await settle();
    expect(notes()).toEqual([`other: The rule bank_ip_x_*_ and a rule of secret/bank could count ${rest}`]);
  });

  it('are reported once for one object that meets itself, and for a domain that two share', async () => {
    const self = configObject({
      name: 'self',
      createdMs: 3,
      spec: configSpec({ keys: ['a', 'a_b', 'a_c'] }),
    });
    const sharer = configObject({ name: 'sharer', createdMs: 4, spec: configSpec({ keys: ['a_d'] }) });
    decide(sharer, self);
    await settle();
    expect(notes().sort()).toEqual([
      `self: The rules shop_a_*_ and shop_a_b_*_ could count ${rest}`,
      `sharer: The rule shop_a_d_*_ and shop_a_*_ of default/self could count ${rest}`,
    ]);
  });

  it('are looked for when what is served has changed, and reported once for two uids', async () => {
    decide(bank, other);
    await settle();
    decide({ ...bank, status: { observedGeneration: 1, conditions: [] } }, other);
    await settle();
    expect([searches, reported.length]).toEqual([1, 1]);
    const edited = { ...bank, generation: 2, spec: configSpec({ domain: 'bank', keys: ['ip', 'z'] }) };
    decide(edited, other);
    await settle();
    expect([searches, reported.length]).toEqual([2, 1]);
    decide(edited, { ...other, uid: 'made anew', spec: { ...(other.spec as object) } });
    await settle();
    expect([searches, reported.length]).toEqual([3, 2]);
  });

  it.each<[string, () => void]>([
    ['all limiters have unambiguous keys', () => (limiters = [limiter('a', { countsCompatibly: false })])],
    ['compatible ones are of another fleet', () => (limiters = [limiter('a', { fleet: 'blue' })])],
    ['no limiter is there', () => (limiters = [])],
    ['another replica leads', () => (leads = false)],
  ])('are not looked for while %s', async (_, given) => {
    decide(bank, other);
    given();
    await settle();
    expect(searches).toBe(0);
    limiters = [limiter('pod-1', { countsCompatibly: false }), limiter('pod-2')];
    leads = true;
    await settle();
    expect([searches, reported.length]).toEqual([1, 1]);
  });

  it('are reported again by no leader that reported them before', async () => {
    decide(bank, other);
    await settle();
    leads = false;
    update();
    leads = true;
    await settle();
    expect([searches, reported.length]).toEqual([2, 1]);
  });

  it('are reported two a second, and ten for one object', async () => {
    const many = Array.from({ length: 15 }, (_, i) => {
      return configObject({
        name: `n${i}`,
        createdMs: i,
        spec: configSpec({ keys: [`a${'_b'.repeat(i)}`] }),
      });
    });
    decide(...many);
    update();
    timers.advance(1_000);
    for (let turn = 0; turn < 3; turn++) await new Promise((next) => setImmediate(next));
    timers.advance(0);
    expect(reported).toHaveLength(1);
    timers.advance(1_000);
    expect(reported).toHaveLength(3);
    await settle();
    const perObject = Object.values(Object.groupBy(reported, ({ object }) => object.name)).map(
      (one) => one?.length,
    );
    expect(Math.max(...perObject.map(Number))).toBe(10);
    expect(searches).toBe(1);
  });

  it('are not reported when one of them is gone, nor by a former leader', async () => {
    decide(bank, other);
    const search = Promise.withResolvers<ReturnType<typeof collisionsOf>>();
    let found: ReturnType<typeof collisionsOf> = [];
    answer = (objects) => {
      found = collisionsOf(objects);
      return { found: search.promise, stop: () => stopped++ };
    };
    update();
    timers.advance(1_000);
    expect(searches).toBe(1);
    decide(other);
    search.resolve(found);
    answer = (objects) => ({ found: Promise.resolve(collisionsOf(objects)), stop: () => stopped++ });
    await settle();
    expect(reported).toEqual([]);
    decide(bank, other);
    answer = () => ({ found: Promise.reject(new Error('stopped')), stop: () => stopped++ });
    update();
    timers.advance(30_000);
    leads = false;
    await settle();
    expect([stopped, reported, failures]).toEqual([1, [], []]);
  });

  it('are not looked for again after a failure before something has changed', async () => {
    decide(bank, other);
    answer = () => ({ found: Promise.reject(new Error('no memory')), stop: () => {} });
    await settle();
    await settle();
    expect([searches, failures]).toEqual([
      1,
      ['Could not check whether counters of a fleet share a key: default: no memory'],
    ]);
    watch.close();
    await settle();
    expect(timers.size).toBe(0);
  });

  it('are found in a thread, the same as here', async () => {
    decide(bank, other);
    const rules = [bank, other].map(({ uid }) => decision.outcomes.get(uid)!.served!.bytes);
    const objects = encodedObjects(rules);
    expect(await searchInThread(objects).found).toEqual(collisionsOf(objects));
    expect(collisionsOf(objects)).toHaveLength(1);
    const search = searchInThread(objects);
    search.stop();
    await expect(search.found).rejects.toThrow('the thread ended without a result');
  });
});
