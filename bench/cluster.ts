/**
 * `npm run bench:cluster`: runs a control plane on a real API server with etcd. It measures the time from an apply to the first decision
 * under the new rule, and counts the writes when a pod joins a fleet with many objects.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { KubernetesClient } from '../control-plane/kubernetes/client.ts';
import { loadKubernetesConfig } from '../control-plane/kubernetes/client-config.ts';
import type { ApiServer } from '../test/support/api-server.ts';
import {
  createPods,
  installPrerequisites,
  startReplica,
  startXdsLimiter,
  writeEndpoints,
} from '../test/support/cluster.ts';
import { LimiterClient } from '../test/support/limiter-client.ts';
import { startApiServer } from '../test/support/own-api-server.ts';
import { rateLimitConfig } from '../test/support/rate-limit-config.ts';
import { defineFlags, scriptFlags } from '../test/support/script-flags.ts';
import { startWeirLikeClient } from '../test/support/xds-client.ts';

const objectsPath = '/apis/ratelimit.weir.dev/v1alpha1/namespaces/default/ratelimitconfigs';
const namespace = 'weir-system';
const service = 'weir-limiter';
/** Chosen: an API server handles this number of requests in parallel. */
const atOnce = 32;
/** Chosen: by then, the pod is listed, connected and ready, and the resulting writes have ended. */
const joinStepMs = 3_000;

/** Milliseconds from the request to the API server to the first answer under the new limit, ascending. */
export async function applyTimes(
  api: ApiServer,
  kubernetes: KubernetesClient,
  rounds: number,
): Promise<number[]> {
  const replica = await startReplica(api, 'control-plane-0');
  const limiter = await startXdsLimiter(replica.ports.xds, 'limiter-0');
  const asker = new LimiterClient(limiter.ports.grpc);
  const question = { domain: 'shop', descriptors: [{ entries: [{ key: 'key', value: 'v' }] }] };
  const apply = async (requests: number): Promise<number> => {
    const startMs = performance.now();
    await kubernetes.request({
      method: 'PATCH',
      path: `${objectsPath}/shop`,
      query: { fieldManager: 'bench', force: true },
      contentType: 'application/apply-patch+yaml',
      body: rateLimitConfig({ name: 'shop', domain: 'shop', requests }),
    });
    for (;;) {
      const { statuses } = await asker.ask(question);
      if (statuses[0]?.currentLimit?.requestsPerUnit === requests) return performance.now() - startMs;
      await sleep(2);
    }
  };
  try {
    await apply(1_000_000);
    const times: number[] = [];
    for (let round = 1; round <= rounds; round++) {
      // Each run starts at a different moment of the control plane's cycle.
      await sleep((round * 37) % 150);
      times.push(await apply(1_000_000 + round));
    }
    return times.sort((a, b) => a - b);
  } finally {
    asker.close();
    await limiter.stop();
    await replica.stop();
  }
}

/** Returns a quantile of sorted values. */
export function at(part: number, sorted: readonly number[]): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] as number;
}

/** Returns the numbers of changes that the API server accepted, by resource: `ratelimitconfigs/status`. */
function writes(api: ApiServer): Map<string, number> {
  const found = new Map<string, number>();
  for (const line of api.get('/metrics').body.split('\n')) {
    if (!/^apiserver_request_total{code="2.*verb="(APPLY|DELETE|PATCH|POST|PUT)"/.test(line)) continue;
    const [, resource, subresource] = /resource="([^"]*)".*subresource="([^"]*)"/.exec(line) ?? [];
    const name = subresource === '' ? `${resource}` : `${resource}/${subresource}`;
    found.set(name, (found.get(name) ?? 0) + Number(line.slice(line.lastIndexOf(' '))));
  }
  return found;
}

const objectStatuses = 'ratelimitconfigs/status';

/** Counts the writes while a pod joins a fleet with this number of objects, without regular writes and writes of this program. */
async function joinWrites(
  api: ApiServer,
  kubernetes: KubernetesClient,
  objects: number,
): Promise<Map<string, number>> {
  const names = Array.from({ length: objects }, (_, index) => `config-${index}`);
  const create = async (): Promise<void> => {
    for (let name = names.pop(); name !== undefined; name = names.pop()) {
      const body = rateLimitConfig({ name, domain: name, requests: 10 });
      await kubernetes.request({ method: 'POST', path: objectsPath, body });
    }
  };
  await Promise.all(Array.from({ length: atOnce }, create));
  const uids = createPods(api, ['lim-0', 'lim-1']);
  writeEndpoints(api, { service, uids, ready: ['lim-0'] });
  const replica = await startReplica(api, 'control-plane-1', {
    FLEET_SERVICES: `default=${namespace}/${service}`,
    XDS_CLIENT_FLEETS: `system:serviceaccount:${namespace}:limiter=default`,
    STATUS_WRITES_PER_SECOND: '1000',
  });
  const connect = (pod: string) => {
    const token = api.accountToken('limiter', { namespace, audience: 'weir-control-plane', pod });
    return startWeirLikeClient({ port: replica.ports.xds, pod, authorization: () => `Bearer ${token}` });
  };
  const clients = [await connect('lim-0')];
  try {
    await untilQuiet(api, objects);
    const before = writes(api);
    writeEndpoints(api, { service, uids, ready: ['lim-0'], unready: ['lim-1'] });
    await sleep(joinStepMs);
    clients.push(await connect('lim-1'));
    await sleep(joinStepMs);
    writeEndpoints(api, { service, uids, ready: ['lim-0', 'lim-1'] });
    await sleep(joinStepMs);
    const after = writes(api);
    return new Map([...after].map(([name, count]) => [name, count - (before.get(name) ?? 0)]));
  } finally {
    for (const client of clients) client.close();
    await replica.stop();
  }
}

/** Waits until every object has its status, and no status has been written for a while. */
async function untilQuiet(api: ApiServer, objects: number): Promise<void> {
  for (let last = -1; ; ) {
    await sleep(5_000);
    const written = writes(api).get(objectStatuses) ?? 0;
    if (written >= objects && written === last) return;
    last = written;
  }
}

async function run(): Promise<void> {
  const { applies, objects, json } = scriptFlags(
    defineFlags({
      help: `Usage: npm run bench:cluster -- [--applies <n>] [--objects <n>] [--json]

Measures a control plane on a real API server with etcd.

  --applies <n>  the number of applied changes, from 1 on (default 500)
  --objects <n>  the number of objects of the fleet that a pod joins, from 1 on (default 5000)
  --json         prints the figures as JSON
`,
      rows: {
        applies: { type: 'number', min: 1, max: 1_000_000, whole: true, default: 500 },
        objects: { type: 'number', min: 1, max: 1_000_000, whole: true, default: 5000 },
        json: { type: 'boolean' },
      },
    }),
  );
  const api = await startApiServer();
  const config = loadKubernetesConfig({ kubeconfig: api.kubeconfig() });
  const kubernetes = new KubernetesClient({ config, userAgent: 'weir-bench' });
  try {
    installPrerequisites(api);
    const times = await applyTimes(api, kubernetes, applies);
    const [p50, p99] = [at(0.5, times), at(0.99, times)];
    const joined = await joinWrites(api, kubernetes, objects);
    const count = (name: string): number => joined.get(name) ?? 0;
    const statuses = count(objectStatuses) + count('ratelimitfleets/status');
    const reports = count('configmaps');
    if (json) {
      console.log(JSON.stringify({ applies, p50, p99, objects, statuses, reports }));
      return;
    }
    const ms = (value: number): string => `${value.toFixed(0)} ms`;
    console.log(
      `apply to the first decision, ${applies} times: p50 ${ms(p50)}, p99 ${ms(p99)}, wanted below 100`,
    );
    console.log(`a pod joins ${objects} objects: ${statuses} writes of statuses, wanted at most 2`);
    console.log(`  and ${reports} of what replicas send each other`);
  } finally {
    kubernetes.close();
    await api.stop();
  }
}

if (import.meta.main) await run();
