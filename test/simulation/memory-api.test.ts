/** What simulations rely on: the API server in memory answers as the real one does. Each test asks both. */
import { beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { ApiError, ApiRequest, KubernetesApi } from '../../control-plane/kubernetes/api.ts';
import type { ApiObject } from '../../control-plane/kubernetes/watch-protocol.ts';
import { systemTimers } from '../../process/time/clock.ts';
import { installPrerequisites } from '../support/cluster.ts';
import { describeWithOwnApiServer } from '../support/describe-with-api-server.ts';
import { compactEtcd } from '../support/etcd-compaction.ts';
import { eventually } from '../support/eventually.ts';
import { clientOf } from '../support/kubernetes-client.ts';
import { ManualTimers } from '../support/manual-timers.ts';
import { type Fault, kinds, MemoryApi } from './memory-api.ts';
import { MemoryCluster } from './memory-cluster.ts';

const namespace = 'weir-system';
const configs = `/apis/ratelimit.weir.dev/v1alpha1/namespaces/${namespace}/ratelimitconfigs`;
const maps = `/api/v1/namespaces/${namespace}/configmaps`;
const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
const applied = { method: 'PATCH', contentType: 'application/apply-patch+yaml' } as const;
const conditions = (status: string, reason = 'R') => [
  {
    type: 'Accepted',
    status,
    reason,
    message: '',
    lastTransitionTime: '2026-01-01T00:00:00Z',
    observedGeneration: 1,
  },
];

interface Server {
  api: KubernetesApi;
  /** All changes so far. */
  forget(): Promise<void>;
}

let names = 0;

function contract(server: () => Server): void {
  let api: KubernetesApi;
  let name: string;

  beforeEach(() => {
    api = server().api;
    names += 1;
    name = `object-${names}`;
  });

  const ask = (request: ApiRequest) => api.request<ApiObject>(request);
  const failure = (request: ApiRequest): Promise<Pick<ApiError, 'status' | 'reason'>> =>
    api.request(request).then(
      () => {
        throw new Error('it was answered');
      },
      ({ status, reason }: ApiError) => ({ status, reason }),
    );
  const create = (domain = 'shop', labels = {}) =>
    ask({ method: 'POST', path: configs, body: config({ domain, labels }) });
  const config = ({ domain = 'shop', labels = {} }) => ({
    apiVersion: 'ratelimit.weir.dev/v1alpha1',
    kind: 'RateLimitConfig',
    metadata: { name, namespace, labels },
    spec: { domain },
  });
  const applyStatus = (status: object, options: { version?: string | undefined; manager?: string } = {}) =>
    ask({
      ...applied,
      path: `${configs}/${name}/status`,
      query: { fieldManager: options.manager ?? 'weir', force: true },
      body: {
        ...config({}),
        spec: undefined,
        metadata: { name, namespace, resourceVersion: options.version },
        status,
      },
    });
  const mapBody = (data: Record<string, string>) => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace },
    data,
  });
  const applyMap = (data: Record<string, string>, manager = 'one', force = false) =>
    ask({
      ...applied,
      path: `${maps}/${name}`,
      query: { fieldManager: manager, force },
      body: mapBody(data),
    });
  const dataOf = (object: ApiObject) => object['data'];

  /** What a watch says, as `TYPE name` from a version on. */
  async function watch(path: string, resourceVersion: string | undefined, query: ApiRequest['query'] = {}) {
    const reported: { type: string; object: ApiObject }[] = [];
    const stream = await api.stream({ path, query: { watch: true, resourceVersion, ...query } });
    const ended = stream.follow((values) => reported.push(...(values as typeof reported)));
    onTestFinished(() => stream.end());
    return { reported, ended, types: () => reported.map(({ type }) => type) };
  }

  describe('versions', () => {
    it('count changes of the spec, and not those of status and labels', async () => {
      const made = await create();
      expect(made.metadata.generation).toBe(1);
      const withStatus = await applyStatus({ observedGeneration: 1, conditions: conditions('True') });
      expect(withStatus.metadata.generation).toBe(1);
      expect(withStatus.metadata.resourceVersion).not.toBe(made.metadata.resourceVersion);
      const labelled = await ask({
        method: 'PATCH',
        contentType: 'application/merge-patch+json',
        path: `${configs}/${name}`,
        body: { metadata: { labels: { team: 'a' } } },
      });
      expect(labelled.metadata).toMatchObject({ generation: 1, labels: { team: 'a' } });
      const changed = await ask({
        method: 'PUT',
        path: `${configs}/${name}`,
        body: { ...labelled, spec: { domain: 'other' }, status: {} },
      });
      expect(changed.metadata).toMatchObject({ generation: 2, uid: made.metadata.uid });
      expect(changed['status']).toMatchObject({ observedGeneration: 1 });
    });

    it('are rejected if they are not the newest, or missing', async () => {
      const made = await create();
      const old = made.metadata.resourceVersion;
      await applyStatus({ observedGeneration: 1, conditions: [] }, { version: old });
      const path = `${configs}/${name}`;
      const conflict = { status: 409, reason: 'Conflict' };
      expect(await failure({ method: 'PUT', path, body: made })).toEqual(conflict);
      await expect(
        applyStatus({ observedGeneration: 2, conditions: [] }, { version: old }),
      ).rejects.toMatchObject(conflict);
      const preconditions = { resourceVersion: old };
      expect(await failure({ method: 'DELETE', path, body: { preconditions } })).toEqual(conflict);
      const body = { ...made, metadata: { name, namespace } };
      expect(await failure({ method: 'PUT', path, body })).toEqual({ status: 422, reason: 'Invalid' });
    });

    it('stay if nothing changes, and no event is sent', async () => {
      await create();
      const status = { observedGeneration: 1, conditions: conditions('True') };
      const first = await applyStatus(status);
      const { reported } = await watch(configs, first.metadata.resourceVersion);
      const again = await applyStatus(status, { version: first.metadata.resourceVersion });
      expect(again.metadata.resourceVersion).toBe(first.metadata.resourceVersion);
      await applyStatus({ observedGeneration: 1, conditions: conditions('False') });
      await eventually(() => expect(reported.map(({ object }) => object['status'])).toHaveLength(1));
      expect(reported[0]?.object['status']).toMatchObject({ conditions: conditions('False') });
    });

    it('of what there is not: names the mistake', async () => {
      const missing = { status: 404, reason: 'NotFound' };
      expect(await failure({ path: `${configs}/${name}` })).toEqual(missing);
      expect(await failure({ method: 'DELETE', path: `${maps}/${name}` })).toEqual(missing);
      await expect(applyStatus({ observedGeneration: 1, conditions: [] })).rejects.toMatchObject(missing);
      await create();
      await expect(create()).rejects.toMatchObject({ status: 409, reason: 'AlreadyExists' });
    });
  });

  describe('fields', () => {
    it('of a manager go when it applies without them, those of others stay', async () => {
      await applyMap({ a: '1', b: '1' });
      await applyMap({ c: '1' }, 'two');
      expect(dataOf(await applyMap({ b: '2' }))).toEqual({ b: '2', c: '1' });
      expect(dataOf(await applyMap({ c: '1', d: '1' }, 'three'))).toEqual({ b: '2', c: '1', d: '1' });
      // Two have applied it with the same value.
      expect(dataOf(await applyMap({}, 'two'))).toMatchObject({ c: '1' });
    });

    it('of another manager are changed by force alone', async () => {
      await applyMap({ a: '1' });
      await expect(applyMap({ a: '2' }, 'two')).rejects.toMatchObject({ status: 409, reason: 'Conflict' });
      expect(dataOf(await applyMap({ a: '2' }, 'two', true))).toEqual({ a: '2' });
      // The first one has lost it.
      expect(dataOf(await applyMap({ b: '1' }))).toEqual({ a: '2', b: '1' });
    });

    it('of a status are named with their manager, and conditions go by their type', async () => {
      await create();
      await applyStatus({ observedGeneration: 1, conditions: conditions('True') });
      const other = [{ ...conditions('True')[0]!, type: 'Ready' }];
      const { metadata, status } = (await applyStatus({ conditions: other }, { manager: 'two' })) as {
        metadata: ApiObject['metadata'];
        status?: { conditions?: { type: string }[] };
      };
      expect(status?.conditions?.map(({ type }) => type).sort()).toEqual(['Accepted', 'Ready']);
      const writers = metadata.managedFields?.map(({ manager, subresource }) => [manager, subresource]);
      expect(writers).toEqual(
        expect.arrayContaining([
          ['weir', 'status'],
          ['two', 'status'],
        ]),
      );
    });
  });

  describe('lists', () => {
    it('come in pages of one version', async () => {
      const label = `list-${name}`;
      const made = [];
      for (const suffix of ['a', 'b', 'c']) {
        const metadata = { name: `${name}-${suffix}`, namespace, labels: { test: label } };
        made.push(await ask({ method: 'POST', path: maps, body: { metadata } }));
      }
      type Page = { metadata: { continue?: string; resourceVersion: string }; items: ApiObject[] };
      const query = { labelSelector: `test=${label}`, limit: 2 };
      const first = await api.request<Page>({ path: maps, query });
      expect(first.items.map((item) => item.metadata.name)).toEqual([`${name}-a`, `${name}-b`]);
      await ask({ method: 'DELETE', path: `${maps}/${name}-c` });
      const token = first.metadata.continue;
      const second = await api.request<Page>({ path: maps, query: { ...query, continue: token } });
      expect(second.items.map((item) => item.metadata.name)).toEqual([`${name}-c`]);
      expect(second.metadata.resourceVersion).toBe(first.metadata.resourceVersion);
      expect(second.metadata.continue ?? '').toBe('');
    });
  });

  describe('watches', () => {
    it('continue after a version, with what was deleted as it was last', async () => {
      const made = await create('shop', { team: 'a' });
      const from = made.metadata.resourceVersion;
      const changed = await applyStatus({ observedGeneration: 1, conditions: [] });
      const { reported, types } = await watch(configs, from);
      await ask({ method: 'DELETE', path: `${configs}/${name}` });
      await eventually(() => expect(types()).toEqual(['MODIFIED', 'DELETED']));
      const { metadata, status } = reported[1]!.object as ApiObject & { status: unknown };
      expect(status).toEqual({ observedGeneration: 1, conditions: [] });
      expect(metadata.uid).toBe(made.metadata.uid);
      expect(Number(metadata.resourceVersion)).toBeGreaterThan(Number(changed.metadata.resourceVersion));
    });

    it('with a selector say that what left is deleted, with its last state', async () => {
      const label = `watch-${name}`;
      const selector = { labelSelector: `test=${label}` };
      const body = { ...mapBody({ a: '1' }), metadata: { name, namespace, labels: { test: label } } };
      const made = await ask({ method: 'POST', path: maps, body });
      const { reported, types } = await watch(maps, made.metadata.resourceVersion, selector);
      const patch = (change: object) =>
        ask({
          method: 'PATCH',
          contentType: 'application/merge-patch+json',
          path: `${maps}/${name}`,
          body: change,
        });
      await patch({ data: { a: '2' } });
      await patch({ metadata: { labels: { test: 'other' } }, data: { a: '3' } });
      await patch({ metadata: { labels: { test: label } } });
      await eventually(() => expect(types()).toEqual(['MODIFIED', 'DELETED', 'ADDED']));
      expect(reported.map(({ object }) => dataOf(object))).toEqual([{ a: '2' }, { a: '2' }, { a: '3' }]);
    });

    it('end when their time is up', async () => {
      const { ended } = await watch(maps, undefined, { timeoutSeconds: 1 });
      expect(await ended).toBeUndefined();
    });
  });

  it('what is forgotten cannot be gone on with', async () => {
    const label = `old-${name}`;
    for (const suffix of ['a', 'b']) {
      const metadata = { name: `${name}-${suffix}`, namespace, labels: { test: label } };
      await ask({ method: 'POST', path: maps, body: { metadata } });
    }
    const query = { labelSelector: `test=${label}`, limit: 1 };
    const first = await api.request<{ metadata: { continue: string } }>({ path: maps, query });
    const made = await applyMap({ a: '1' });
    await applyMap({ a: '2' });
    await server().forget();
    await applyMap({ a: '3' });
    const more = { path: maps, query: { ...query, continue: first.metadata.continue } };
    expect(await failure(more)).toEqual({ status: 410, reason: 'Expired' });
    const { reported } = await watch(maps, made.metadata.resourceVersion);
    await eventually(() => expect(reported).toHaveLength(1));
    expect(reported[0]).toMatchObject({ type: 'ERROR', object: { code: 410, reason: 'Expired' } });
  });

  it('leases are changed by the replica that has seen them last', async () => {
    const spec = { holderIdentity: 'a', leaseDurationSeconds: 15 };
    const made = await ask({ method: 'POST', path: leases, body: { metadata: { name, namespace }, spec } });
    const path = `${leases}/${name}`;
    const taken = await ask({
      method: 'PUT',
      path,
      body: { ...made, spec: { ...spec, holderIdentity: 'b' } },
    });
    expect(taken['spec']).toMatchObject({ holderIdentity: 'b' });
    expect(await failure({ method: 'PUT', path, body: made })).toEqual({ status: 409, reason: 'Conflict' });
  });
}

describe('the API server in memory', () => {
  const cluster = new MemoryCluster(Date.now);
  const api = new MemoryApi({ cluster, timers: systemTimers, userAgent: 'weir-test', delayMs: 2 });
  contract(() => ({ api, forget: async () => cluster.compact() }));

  describe('with faults', () => {
    let fault: Fault | undefined;
    const timers = new ManualTimers();
    const faulty = new MemoryApi({
      cluster,
      timers,
      userAgent: 'weir-test',
      delayMs: 10,
      fault: () => fault,
      others: ({ path }) => (path === '/openapi/v3' ? { paths: {} } : undefined),
    });
    const post = (name: string) =>
      faulty.request({ method: 'POST', path: maps, body: { metadata: { name, namespace } } });
    /** Lets time pass until the request is settled. */
    async function settled<T>(request: Promise<T>): Promise<PromiseSettledResult<T>> {
      const all = Promise.allSettled([request]);
      for (let turn = 0; turn < 20; turn++) {
        await new Promise(setImmediate);
        timers.advance(5);
      }
      return (await all)[0];
    }
    const has = (name: string): boolean =>
      cluster.list({ kind: mapKind, namespace, labelSelector: '' }).some((map) => map.metadata.name === name);
    const mapKind = kinds.find(({ plural }) => plural === 'configmaps')!;

    it.each([
      ['refused', { refused: { status: 429, reason: 'TooManyRequests', retryAfterSeconds: 2 } }, false, 429],
      ['unreached', { unreached: true }, false, 0],
      ['lost', { lost: true }, true, 0],
    ] as const)('a request that is %s', async (name, given, isDone, status) => {
      fault = given;
      const outcome = await settled(post(`fault-${name}`));
      expect(outcome).toMatchObject({ status: 'rejected', reason: { status } });
      expect(has(`fault-${name}`)).toBe(isDone);
    });

    it('a request that comes twice', async () => {
      fault = { repeated: true };
      expect(await settled(post('fault-twice'))).toMatchObject({ reason: { reason: 'AlreadyExists' } });
      expect(has('fault-twice')).toBe(true);
    });

    it('an answer that takes too long, and one that no caller waits for', async () => {
      fault = { delayMs: 60_000 };
      const late = settled(faulty.request({ path: maps, timeoutMs: 50 }));
      expect(await late).toMatchObject({ status: 'rejected', reason: { reason: 'Timeout' } });
      const controller = new AbortController();
      const given = faulty.request({ path: maps, signal: controller.signal });
      controller.abort();
      await expect(given).rejects.toMatchObject({ reason: 'Aborted' });
    });

    it('a value that is no object', async () => {
      fault = undefined;
      expect(await settled(faulty.request({ path: '/openapi/v3' }))).toMatchObject({ value: { paths: {} } });
      expect(await settled(faulty.request({ path: '/version' }))).toMatchObject({ reason: { status: 404 } });
    });

    it('watches that end within the answer, and say how far they are', async () => {
      fault = undefined;
      const opened = await settled(
        faulty.stream({ path: maps, query: { watch: true, allowWatchBookmarks: true } }),
      );
      if (opened.status === 'rejected') throw opened.reason;
      const reported: unknown[] = [];
      const ended = opened.value.follow((values) => reported.push(...values));
      timers.advance(60_000);
      expect(reported).toEqual([
        { type: 'BOOKMARK', object: { metadata: { resourceVersion: String(cluster.revision) } } },
      ]);
      expect(faulty.watches).toBe(1);
      faulty.close();
      expect(await ended).toMatchObject({ status: 0, reason: 'Unreachable' });
    });
  });
});

describeWithOwnApiServer('the real API server', (server) => {
  let real: KubernetesApi;
  beforeAll(() => installPrerequisites(server()));
  beforeEach(() => {
    real = clientOf(server());
  });
  // Changes that etcd has forgotten are in the server's cache until it ends.
  const forget = async () => {
    await compactEtcd(server().etcdUrl);
    await server().stopServer('SIGTERM');
    await server().startServer();
  };
  contract(() => ({ api: real, forget }));
});
