/** Which events of the watches change what the source has. */
import { expect, it, onTestFinished } from 'vitest';
import { defaultClass } from '../../rules/language/kinds.ts';
import { configSpec } from '../../test/support/config-object-builder.ts';
import { recordedTelemetry } from '../../test/support/control-plane-telemetry.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { aMoment, ScriptedApi, soon } from '../../test/support/scripted-api.ts';
import type { ApiObject } from '../kubernetes/watch-protocol.ts';
import { KubernetesSource } from './kubernetes-source.ts';

const path = '/apis/ratelimit.weir.dev/v1alpha1/ratelimitconfigs';

const controllerName = 'weir-system/weir';

interface Traits {
  version: string;
  generation?: number;
  team?: string;
  uid?: string;
  controllerName?: string;
}

function shop({ version, generation = 1, team = 'ours', uid = 'u', controllerName }: Traits): ApiObject {
  const metadata = { namespace: 'n', name: 'shop', uid, generation, resourceVersion: version };
  const status = controllerName && { observedGeneration: 1, conditions: [], controllerName };
  return { metadata: { ...metadata, labels: { team } }, spec: configSpec(), ...(status && { status }) };
}

/** A source that selects `team=ours` and has listed this object, if any. */
async function setUp(listed?: ApiObject) {
  const { api, client } = await ScriptedApi.start();
  api.lists.set(path, listed === undefined ? [] : [listed]);
  const timers = new ManualTimers();
  const reported: string[] = [];
  const clock = { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs };
  const source = new KubernetesSource({
    client,
    namespaces: [],
    className: defaultClass,
    labelSelector: 'team=ours',
    controllerName,
    clock,
    timers,
    random: () => 0,
    ...recordedTelemetry(),
  });
  onTestFinished(() => source.close());
  source.start({
    changed: () => reported.push('changed'),
    cutOff: () => {},
  });
  await soon(() => expect([reported, api.watched.get(path)]).toEqual([['changed'], 1]));
  reported.length = 0;
  const show = (object: ApiObject, type: 'ADDED' | 'MODIFIED' | 'DELETED' = 'MODIFIED') =>
    api.emit(path, type, object);
  const seen = () => [...source.objects.values()].map(({ uid, generation }) => `${uid} ${generation}`);
  const left = () => source.left().map(({ uid }) => uid);
  return { reported, show, seen, left };
}

it.each<[string, Traits, Traits, string[], string[]]>([
  ['leaves its labels', { version: '1' }, { version: '2', team: 'theirs' }, [], []],
  ['gets its labels', { version: '1', team: 'theirs' }, { version: '2' }, ['u 1'], []],
  [
    'leaves its labels with our status',
    { version: '1' },
    { version: '2', team: 'theirs', controllerName },
    [],
    ['u'],
  ],
  [
    'gets its labels with our status',
    { version: '1', team: 'theirs' },
    { version: '2', controllerName },
    ['u 1'],
    [],
  ],
  ['changes its spec', { version: '1' }, { version: '2', generation: 2 }, ['u 2'], []],
  ['was created anew', { version: '1' }, { version: '2', uid: 'v' }, ['v 1'], []],
  ['has a new status', { version: '1' }, { version: '2', controllerName }, ['u 1'], []],
])('an object that %s is news at once', async (_, before, after, now, left) => {
  const source = await setUp(shop(before));
  source.show(shop(after));
  await soon(() => expect(source.reported).toEqual(['changed']));
  expect([source.seen(), source.left()]).toEqual([now, left]);
});

it('a deletion is news at once', async () => {
  const { reported, show, seen } = await setUp(shop({ version: '1' }));
  show(shop({ version: '2' }), 'DELETED');
  await soon(() => expect([reported, seen()]).toEqual([['changed'], []]));
});

it('what others do to their objects is none, unless the object still bears our name', async () => {
  const { reported, show } = await setUp(shop({ version: '1', team: 'theirs' }));
  show(shop({ version: '2', team: 'theirs', generation: 2 }));
  await aMoment();
  expect(reported).toEqual([]);
  show(shop({ version: '3', team: 'theirs', controllerName }));
  await soon(() => expect(reported).toEqual(['changed']));
});
