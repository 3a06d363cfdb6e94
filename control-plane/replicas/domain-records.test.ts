import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Fault, kinds, MemoryApi } from '../../test/simulation/memory-api.ts';
import { MemoryCluster } from '../../test/simulation/memory-cluster.ts';
import { plainCodec } from '../../test/simulation/simulated-replica.ts';
import { SimulatedProcess, VirtualTime } from '../../test/simulation/virtual-time.ts';
import { recordedTelemetry } from '../../test/support/control-plane-telemetry.ts';
import type { ClusterDecision, DomainRecord, DomainRecords } from '../model/decision.ts';
import { DomainRecordStore, nextRecords } from './domain-records.ts';

const noonMs = Date.UTC(2026, 0, 2, 12);
const releaseMs = 60_000;

/** Of objects `namespace/domain` that are served to the fleet `edge`; `!namespace/domain` is not. */
function decision(...objects: string[]): Pick<ClusterDecision, 'holders'> {
  const served = objects.filter((text) => !text.startsWith('!')).map((text) => text.split('/'));
  const byDomain = Map.groupBy(served, ([, domain]) => `edge/${domain}`);
  const namespaces = [...byDomain].map(([key, all]): [string, string[]] => {
    return [key, [...new Set(all.map(([namespace = '']) => namespace))].sort()];
  });
  return { holders: new Map(namespaces) };
}

const records = (entries: Record<string, DomainRecord>): DomainRecords => new Map(Object.entries(entries));
const next = (before: DomainRecords, now: Pick<ClusterDecision, 'holders'>, nowMs = noonMs): DomainRecords =>
  nextRecords(before, now, { nowMs, releaseMs });

describe('nextRecords', () => {
  it('begins with anyone who is served', () => {
    expect(next(records({}), decision('shop/a', '!evil/a', 'shop/b'))).toEqual(
      records({ 'edge/a': { namespaces: ['shop'] }, 'edge/b': { namespaces: ['shop'] } }),
    );
  });

  it('holds what came free for a minute, and forgets it then', () => {
    const had = records({ 'edge/a': { namespaces: ['shop'] } });
    const free = next(had, decision('!evil/a'));
    const heldUntilMs = noonMs + releaseMs;
    expect(free).toEqual(records({ 'edge/a': { namespaces: ['shop'], heldUntilMs } }));
    expect(next(free, decision('!evil/a'), heldUntilMs - 1)).toBe(free);
    expect(next(free, decision('!evil/a'), heldUntilMs)).toEqual(records({}));
  });

  it('is the same as long as nothing changes, and drops the end when the namespace is back', () => {
    const had = records({ 'edge/a': { namespaces: ['shop'] } });
    expect(next(had, decision('shop/a'))).toBe(had);
    expect(next(next(had, decision()), decision('shop/a'))).toEqual(had);
  });

  it('has all namespaces that share a domain', () => {
    const shared = next(records({}), decision('b/a', 'a/a', 'b/a'));
    expect(shared).toEqual(records({ 'edge/a': { namespaces: ['a', 'b'] } }));
    expect(next(shared, decision('a/a', 'b/a'))).toBe(shared);
    expect(next(shared, decision('b/a'))).toEqual(records({ 'edge/a': { namespaces: ['b'] } }));
  });

  it('holds nothing for longer than the delay, also when it was shortened', () => {
    const far = records({ 'edge/a': { namespaces: ['shop'], heldUntilMs: noonMs + 10 * releaseMs } });
    expect(next(far, decision())).toEqual(
      records({ 'edge/a': { namespaces: ['shop'], heldUntilMs: noonMs + releaseMs } }),
    );
  });

  it('gives no domain to another namespace within the delay, whatever happens', () => {
    const step = fc.record({ owner: fc.constantFrom('shop/a', '!evil/a'), afterMs: fc.nat(90_000) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
        let [known, nowMs, freeMs] = [next(records({}), decision('shop/a')), noonMs, 0];
        let isFree = false;
        for (const { owner, afterMs } of steps) {
          nowMs += afterMs;
          const comesFree = owner === '!evil/a' && !isFree;
          if (comesFree) freeMs = nowMs;
          isFree = owner === '!evil/a';
          known = next(known, decision(owner), nowMs);
          expect(known.has('edge/a')).toBe(!isFree || nowMs - freeMs < releaseMs);
        }
      }),
    );
  });
});

describe('DomainRecordStore', () => {
  /** Stores of two replicas on one cluster. The first one leads. `faultOf` is asked about each of its writes. */
  async function setUp(faultOf: () => Fault | undefined = () => undefined) {
    const time = new VirtualTime();
    const cluster = new MemoryCluster(() => time.nowMs);
    let evaluations = 0;
    const stores = [true, false].map((leads) => {
      const { clock, timers } = new SimulatedProcess(time);
      const store = new DomainRecordStore({
        ...recordedTelemetry(),
        client: new MemoryApi({
          ...{ cluster, timers, userAgent: leads ? 'leader' : 'other' },
          fault: ({ method = 'GET' }) => (method === 'GET' ? undefined : faultOf()),
        }),
        ...{ clock, timers, releaseMs, random: () => 0, codec: plainCodec, namespace: 'weir-system' },
        mayWrite: () => {
          if (leads) evaluations += 1;
          return leads;
        },
        changed: () => {},
      });
      store.start();
      return store;
    });
    onTestFinished(async () => {
      await Promise.all([...stores.map((store) => store.close()), time.advance(10_000)]);
    });
    const [leader, other] = stores as [DomainRecordStore, DomainRecordStore];
    await time.advance(1_000);
    const maps = () => cluster.list({ kind: configMaps, namespace: 'weir-system', labelSelector: '' });
    return { time, cluster, leader, other, maps, evaluations: () => evaluations };
  }
  const configMaps = kinds.find(({ plural }) => plural === 'configmaps')!;

  it('stores what a leader decides, where other replicas read it', async () => {
    const { time, leader, other, maps } = await setUp();
    expect([leader.records, other.records, maps().length]).toEqual([new Map(), new Map(), 0]);
    leader.decided(decision('shop/a'));
    await time.advance(5_000);
    expect([leader.records, other.records]).toEqual([
      records({ 'edge/a': { namespaces: ['shop'] } }),
      records({ 'edge/a': { namespaces: ['shop'] } }),
    ]);
  });

  it('stores nothing before the first domain has an owner', async () => {
    const { time, leader, maps } = await setUp();
    leader.decided(decision('!shop/a'));
    await time.advance(5_000);
    expect(maps()).toEqual([]);
  });

  it.each(['deleted', 'damaged'])(
    'stores a record again that is %s before its write is answered',
    async (what) => {
      // The server carries out a request after half of the time.
      const { time, cluster, leader, other, maps } = await setUp(() => ({ delayMs: 2_000 }));
      leader.decided(decision('shop/a'));
      await time.advance(1_500);
      const where = { kind: configMaps, namespace: 'weir-system', name: 'weir-domains', isStatus: false };
      expect(maps()).toHaveLength(1);
      if (what === 'deleted') cluster.delete(where, {});
      else cluster.merge(where, { data: { 'domains.json': '{"x":1}' } }, 'somebody');
      await time.advance(10_000);
      expect(other.records).toEqual(records({ 'edge/a': { namespaces: ['shop'] } }));
      expect(maps()[0]).toMatchObject({ data: { 'domains.json': '{"edge/a":{"namespaces":["shop"]}}' } });
    },
  );

  it('stores a new decision at once after failures, and repeats an unchanged one later each time', async () => {
    let attempts = 0;
    let fault: Fault | undefined = { refused: { status: 500, reason: 'InternalError' } };
    const { time, leader, maps } = await setUp(() => {
      attempts += 1;
      return fault;
    });
    leader.decided(decision('shop/a'));
    while (attempts < 8) await time.advance(100);
    fault = undefined;
    leader.decided(decision('shop/a'));
    await time.advance(5_000);
    expect([attempts, maps().length]).toEqual([8, 0]);
    leader.decided(decision('mail/a'));
    await time.advance(5_000);
    expect([attempts, maps().length]).toEqual([9, 1]);
  });

  it('forgets a domain without owner after the delay, although nothing else happens until then', async () => {
    const { time, leader, other, evaluations } = await setUp();
    leader.decided(decision('shop/a'));
    await time.advance(5_000);
    leader.decided(decision());
    await time.advance(5_000);
    expect(other.records!.get('edge/a')?.heldUntilMs).toBeGreaterThan(time.nowMs);
    const before = evaluations();
    await time.advance(releaseMs - 10_000);
    expect([other.records!.size, evaluations()]).toEqual([1, before]);
    await time.advance(15_000);
    expect(other.records).toEqual(new Map());
  });
});
