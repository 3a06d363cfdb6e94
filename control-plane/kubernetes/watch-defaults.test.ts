/** What a watch asks for and reports, with its default limits. */
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { aMoment, ScriptedApi, soon } from '../../test/support/scripted-api.ts';
import { ResourceWatch } from './watch.ts';

const path = '/api/v1/things';

let denied: string[];

beforeEach(() => {
  denied = [];
});

/** Until what a timer began has taken its own timer away or set another one. */
const turns = () => new Promise((resolve) => setTimeout(resolve, 5));

/** A watch with its default limits, which has listed nothing and waits for events. */
async function setUp({ labelSelector = '' } = {}) {
  const { api, client } = await ScriptedApi.start({
    denied: ({ verb, resource }, isDenied) => denied.push(`${verb} ${resource} ${isDenied}`),
  });
  const timers = new ManualTimers();
  const reported: string[] = [];
  const watch = new ResourceWatch<string>({
    client,
    resource: { group: '', version: 'v1', plural: 'things', namespace: undefined },
    labelSelector,
    read: ({ metadata: { name } }) => ({ item: name }),
    listener: {
      changed: () => reported.push('changed'),
      unreachable: (reason) => reported.push(reason),
      reachable: () => reported.push('reachable'),
      doubtful: (isDoubtful) => reported.push(`doubtful ${isDoubtful}`),
      skipped: () => {},
    },
    clock: { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs },
    timers,
    random: () => 0,
  });
  onTestFinished(() => watch.close());
  watch.start();
  await soon(() => expect([api.watched.get(path), timers.size]).toEqual([1, 1]));
  reported.length = 0;
  return { api, timers, reported, watch };
}

it('reopens a watch that was silent for 150 s, because its connection may be dead', async () => {
  const { api, timers, reported } = await setUp();
  timers.advance(149_999);
  await aMoment();
  expect(api.watched.get(path)).toBe(1);
  timers.advance(1);
  await soon(() => expect(api.watched.get(path)).toBe(2));
  expect(reported).toEqual([]);
});

it('leaves a watch open that says something', async () => {
  const { api, timers, reported } = await setUp();
  timers.advance(149_000);
  api.emit(path, 'ADDED', { metadata: { name: 'a', resourceVersion: '2' } });
  await soon(() => expect(reported).toEqual(['changed']));
  timers.advance(149_000);
  await aMoment();
  expect(api.watched.get(path)).toBe(1);
});

it('asks for bookmarks, and for objects with the labels alone', async () => {
  const { api } = await setUp({ labelSelector: 'team=a' });
  const query = Object.fromEntries(api.queries.get(path)!);
  expect(query).toEqual({
    watch: 'true',
    allowWatchBookmarks: 'true',
    resourceVersion: '1',
    timeoutSeconds: '300',
    labelSelector: 'team=a',
  });
});

it('is in doubt at once when it is denied, reports it after 30 s, and of its end', async () => {
  const { api, timers, reported } = await setUp();
  api.problems.set(path, 403);
  api.endWatches();
  /** Each attempt is answered before the next one. */
  const wait = async (ms: number) => {
    for (const endMs = timers.nowMs + ms; timers.nowMs < endMs; ) {
      await soon(() => expect(timers.size).toBe(1));
      timers.advance(Math.min(500, endMs - timers.nowMs));
      await turns();
    }
  };
  await wait(20_000);
  expect([reported, denied]).toEqual([['doubtful true'], []]);
  await wait(20_000);
  expect(reported).toEqual(['doubtful true', expect.stringContaining('status 403')]);
  expect(denied).toEqual([expect.stringMatching(/^(?:list|watch) things true$/)]);
  api.problems.clear();
  await wait(10_000);
  await soon(() => expect(reported.slice(2)).toEqual(['changed', 'doubtful false', 'reachable']));
  expect(denied.slice(1)).toEqual([denied[0]!.replace('true', 'false')]);
});

it('does not mention a list that has become too old', async () => {
  const { api, timers, reported } = await setUp();
  api.problems.set(path, 410);
  api.endWatches();
  for (let attempt = 0; attempt < 5; attempt++) {
    await soon(() => expect(timers.size).toBe(1));
    timers.advance(5_000);
    await turns();
  }
  api.problems.clear();
  await soon(() => expect(timers.size).toBe(1));
  timers.advance(5_000);
  await soon(() => expect(reported).toEqual(['changed']));
});
