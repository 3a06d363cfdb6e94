import { randomBytes } from 'node:crypto';
import { beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest';
import type { StoredSpec } from '../../control-plane/model/decision.ts';
import { AcceptedSpecStore } from '../../control-plane/replicas/accepted-spec-store.ts';
import { gzipCodec } from '../../control-plane/replicas/own-objects.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import type { ApiServer } from '../support/api-server.ts';
import { recordedTelemetry, reportTo } from '../support/control-plane-telemetry.ts';
import { describeWithDistantApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { clientOf } from '../support/kubernetes-client.ts';

const namespace = 'weir-system';
const role = 'ratelimit.weir.dev/role=kept-spec';

function store(api: ApiServer, { leads = true } = {}) {
  const reported: string[] = [];
  const state = { leads };
  const specs = new AcceptedSpecStore({
    client: clientOf(api, { user: 'control-plane' }),
    namespace,
    leads: () => state.leads,
    clock: systemClock,
    timers: systemTimers,
    random: Math.random,
    codec: gzipCodec,
    ...recordedTelemetry(reportTo(reported)),
    changed: () => {},
  });
  onTestFinished(() => specs.close());
  return { specs, reported, state };
}

function kept(generation: number, spec: unknown = { domain: 'd' }): StoredSpec {
  return { namespace: 'team', name: 'limits', generation, spec };
}

const names = (api: ApiServer): string[] => api.names('configmaps', { namespace }, role);

describeWithDistantApiServer('stored specs on the API server', (api, network) => {
  beforeAll(() => {
    api().applyFiles('examples/kubernetes/rbac.yaml');
  });
  beforeEach(() => {
    api().delete('configmaps', { namespace }, `?labelSelector=${encodeURIComponent(role)}`);
  });

  it('outlive the process that stored them', async () => {
    const first = store(api());
    expect(await first.specs.load()).toEqual(new Map());
    const wanted = new Map([
      ['u1', kept(3)],
      ['u2', { ...kept(1, { list: [1, 'ü', null] }), name: 'others' }],
    ]);
    first.specs.sync(wanted);
    await eventually(() => expect(first.specs.stored).toEqual(wanted));
    await first.specs.close();
    const second = store(api(), { leads: false });
    expect(await second.specs.load()).toEqual(wanted);
    expect([...first.reported, ...second.reported]).toEqual([]);
  });

  it('are two of one object if limiters that know less get another one', async () => {
    const { specs, reported } = store(api());
    await specs.load();
    const later = { ...kept(3, { domain: 'later' }), fallback: { generation: 1, spec: { domain: 'd' } } };
    for (const wanted of [kept(1), later, kept(1)]) {
      specs.sync(new Map([['u1', wanted]]));
      await eventually(() => expect(specs.stored.get('u1')).toEqual(wanted));
      expect(names(api())).toEqual(['weir-kept-u1']);
    }
    expect(reported).toEqual([]);
  });

  it('are changed and deleted as they are wanted', async () => {
    const { specs } = store(api());
    await specs.load();
    specs.sync(
      new Map([
        ['u1', kept(1)],
        ['u2', kept(1)],
      ]),
    );
    specs.sync(new Map([['u1', kept(2)]]));
    await eventually(() => expect(specs.stored).toEqual(new Map([['u1', kept(2)]])));
    await eventually(() => expect(names(api())).toEqual(['weir-kept-u1']));
    specs.sync(new Map());
    await eventually(() => expect(names(api())).toEqual([]));
  });

  it('are read by all and written by the leader alone', async () => {
    const leader = store(api());
    const other = store(api(), { leads: false });
    await Promise.all([leader.specs.load(), other.specs.load()]);
    leader.specs.sync(new Map([['u1', kept(1)]]));
    await eventually(() => expect(other.specs.stored).toEqual(new Map([['u1', kept(1)]])));
    const path = 'jsonpath={.metadata.uid}';
    const uid = () => api().mustKubectl(['get', 'configmap', 'weir-kept-u1', '-n', namespace, '-o', path]);
    const before = uid();
    other.specs.sync(new Map());
    leader.specs.sync(new Map([['u1', kept(2)]]));
    await eventually(() => expect(other.specs.stored).toEqual(new Map([['u1', kept(2)]])));
    expect(uid()).toBe(before);
    other.state.leads = true;
    leader.state.leads = false;
    other.specs.sync(new Map());
    await eventually(() => expect(leader.specs.stored).toEqual(new Map()));
  });

  it('are written again when somebody deletes them', async () => {
    const { specs } = store(api());
    await specs.load();
    specs.sync(new Map([['u1', kept(1)]]));
    await eventually(() => expect(names(api())).toEqual(['weir-kept-u1']));
    api().delete('configmaps', { name: 'weir-kept-u1', namespace });
    await eventually(() => expect(names(api())).toEqual(['weir-kept-u1']));
  });

  it('are in several ConfigMaps when one is too small', async () => {
    const { specs, reported } = store(api());
    await specs.load();
    const large = kept(1, { text: randomBytes(1_100_000).toString('base64') });
    const wanted = new Map([
      ['u1', large],
      ['u2', kept(1)],
    ]);
    specs.sync(wanted);
    await eventually(() => expect(names(api())).toEqual(['weir-kept-u1', 'weir-kept-u1.2', 'weir-kept-u2']));
    await eventually(() => expect(specs.stored).toEqual(wanted));
    specs.sync(new Map([['u1', kept(2)]]));
    await eventually(() => expect(names(api())).toEqual(['weir-kept-u1']));
    expect(reported).toEqual([]);
  });

  it('fill a ConfigMap to its bound', async () => {
    const { specs, reported } = store(api());
    await specs.load();
    const spec = kept(1, { text: randomBytes(742_000).toString('base64') });
    specs.sync(new Map([['u1', spec]]));
    await eventually(() => expect(specs.stored).toEqual(new Map([['u1', spec]])));
    expect(reported).toEqual([]);
  });

  it('are passed over if they are damaged', async () => {
    const input = JSON.stringify({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'weir-kept-u9', namespace, labels: { 'ratelimit.weir.dev/role': 'kept-spec' } },
      data: { uid: 'u9' },
    });
    api().apply(input);
    const { specs, reported } = store(api());
    expect(await specs.load()).toEqual(new Map());
    expect(reported).toEqual(['Cannot read a stored spec: weir-kept-u9: specs.json is missing']);
  });

  it('are stored once the API server is back', async () => {
    const { specs, reported } = store(api());
    await specs.load();
    await network().refuse();
    specs.sync(new Map([['u1', kept(1)]]));
    await eventually(() =>
      expect(reported.join()).toMatch(/team\/limits: .*connection (refused|reset by peer)/),
    );
    await network().heal();
    await eventually(() => expect(specs.stored).toEqual(new Map([['u1', kept(1)]])), { timeoutMs: 20_000 });
  });
});
