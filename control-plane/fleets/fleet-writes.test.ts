/** What a FleetStore writes to the API server, and when again. */
import { expect, it, onTestFinished } from 'vitest';
import { recordedTelemetry } from '../../test/support/control-plane-telemetry.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { type ApiAnswer, aMoment, ScriptedApi, soon } from '../../test/support/scripted-api.ts';
import type { FleetStatus } from '../model/config-object.ts';
import { VersionLedger } from '../reconcile/fleet-rollout.ts';
import { LimiterView } from '../reconcile/limiter-view.ts';
import { fleetStatuses } from './fleet-status.ts';
import { FleetStore } from './fleet-store.ts';

const path = '/apis/ratelimit.weir.dev/v1alpha1/namespaces/weir-system/ratelimitfleets';

function fleetObject(name: string, resourceVersion = '1') {
  const metadata = { name, namespace: 'weir-system', uid: name, generation: 1, resourceVersion };
  return { metadata, spec: { count: 2 } };
}

function statusOf(limiters: string): FleetStatus {
  return { observedGeneration: 1, limiters } as FleetStatus;
}

/** A leader's store, which has listed these fleets, and what keeps their statuses true. */
async function setUp({ fleets = ['edge'], services = [] as string[], status = 200 } = {}) {
  const { api, client } = await ScriptedApi.start();
  api.answer = () => ({ status });
  api.lists.set(
    path,
    fleets.map((name) => fleetObject(name)),
  );
  const timers = new ManualTimers();
  const state = { leads: true };
  const { log } = recordedTelemetry();
  const clock = { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs };
  const store = new FleetStore({
    client,
    namespace: 'weir-system',
    services: new Map(services.map((name) => [name, [`shop/${name}`]])),
    mayWrite: () => state.leads,
    changed: () => {},
    shown: () => {},
    accessChanged: () => {},
    clock,
    timers,
    random: () => 0,
    log,
  });
  onTestFinished(() => store.close());
  store.start();
  await soon(() => expect(store.accesses).toBeDefined());
  await soon(() => expect(api.watched.get(path)).toBe(1));
  const write = (name: string, limiters: string) =>
    store.writeStatus(store.fleets.find((fleet) => fleet.name === name)!, statusOf(limiters));
  const written = () =>
    api.writes.map(({ path: of, body }) => {
      const { limiters } = (body['status'] ?? {}) as { limiters?: string };
      return limiters === undefined ? `create ${of}` : `${of.split('/').at(-2)} ${limiters}`;
    });
  /** A second passes, and all fleets are looked at. */
  const evaluate = async () => {
    timers.advance(1_000);
    const facts = { limiters: LimiterView.empty, ledger: VersionLedger.empty(), nowMs: timers.nowMs };
    for (const { fleet, status } of fleetStatuses(store.followed, facts)) store.writeStatus(fleet, status);
    await aMoment();
  };
  /** The watch shows this status of `edge`. */
  const show = async (resourceVersion: string, status: unknown) => {
    api.emit(path, 'MODIFIED', { ...fleetObject('edge', resourceVersion), status });
    await soon(() => expect(store.fleets[0]?.resourceVersion).toBe(resourceVersion));
    await aMoment();
  };
  return { api, store, state, timers, write, written, evaluate, show };
}

it('writes a status that is due after another one was sent, and before that was answered', async () => {
  const { api, write, written } = await setUp();
  const first = Promise.withResolvers<ApiAnswer>();
  api.answer = () => first.promise;
  write('edge', '0/2');
  await api.written(1);
  write('edge', '1/2');
  api.answer = () => ({ status: 200 });
  first.resolve({ status: 200, body: { metadata: { resourceVersion: '5' } } });
  await api.written(2);
  expect(written()).toEqual(['edge 0/2', 'edge 1/2']);
  // It follows from what the first write made of the fleet, which the watch does not show yet.
  expect(api.writes.map(({ body }) => body['metadata'] as object)).toMatchObject([
    { resourceVersion: '1' },
    { resourceVersion: '5' },
  ]);
});

it.each([401, 429, 500, 503])('repeats a status after %i within half a second', async (status) => {
  const { api, timers, write, written } = await setUp();
  api.answer = () => ({ status });
  write('edge', '0/2');
  await api.written(1);
  await soon(() => expect(timers.size).toBe(2));
  api.answer = () => ({ status: 200 });
  timers.advance(500);
  await api.written(2);
  expect(written()).toEqual(['edge 0/2', 'edge 0/2']);
});

it.each([400, 403, 405, 422])(
  'repeats a status after %i in 30 s, and writes others meanwhile',
  async (status) => {
    const { api, timers, write, written } = await setUp({ fleets: ['edge', 'core'] });
    api.answer = ({ path: of }) => ({ status: of.includes('edge') ? status : 200 });
    write('edge', '0/2');
    write('core', '0/2');
    await api.written(2);
    await soon(() => expect(timers.size).toBe(2));
    timers.advance(29_999);
    await aMoment();
    expect(written()).toEqual(['edge 0/2', 'core 0/2']);
    timers.advance(1);
    await api.written(3);
    expect(written().at(-1)).toBe('edge 0/2');
  },
);

it.each([404, 409])('leaves a fleet after %i until the watch shows what became of it', async (status) => {
  const { api, timers, write } = await setUp();
  api.answer = () => ({ status });
  write('edge', '0/2');
  await api.written(1);
  await aMoment();
  timers.advance(120_000);
  await aMoment();
  expect(api.writes).toHaveLength(1);
});

it('creates a fleet for a Service that has none, and takes one that another replica created', async () => {
  const { api, timers, written } = await setUp({ fleets: [], services: ['edge'], status: 409 });
  await api.written(1);
  expect(written()).toEqual([`create ${path}`]);
  expect(api.writes[0]?.body).toMatchObject({
    metadata: { name: 'edge' },
    spec: { service: { namespace: 'shop', name: 'edge' } },
  });
  await aMoment();
  timers.advance(120_000);
  await aMoment();
  expect(api.writes).toHaveLength(1);
});

it('writes nothing while another replica leads, and forgets what was due', async () => {
  const { api, store, state, timers, write } = await setUp();
  api.answer = () => ({ status: 503 });
  write('edge', '0/2');
  await api.written(1);
  await soon(() => expect(timers.size).toBe(2));
  state.leads = false;
  write('edge', '1/2');
  timers.advance(120_000);
  state.leads = true;
  store.startedLeading();
  timers.advance(120_000);
  await aMoment();
  expect(api.writes).toHaveLength(1);
});

it('continues after a lead that ended and began again during a write', async () => {
  const { api, store, state, write, written } = await setUp();
  const first = Promise.withResolvers<ApiAnswer>();
  api.answer = () => first.promise;
  write('edge', '0/2');
  await api.written(1);
  state.leads = false;
  state.leads = true;
  store.startedLeading();
  first.resolve({ status: 200, body: { metadata: { resourceVersion: '5' } } });
  await aMoment();
  api.answer = () => ({ status: 200 });
  write('edge', '1/2');
  await api.written(2);
  expect(written()).toEqual(['edge 0/2', 'edge 1/2']);
});

it('writes what is true once, however late the watch is', async () => {
  const { api, evaluate, show, written } = await setUp();
  await evaluate();
  await evaluate();
  expect(written()).toEqual(['edge 0/2']);
  await show('2', api.writes[0]?.body['status']);
  await evaluate();
  expect(written()).toEqual(['edge 0/2']);
});

it('writes it again, over the version that the watch shows, when somebody else wrote', async () => {
  const { api, evaluate, show, written } = await setUp();
  await evaluate();
  const status = api.writes[0]?.body['status'] as object;
  await show('3', { ...status, limiters: '7/7' });
  await evaluate();
  expect(written()).toEqual(['edge 0/2', 'edge 0/2']);
  expect(api.writes[1]?.body['metadata']).toMatchObject({ resourceVersion: '3' });
});

it('waits for the watch after a conflict, and for ten seconds at most', async () => {
  const { api, timers, evaluate, written } = await setUp();
  api.answer = () => ({ status: 409 });
  await evaluate();
  await evaluate();
  expect(written()).toEqual(['edge 0/2']);
  timers.advance(10_000);
  await evaluate();
  expect(written()).toEqual(['edge 0/2', 'edge 0/2']);
});

it('shows a status that is due as written only for the version that it follows from', async () => {
  const { api, store, write, show } = await setUp({ status: 503 });
  write('edge', '0/2');
  await api.written(1);
  expect(store.followed).toMatchObject([{ written: statusOf('0/2'), object: { status: undefined } }]);
  await show('9', undefined);
  expect(store.followed).toMatchObject([{ written: undefined, object: { resourceVersion: '9' } }]);
});
