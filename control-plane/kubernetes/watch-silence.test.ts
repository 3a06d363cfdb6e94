import { expect, it, onTestFinished } from 'vitest';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { aMoment, ScriptedApi, soon } from '../../test/support/scripted-api.ts';
import { ResourceWatch } from './watch.ts';

const path = '/api/v1/things';

/** A watch with its default limits, which has listed nothing and waits for events. */
async function setUp() {
  const { api, client } = await ScriptedApi.start();
  const timers = new ManualTimers();
  const told: string[] = [];
  const watch = new ResourceWatch<string>({
    client,
    resource: { group: '', version: 'v1', plural: 'things', namespace: undefined },
    read: ({ metadata: { name } }) => ({ item: name }),
    listener: {
      listed: () => told.push('listed'),
      changed: () => told.push('changed'),
      unreachable: (reason) => told.push(reason),
      reachable: () => told.push('reachable'),
      skipped: () => {},
    },
    clock: { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs },
    timers,
    random: () => 0,
  });
  onTestFinished(() => watch.close());
  watch.start();
  await soon(() => expect([api.watched.get(path), timers.size]).toEqual([1, 1]));
  return { api, timers, told, watch };
}

it('opens a watch anew that was silent for 150 s, since its connection may be dead', async () => {
  const { api, timers, told } = await setUp();
  timers.advance(149_999);
  await aMoment();
  expect(api.watched.get(path)).toBe(1);
  timers.advance(1);
  await soon(() => expect(api.watched.get(path)).toBe(2));
  expect(told).toEqual(['listed']);
});

it('leaves a watch open that says something', async () => {
  const { api, timers, told } = await setUp();
  timers.advance(149_000);
  api.emit(path, 'ADDED', { metadata: { name: 'a', resourceVersion: '2' } });
  await soon(() => expect(told).toEqual(['listed', 'changed']));
  timers.advance(149_000);
  await aMoment();
  expect(api.watched.get(path)).toBe(1);
});
