/** What a source says of its objects while some of its watches are out. */
import { expect, it, onTestFinished } from 'vitest';
import { defaultClass } from '../../rules/language/kinds.ts';
import { recordedTelemetry } from '../../test/support/control-plane-telemetry.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { aMoment, ScriptedApi, soon } from '../../test/support/scripted-api.ts';
import { KubernetesSource } from './kubernetes-source.ts';

const root = '/apis/ratelimit.weir.dev/v1alpha1';
const [configs, overrides] = [`${root}/ratelimitconfigs`, `${root}/ratelimitoverrides`];

/** A source that is started, with its two watches, and what it reports. */
async function setUp(problems: [path: string, status: number][] = []) {
  const { api, client } = await ScriptedApi.start();
  for (const [path, status] of problems) api.problems.set(path, status);
  const timers = new ManualTimers();
  const reported: string[] = [];
  const source = new KubernetesSource({
    client,
    namespaces: [],
    className: defaultClass,
    labelSelector: '',
    controllerName: 'weir-system/weir',
    clock: { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs },
    timers,
    random: () => 0,
    ...recordedTelemetry(),
  });
  onTestFinished(() => source.close());
  source.start({
    changed: () => reported.push('changed'),
    cutOff: (isCutOff) => reported.push(isCutOff ? 'cut off' : 'back'),
  });
  /** Both watches take their next step, again and again. */
  const wait = async (ms: number) => {
    for (const endMs = timers.nowMs + ms; timers.nowMs < endMs; ) {
      await soon(() => expect(timers.size).toBe(2));
      timers.advance(Math.min(1_000, endMs - timers.nowMs));
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  return { api, reported, wait };
}

async function listed() {
  const { api, reported, wait } = await setUp();
  await soon(() => expect(reported).toEqual(['changed']));
  await soon(() => expect([api.isWatched(configs), api.isWatched(overrides)]).toEqual([true, true]));
  reported.length = 0;
  const fail = (path: string, status: number) => api.problems.set(path, status);
  return { api, reported, wait, fail };
}

it('objects may be old until every watch is open again', async () => {
  const { api, reported, wait, fail } = await listed();
  fail(configs, 503);
  fail(overrides, 503);
  api.endWatches();
  await wait(3_000);
  expect(reported).toEqual(['cut off', 'cut off']);
  api.problems.delete(configs);
  await wait(10_000);
  expect(reported.filter((line) => line !== 'changed')).toEqual(['cut off', 'cut off']);
  api.problems.delete(overrides);
  await wait(10_000);
  expect(reported.filter((line) => line !== 'changed')).toEqual(['cut off', 'cut off', 'back']);
});

it('objects may be old at once when a watch is denied, and until it is allowed', async () => {
  const { api, reported, wait, fail } = await listed();
  fail(configs, 403);
  fail(overrides, 503);
  api.endWatches();
  await wait(3_000);
  expect(reported).toEqual(['cut off', 'cut off']);
  // The outage ends, the doubt stays.
  api.problems.delete(overrides);
  await wait(10_000);
  expect(reported).not.toContain('back');
  api.problems.delete(configs);
  await wait(10_000);
  expect(reported.at(-1)).toBe('back');
  expect(reported.filter((line) => line === 'back')).toHaveLength(1);
});

it('objects are listed if the definition of overrides is not installed', async () => {
  const { reported } = await setUp([[overrides, 404]]);
  await soon(() => expect(reported).toEqual(['changed']));
});

it.each([503, 403])(
  'objects are current if the definition of overrides is not installed, and the API server answered with %i before',
  async (status) => {
    const { api, reported, wait } = await setUp([[overrides, status]]);
    await soon(() => expect(reported).toContain('cut off'));
    api.problems.set(overrides, 404);
    await wait(20_000);
    expect(reported).toContain('changed');
    expect(reported.findLast((line) => line !== 'changed')).toBe('back');
    // The definition is installed later.
    api.problems.delete(overrides);
    await wait(10_000);
    expect(reported.filter((line) => line !== 'changed')).toEqual(['cut off', 'back']);
  },
);

it.each([configs, overrides])('nothing is listed before all of it is: %s', async (path) => {
  const { reported } = await setUp([[path, 503]]);
  await aMoment();
  expect(reported).not.toContain('changed');
});
