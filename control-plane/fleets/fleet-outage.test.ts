/** What a FleetStore knows of who may use a fleet, and who is expected, while it may not read all of it. */
import { expect, it, onTestFinished } from 'vitest';
import { recordedTelemetry } from '../../test/support/control-plane-telemetry.ts';
import { eventually } from '../../test/support/eventually.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { aMoment, ScriptedApi, soon } from '../../test/support/scripted-api.ts';
import { FleetStore } from './fleet-store.ts';

const path = '/apis/ratelimit.weir.dev/v1alpha1/namespaces/weir-system/ratelimitfleets';
const namespaces = '/api/v1/namespaces';
const slicesOf = (namespace: string) => `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;

function fleetOf(spec: object, resourceVersion = '1') {
  const metadata = { name: 'edge', namespace: 'weir-system', uid: 'u', generation: 1, resourceVersion };
  return { metadata, spec };
}

const ofService = (namespace: string, resourceVersion?: string) =>
  fleetOf({ service: { namespace, name: 'limiters' } }, resourceVersion);
const selecting = fleetOf({
  allowedNamespaces: { from: 'Selector', selector: { matchLabels: { team: 'a' } } },
});

async function setUp({
  fleets = [] as ReturnType<typeof fleetOf>[],
  problems = {} as Record<string, number>,
}) {
  const { api, client } = await ScriptedApi.start();
  api.lists.set(path, fleets);
  for (const [of, status] of Object.entries(problems)) api.problems.set(of, status);
  const timers = new ManualTimers();
  const store = new FleetStore({
    client,
    namespace: 'weir-system',
    services: new Map(),
    mayWrite: () => false,
    changed: () => {},
    shown: () => {},
    accessChanged: () => {},
    clock: { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs },
    timers,
    random: () => 0,
    log: recordedTelemetry().log,
  });
  onTestFinished(() => store.close());
  store.start();
  const wait = async (ms: number) => {
    for (const endMs = timers.nowMs + ms; timers.nowMs < endMs; ) {
      timers.advance(Math.min(5_000, endMs - timers.nowMs));
      await aMoment();
    }
  };
  /** Waits until the assertion holds. On a slow machine, answers arrive later than after a moment. */
  const until = (assertion: () => void) =>
    eventually(async () => {
      await wait(5_000);
      assertion();
    });
  return { api, store, wait, until };
}

it('there are no fleets if their definition is not installed', async () => {
  const { store } = await setUp({ problems: { [path]: 404 } });
  await soon(() => expect(store.policy?.fleets).toEqual(new Map()));
});

it('it is unknown who may use a fleet while fleets may not be read', async () => {
  const { store, wait } = await setUp({ problems: { [path]: 403 } });
  await wait(45_000);
  expect(store.policy).toBeUndefined();
});

it('the permitted users of a fleet are unknown until the labels of namespaces are known', async () => {
  const { api, store, wait, until } = await setUp({ fleets: [selecting], problems: { [namespaces]: 503 } });
  await wait(45_000);
  expect(store.policy).toBeUndefined();
  api.problems.clear();
  api.lists.set(namespaces, [{ metadata: { name: 'shop', labels: { team: 'a' } } }]);
  await until(() => expect(store.policy).toBeDefined());
  const access = store.policy!.fleets.get('edge') as { admits(namespace: string): boolean };
  expect([access.admits('shop'), access.admits('mail')]).toEqual([true, false]);
});

it('a fleet stays unknown, and others are decided, if the labels may not be read for good', async () => {
  const { store, wait, until } = await setUp({ fleets: [selecting], problems: { [namespaces]: 403 } });
  await wait(20_000);
  expect(store.policy).toBeUndefined();
  const unknown = { unknown: expect.stringContaining('status 403') };
  await until(() => expect(store.policy?.fleets.get('edge')).toMatchObject(unknown));
});

it('a fleet with a value of a newer version is not open to everyone', async () => {
  const spec = (from: string) => ({ allowedNamespaces: { from } });
  const { api, store } = await setUp({ fleets: [fleetOf(spec('Named'))] });
  await soon(() => expect(store.policy?.fleets.get('edge')).toHaveProperty('unknown'));
  expect(store.followed[0]!.problem).toMatchObject({
    reason: 'Invalid',
    message: expect.stringMatching(/^spec\.allowedNamespaces\.from: /),
    meanwhile: 'limiters keep their rules and get no new ones',
  });
  await soon(() => expect(api.isWatched(path)).toBe(true));
  api.emit(path, 'MODIFIED', fleetOf(spec('All'), '2'));
  await soon(() => expect(store.policy?.fleets.get('edge')).toHaveProperty('admits'));
  api.emit(path, 'MODIFIED', fleetOf(spec('Named'), '3'));
  await soon(() => expect(store.followed[0]!.problem?.meanwhile).toBe('the previous value stays in use'));
  expect(store.policy?.fleets.get('edge')).toHaveProperty('admits');
});

it.each([401, 403, 404])('a fleet says at once that its endpoints are answered with %i', async (status) => {
  const { store } = await setUp({ fleets: [ofService('shop')], problems: { [slicesOf('shop')]: status } });
  await soon(() => expect(store.fleets).toHaveLength(1));
  await soon(() => expect(store.followed[0]!.problem?.reason).toBe('EndpointsUnknown'));
});

it('a fleet does not mention an outage that passes', async () => {
  const { store } = await setUp({ fleets: [ofService('shop')], problems: { [slicesOf('shop')]: 503 } });
  await soon(() => expect(store.fleets).toHaveLength(1));
  await aMoment();
  expect(store.followed[0]!.problem).toBeUndefined();
});

it('a fleet reports a Service that has no slices, which may be misspelled, and expects no empty set', async () => {
  const { api, store } = await setUp({ fleets: [ofService('shop')] });
  await soon(() =>
    expect(store.followed[0]?.problem).toEqual({
      reason: 'EndpointsUnknown',
      message:
        'spec.service: shop/limiters has no EndpointSlices: check that there is a Service with this name',
      meanwhile: 'limiters that were connected within the grace are expected',
    }),
  );
  expect(store.expectations().get('edge')!.endpoints).toBeUndefined();
  await soon(() => expect(api.isWatched(slicesOf('shop'))).toBe(true));
  api.emit(slicesOf('shop'), 'ADDED', {
    metadata: { name: 'limiters-1', resourceVersion: '2' },
    endpoints: [],
  });
  await soon(() => expect(store.followed[0]!.problem).toBeUndefined());
  expect(store.expectations().get('edge')!.endpoints).toEqual([]);
});

it('the endpoints of a former Service are followed no longer', async () => {
  const { api } = await setUp({ fleets: [ofService('shop')] });
  await soon(() => expect([path, slicesOf('shop')].map((of) => api.isWatched(of))).toEqual([true, true]));
  api.emit(path, 'MODIFIED', ofService('mail', '2'));
  await soon(() => expect(api.isWatched(slicesOf('mail'))).toBe(true));
  await soon(() => expect(api.isWatched(slicesOf('shop'))).toBe(false));
});
