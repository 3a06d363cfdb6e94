/** Which events of the watches are news at once, also while this process writes statuses. */
import { expect, it, onTestFinished } from 'vitest';
import { defaultClass } from '../../rules/language/kinds.ts';
import { ConfigWrites, configSpec } from '../../test/support/config-object-builder.ts';
import { recordedTelemetry } from '../../test/support/control-plane-telemetry.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { aMoment, ScriptedApi, soon } from '../../test/support/scripted-api.ts';
import type { ApiObject } from '../kubernetes/watch-protocol.ts';
import { KubernetesSource } from './kubernetes-source.ts';

const path = '/apis/ratelimit.weir.dev/v1alpha1/ratelimitconfigs';

const controllerName = 'weir-system/weir';
const status = { observedGeneration: 1, conditions: [], controllerName };

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
  const writes = new ConfigWrites(clock);
  const source = new KubernetesSource({
    client,
    isOwnWrite: (object) => writes.ledger.isOwn(object),
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
    listed: () => reported.push('listed'),
    statusShown: () => reported.push('status shown'),
    changed: () => reported.push('changed'),
    cutOff: () => {},
  });
  await soon(() => expect([reported, api.watched.get(path)]).toEqual([['listed'], 1]));
  reported.length = 0;
  const show = (object: ApiObject, type: 'ADDED' | 'MODIFIED' | 'DELETED' = 'MODIFIED') =>
    api.emit(path, type, object);
  const write = (uid = 'u') => writes.begin({ object: { ...[...source.objects.values()][0]!, uid }, status });
  return { source, reported, show, write };
}

it.each<[string, Traits, Traits]>([
  ['leaves its labels', { version: '1' }, { version: '2', team: 'theirs' }],
  ['gets its labels', { version: '1', team: 'theirs' }, { version: '2' }],
  ['leaves its labels with our status', { version: '1' }, { version: '2', team: 'theirs', controllerName }],
  ['gets its labels with our status', { version: '1', team: 'theirs' }, { version: '2', controllerName }],
  ['changes its spec', { version: '1' }, { version: '2', generation: 2 }],
  ['was created anew', { version: '1' }, { version: '2', uid: 'v' }],
])('an object that %s is news at once, while its status is written', async (_, before, after) => {
  const { reported, show, write } = await setUp(shop(before));
  write();
  show(shop(after));
  await soon(() => expect(reported).toEqual(['changed']));
});

it('a deletion is news at once', async () => {
  const { reported, show, write } = await setUp(shop({ version: '1' }));
  write();
  show(shop({ version: '2' }), 'DELETED');
  await soon(() => expect(reported).toEqual(['changed']));
});

it('its own status is no news, whether the event or the answer comes first', async () => {
  const { reported, show, write } = await setUp(shop({ version: '1' }));
  write()({ is: 'written', version: '2' });
  show(shop({ version: '2', controllerName }));
  await soon(() => expect(reported).toEqual(['status shown']));
  const end = write();
  show(shop({ version: '3', controllerName }));
  await soon(() => expect(reported).toEqual(['status shown', 'status shown']));
  end({ is: 'written', version: '3' });
  expect(reported).toEqual(['status shown', 'status shown']);
});

it('a status that somebody else wrote while its own is on the way is news at once', async () => {
  const { reported, show, write } = await setUp(shop({ version: '1' }));
  write();
  show(shop({ version: '2', controllerName: 'weir-system/other' }));
  await soon(() => expect(reported).toEqual(['changed']));
});

it('a status that somebody else wrote is news', async () => {
  const { reported, show } = await setUp(shop({ version: '1' }));
  show(shop({ version: '2' }));
  await soon(() => expect(reported).toEqual(['changed']));
});

it('what others do to their objects is none, unless the object still bears our name', async () => {
  const { reported, show } = await setUp(shop({ version: '1', team: 'theirs' }));
  show(shop({ version: '2', team: 'theirs', generation: 2 }));
  await aMoment();
  expect(reported).toEqual([]);
  show(shop({ version: '3', team: 'theirs', controllerName }));
  await soon(() => expect(reported).toEqual(['changed']));
});
