/** The fleets that a FleetStore creates, and when it tries again. */
import { expect, it, onTestFinished } from 'vitest';
import { recordedTelemetry } from '../../test/support/control-plane-telemetry.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { aMoment, ScriptedApi, soon } from '../../test/support/scripted-api.ts';
import { FleetStore } from './fleet-store.ts';

const path = '/apis/ratelimit.weir.dev/v1alpha1/namespaces/weir-system/ratelimitfleets';

/** A store with a Service for each of these fleets, none of which exists. `status`: the answer to each attempt. */
async function setUp({ services = ['edge'], status = 200 } = {}) {
  const { api, client } = await ScriptedApi.start();
  api.answer = () => ({ status });
  api.lists.set(path, []);
  const timers = new ManualTimers();
  const state = { leads: true };
  const store = new FleetStore({
    ...{ client, timers, namespace: 'weir-system' },
    services: new Map(services.map((name) => [name, [`shop/${name}`]])),
    mayWrite: () => state.leads,
    changed: () => {},
    shown: () => {},
    accessChanged: () => {},
    clock: { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs },
    random: () => 0,
    log: recordedTelemetry().log,
  });
  onTestFinished(() => store.close());
  store.start();
  await soon(() => expect(api.watched.get(path)).toBe(1));
  const created = () => api.writes.map(({ body }) => (body['metadata'] as { name: string }).name);
  return { api, store, state, timers, created };
}

it('creates a fleet for a Service without one, and accepts one that another replica created', async () => {
  const { api, timers } = await setUp({ status: 409 });
  await api.written(1);
  expect(api.writes[0]).toMatchObject({
    method: 'POST',
    path,
    body: { metadata: { name: 'edge' }, spec: { service: { namespace: 'shop', name: 'edge' } } },
  });
  await aMoment();
  timers.advance(120_000);
  await aMoment();
  expect(api.writes).toHaveLength(1);
});

it.each([401, 429, 500, 503])('tries again after %i within half a second', async (status) => {
  const { api, timers, created } = await setUp({ status });
  await api.written(1);
  await soon(() => expect(timers.size).toBe(2));
  api.answer = () => ({ status: 200 });
  timers.advance(500);
  await api.written(2);
  expect(created()).toEqual(['edge', 'edge']);
});

it.each([400, 403, 405, 422])(
  'tries again after %i in 30 s, and creates others meanwhile',
  async (status) => {
    const { api, timers, created } = await setUp({ services: ['edge', 'core'], status });
    await api.written(2);
    expect(created()).toEqual(['edge', 'core']);
    await soon(() => expect(timers.size).toBe(3));
    timers.advance(29_999);
    await aMoment();
    expect(api.writes).toHaveLength(2);
    timers.advance(1);
    await api.written(4);
    expect(created().slice(2).sort()).toEqual(['core', 'edge']);
  },
);

it('creates nothing while another replica leads, and tries again at once when this one leads', async () => {
  const { api, store, state, timers, created } = await setUp({ status: 503 });
  await api.written(1);
  await soon(() => expect(timers.size).toBe(2));
  state.leads = false;
  timers.advance(120_000);
  await aMoment();
  expect(api.writes).toHaveLength(1);
  state.leads = true;
  store.startedLeading();
  await api.written(2);
  expect(created()).toEqual(['edge', 'edge']);
});
