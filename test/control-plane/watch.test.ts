import { beforeEach, expect, it, onTestFinished } from 'vitest';
import type { ApiRequest } from '../../control-plane/kubernetes/api.ts';
import { KubernetesClient } from '../../control-plane/kubernetes/client.ts';
import { ResourceWatch, type ResourceWatchOptions } from '../../control-plane/kubernetes/watch.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { describeWithOwnApiServer } from '../support/describe-with-api-server.ts';
import { compactEtcd } from '../support/etcd-compaction.ts';
import { eventually } from '../support/eventually.ts';
import { clientOf } from '../support/kubernetes-client.ts';
import type { OwnApiServer } from '../support/own-api-server.ts';

type Options = Partial<ResourceWatchOptions<string>>;

/** Watches the value of `data.v` of ConfigMaps in the namespace; `reported` is what the listener was sent, `changed` apart. */
function startWatch(client: KubernetesClient, namespace: string | undefined, options: Options = {}) {
  const reported: string[] = [];
  const watch = new ResourceWatch<string>({
    client,
    resource: { group: '', version: 'v1', plural: 'configmaps', namespace },
    labelSelector: 'test=watch',
    read: (object) => ({ item: String((object['data'] as { v?: string } | undefined)?.v) }),
    listener: {
      changed: () => {
        if (reported.length === 0) reported.push('listed');
      },
      unreachable: (reason) => reported.push(`unreachable: ${reason}`),
      reachable: () => reported.push('reachable'),
      skipped: (key, reason) => reported.push(`skipped ${key}: ${reason}`),
    },
    clock: systemClock,
    timers: systemTimers,
    random: Math.random,
    ...options,
  });
  watch.start();
  onTestFinished(() => watch.close());
  return { watch, reported };
}

const mapsOf = (namespace: string) => `/api/v1/namespaces/${namespace}/configmaps`;

async function createMap(client: KubernetesClient, namespace: string, name: string, v = '1'): Promise<void> {
  const body = { metadata: { name, labels: { test: 'watch' } }, data: { v } };
  await client.request({ method: 'POST', path: mapsOf(namespace), body });
}

async function changeMap(
  client: KubernetesClient,
  namespace: string,
  name: string,
  v: string,
): Promise<void> {
  await client.request({
    method: 'PATCH',
    path: `${mapsOf(namespace)}/${name}`,
    body: { data: { v } },
    contentType: 'application/merge-patch+json',
  });
}

async function deleteMap(client: KubernetesClient, namespace: string, name: string): Promise<void> {
  await client.request({ method: 'DELETE', path: `${mapsOf(namespace)}/${name}` });
}

async function createMaps(client: KubernetesClient, namespace: string, count: number): Promise<void> {
  const names = Array.from({ length: count }, (_, index) => `map-${index}`);
  for (let start = 0; start < count; start += 50) {
    await Promise.all(names.slice(start, start + 50).map((name) => createMap(client, namespace, name)));
  }
}

/** Counts lists and watches, and does something between the first two pages. */
class CountingClient extends KubernetesClient {
  lists: ApiRequest[] = [];
  watches = 0;
  beforeSecondPage: (() => Promise<void>) | undefined;

  override async request<T>(request: ApiRequest): Promise<T> {
    if (request.query !== undefined && 'limit' in request.query) {
      this.lists.push(request);
      if (this.lists.length === 2) await this.beforeSecondPage?.();
    }
    return super.request<T>(request);
  }

  override stream(request: ApiRequest): ReturnType<KubernetesClient['stream']> {
    this.watches++;
    return super.stream(request);
  }
}

describeWithOwnApiServer('ResourceWatch', (server) => {
  let api: OwnApiServer;
  let client: KubernetesClient;
  let namespace: string;
  let count = 0;

  beforeEach(async () => {
    api = server();
    client = clientOf(api);
    namespace = `watch-${++count}`;
    await client.request({
      method: 'POST',
      path: '/api/v1/namespaces',
      body: { metadata: { name: namespace } },
    });
  });

  it('lists many objects page by page, then follows changes', async () => {
    await createMaps(client, namespace, 1100);
    const counting = clientOf(api, { Client: CountingClient }) as CountingClient;
    const { watch, reported } = startWatch(counting, namespace, { limits: { pageSize: 100 } });
    await eventually(() => expect(reported).toEqual(['listed']));
    expect(watch.items.size).toBe(1100);
    expect(counting.lists.map(({ query }) => query?.['limit'])).toEqual(Array(11).fill(100));

    await createMap(client, namespace, 'new');
    await changeMap(client, namespace, 'map-7', 'changed');
    await deleteMap(client, namespace, 'map-8');
    await eventually(() => {
      expect(watch.items.get(`${namespace}/new`)).toBe('1');
      expect(watch.items.get(`${namespace}/map-7`)).toBe('changed');
      expect(watch.items.has(`${namespace}/map-8`)).toBe(false);
    });
    expect(watch.items.size).toBe(1100);
    expect(reported).toEqual(['listed']);
  });

  it('continues after a watch ended without listing again', async () => {
    const counting = clientOf(api, { Client: CountingClient }) as CountingClient;
    const { watch, reported } = startWatch(counting, namespace, { limits: { watchSeconds: 1 } });
    await eventually(() => expect(reported).toEqual(['listed']));
    for (let index = 0; index < 25; index++) {
      await createMap(client, namespace, `map-${index}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    await eventually(() => expect(watch.items.size).toBe(25));
    expect(counting.lists.length).toBe(1);
    expect(reported).toEqual(['listed']);
  });

  it('opens a silent watch again', async () => {
    const counting = clientOf(api, { Client: CountingClient }) as CountingClient;
    const limits = { idleTimeoutMs: 100, firstDelayMs: 10, maxDelayMs: 20 };
    const { watch, reported } = startWatch(counting, namespace, { limits });
    await eventually(() => expect(counting.watches).toBeGreaterThan(3));
    await createMap(client, namespace, 'a');
    await eventually(() => expect(watch.items.size).toBe(1));
    expect(counting.lists.length).toBe(1);
    expect(reported).toEqual(['listed']);
  });

  it('lists in one piece when its pages became too old', async () => {
    await createMaps(client, namespace, 30);
    const counting = clientOf(api, { Client: CountingClient }) as CountingClient;
    counting.beforeSecondPage = async () => {
      await createMap(client, namespace, 'late');
      await deleteMap(client, namespace, 'map-0');
      await compactEtcd(api.etcdUrl);
      // A server that goes on has the pages of this version in its cache.
      await api.stopServer();
      await api.startServer();
    };
    const { watch, reported } = startWatch(counting, namespace, { limits: { pageSize: 10 } });
    await eventually(() => expect(reported).toEqual(['listed']));
    expect(counting.lists.map(({ query }) => query?.['limit'])).toEqual([10, 10, undefined]);
    expect(watch.items.size).toBe(30);
    expect(watch.items.has(`${namespace}/late`)).toBe(true);
  });

  it('keeps its objects while the server is away, reports it once, and catches up', async () => {
    await createMaps(client, namespace, 3);
    const counting = clientOf(api, { Client: CountingClient }) as CountingClient;
    const { watch, reported } = startWatch(counting, namespace, { limits: { maxDelayMs: 300 } });
    await eventually(() => expect(reported).toEqual(['listed']));
    await api.stopServer('SIGKILL');
    await eventually(() => expect(reported.length).toBe(2));
    await new Promise((resolve) => setTimeout(resolve, 1000));
    // The open watch may hear of the end before the next request is rejected.
    expect(reported).toEqual([
      'listed',
      expect.stringMatching(/^unreachable: https:.*: connection (refused|reset by peer)$/),
    ]);
    expect(watch.items.size).toBe(3);

    // Everything that happened meanwhile is too old to be resumed from.
    await compactEtcd(api.etcdUrl);
    await api.startServer();
    await deleteMap(client, namespace, 'map-0');
    await changeMap(client, namespace, 'map-1', 'changed');
    await createMap(client, namespace, 'new');
    await eventually(() => {
      expect(Object.fromEntries(watch.items)).toEqual({
        [`${namespace}/map-1`]: 'changed',
        [`${namespace}/map-2`]: '1',
        [`${namespace}/new`]: '1',
      });
    });
    await eventually(() => expect(reported.at(-1)).toBe('reachable'));
    expect(reported.length).toBe(3);
    expect(counting.lists.length).toBe(2);
  });

  it('sees an object go that stops to match', async () => {
    await createMaps(client, namespace, 2);
    const { watch, reported } = startWatch(client, namespace);
    await eventually(() => expect(reported).toEqual(['listed']));
    await client.request({
      method: 'PATCH',
      path: `${mapsOf(namespace)}/map-0`,
      body: { metadata: { labels: { test: 'other' } } },
      contentType: 'application/merge-patch+json',
    });
    await eventually(() => expect([...watch.items.keys()]).toEqual([`${namespace}/map-1`]));
  });

  it('names the permission that is missing', async () => {
    const { reported } = startWatch(clientOf(api, { user: 'nobody' }), namespace, {
      limits: { deniedPatienceMs: 0 },
    });
    await eventually(() => expect(reported.length).toBe(1));
    expect(reported).toEqual([
      `unreachable: GET ${mapsOf(namespace)}: configmaps is forbidden: User "nobody" cannot list resource "configmaps" in API group "" in the namespace "${namespace}"`,
    ]);
  });
});
