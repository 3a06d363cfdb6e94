/** What a replica knows of a cluster by itself, before anything is stored. */
import { expect, it, onTestFinished } from 'vitest';
import { apiVersion, fleetKind, kind, overrideKind } from '../rules/language/kinds.ts';
import { kinds, MemoryApi } from '../test/simulation/memory-api.ts';
import { MemoryCluster } from '../test/simulation/memory-cluster.ts';
import { plainCodec } from '../test/simulation/simulated-replica.ts';
import { SimulatedProcess, VirtualTime } from '../test/simulation/virtual-time.ts';
import { configSpec } from '../test/support/config-object-builder.ts';
import { recordedTelemetry } from '../test/support/control-plane-telemetry.ts';
import { ClusterBacking } from './cluster-backing.ts';
import type { ApiRequest } from './kubernetes/api.ts';
import type { ApiObject } from './kubernetes/watch-protocol.ts';
import { parseControlPlaneSettings } from './settings/settings.ts';
import { unknownWorld } from './world.ts';

const system = 'weir-system';

interface Place {
  time: VirtualTime;
  cluster: MemoryCluster;
}

function newPlace(): Place {
  const time = new VirtualTime();
  return { time, cluster: new MemoryCluster(() => time.nowMs) };
}

function open(env: Record<string, string> = {}, { time, cluster } = newPlace(), replica = 'replica-a') {
  const parsed = parseControlPlaneSettings({ SOURCE: 'KUBERNETES', XDS_HOST: '127.0.0.1', ...env });
  if (parsed.errors !== undefined) throw new Error(parsed.errors.map(({ message }) => message).join());
  const process = new SimulatedProcess(time);
  const { clock, timers } = process;
  const reviews: unknown[] = [];
  const others = ({ path, body }: { path: string; body?: unknown }): unknown => {
    if (path.startsWith('/openapi/v3')) return { paths: {} };
    reviews.push(body);
    return { status: { authenticated: true, user: { username: 'limiter' }, audiences: ['weir'] } };
  };
  const asked: string[] = [];
  const state = { isCutOff: false };
  const fault = ({ method, path }: ApiRequest) => {
    asked.push(`${method} ${path}`);
    return state.isCutOff ? { unreached: true } : undefined;
  };
  const client = new MemoryApi({
    ...{ cluster, timers: time, clientTimers: timers, userAgent: replica, others, fault },
  });
  let world = unknownWorld;
  const backing = new ClusterBacking({
    ...recordedTelemetry(),
    ...{ clock, timers, client, random: () => 0, codec: plainCodec, env: {} },
    settings: parsed.settings,
    replica,
    namespace: system,
    learn: (news) => {
      world = { ...world, ...(typeof news === 'function' ? news(world) : news) };
    },
  });
  onTestFinished(async () => {
    if (process.isDead) return;
    await Promise.all([backing.source.close(), backing.close(), time.advance(60_000)]);
  });
  const living = (): string[] => world.reports.map((report) => report.replica);
  return { backing, process, time, reviews, asked, state, world: () => world, living };
}

/** The fleets of the control plane, as a place to create one. */
const fleets = { kind: kinds.find(({ kind: its }) => its === fleetKind)!, namespace: system };

const fleetWith = (spec: object) => ({ apiVersion, kind: fleetKind, metadata: { name: 'edge' }, spec });

const stored = (kind: string, namespace: string, spec: unknown, labels = {}): ApiObject => ({
  ...{ apiVersion, kind, spec },
  metadata: {
    ...{ name: 'shop', namespace, labels, uid: 'u', resourceVersion: '1', generation: 1 },
    creationTimestamp: '2026-01-02T03:04:05Z',
  },
});

it('a RateLimitFleet counts only in the namespace of the control plane', () => {
  const { backing } = open();
  const spec = { disconnectedGraceSeconds: 5 };
  expect(backing.previewed.fleet(stored(fleetKind, 'team', spec))).toBeUndefined();
  expect(backing.previewed.fleet(stored(fleetKind, system, spec))).toMatchObject({
    item: { name: 'shop', spec },
  });
});

it('a RateLimitFleet whose selector is wrong by itself cannot be read', () => {
  const { backing } = open();
  const allowedNamespaces = { from: 'Selector', selector: { matchLabels: { 'a,b': 'c' } } };
  const spec = { disconnectedGraceSeconds: 5, allowedNamespaces };
  expect(backing.previewed.fleet(stored(fleetKind, system, spec))).toEqual({
    unreadable: expect.stringContaining('spec.allowedNamespaces'),
  });
});

it('objects are previewed where they would be served: by namespace, labels and kind', () => {
  const { backing } = open({ WATCH_NAMESPACES: 'team', LABEL_SELECTOR: 'tier=gold' });
  const nothing = (): void => {};
  void backing.source.start({ changed: nothing, cutOff: nothing });
  const gold = { tier: 'gold' };
  const ofConfig = (namespace: string, labels: object) =>
    backing.previewed.config(stored(kind, namespace, configSpec(), labels));
  expect(ofConfig('team', gold)).toMatchObject({ item: { namespace: 'team', name: 'shop' } });
  expect(ofConfig('other', gold)).toBeUndefined();
  expect(ofConfig('team', {})).toBeUndefined();
  const spec = { domain: 'shop', entries: [{ key: 'a' }], requestsPerUnit: 5, unit: 'second' };
  expect(backing.previewed.override(stored(overrideKind, 'other', spec, gold))).toBeUndefined();
});

it('tokens are reviewed by the API server, for the audience', async () => {
  const { backing, time, reviews } = open();
  const review = backing.reviewToken('the-token', 'weir');
  await time.advance(1_000);
  expect(await review).toEqual({ user: 'limiter' });
  expect(reviews).toMatchObject([{ spec: { token: 'the-token', audiences: ['weir'] } }]);
});

it('no leader is reported by a replica whose own lead has ended', async () => {
  const { backing, time, world } = open();
  expect([backing.replicas.leader, backing.replicas.leads]).toEqual([undefined, false]);
  backing.start();
  await time.advance(5_000);
  expect([backing.replicas.leader, backing.replicas.leads, world().leads]).toEqual(['replica-a', true, true]);
});

it('a replica that dies is no longer counted in time, though nothing else happens', async () => {
  const place = newPlace();
  const [first, second] = [open({}, place), open({}, place, 'replica-b')];
  for (const { backing } of [first, second]) backing.start();
  await place.time.advance(20_000);
  expect(first.living()).toEqual(['replica-a', 'replica-b']);
  second.process.kill();
  await place.time.advance(1_000);
  expect(first.living()).toEqual(['replica-a', 'replica-b']);
  await place.time.advance(60_000);
  expect(first.living()).toEqual(['replica-a']);
});

it('a replica that ends gives up the lead, leaves nothing behind, and asks for nothing more', async () => {
  const place = newPlace();
  const [first, second] = [open({}, place), open({}, place, 'replica-b')];
  first.backing.start();
  await place.time.advance(5_000);
  second.backing.start();
  await place.time.advance(5_000);
  expect([first.backing.replicas.leads, second.backing.replicas.leads]).toEqual([true, false]);
  expect(second.living()).toEqual(['replica-b', 'replica-a']);
  await Promise.all([first.backing.close(), place.time.advance(1_000)]);
  expect(first.backing.replicas.leads).toBe(false);
  first.asked.length = 0;
  await place.time.advance(5_000);
  expect([second.backing.replicas.leads, second.backing.replicas.leader, second.living()]).toEqual([
    true,
    'replica-b',
    ['replica-b'],
  ]);
  await place.time.advance(120_000);
  expect(first.asked).toEqual([]);
  first.process.kill();
});

it('a replica that cannot renew its lead leads no longer, until it can', async () => {
  const { backing, time, world, state } = open();
  backing.start();
  await time.advance(5_000);
  expect(world().leads).toBe(true);
  state.isCutOff = true;
  await time.advance(20_000);
  expect([backing.replicas.leads, world().leads]).toEqual([false, false]);
  state.isCutOff = false;
  await time.advance(60_000);
  expect([backing.replicas.leads, world().leads]).toEqual([true, true]);
});

it('the limiters that a fleet expects are known once it is listed, and follow its changes', async () => {
  const place = newPlace();
  const { backing, time, world } = open({}, place);
  backing.start();
  await time.advance(1_000);
  expect([world().expectations, world().fleets]).toEqual([new Map(), []]);
  place.cluster.create(fleets, fleetWith({ count: 2 }), 'user');
  await time.advance(1_000);
  expect(world().expectations?.get('edge')).toMatchObject({ count: 2 });
  expect(world().fleets).toMatchObject([{ object: { name: 'edge' } }]);
  const target = { ...fleets, name: 'edge', isStatus: false };
  place.cluster.replace(target, { ...place.cluster.read(target), spec: { count: 3 } }, 'user');
  await time.advance(1_000);
  expect(world().expectations?.get('edge')).toMatchObject({ count: 3 });
});
