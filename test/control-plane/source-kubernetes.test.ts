import { fileURLToPath } from 'node:url';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import type { KubernetesClient } from '../../control-plane/kubernetes/client.ts';
import { KubernetesSource } from '../../control-plane/source/kubernetes-source.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import type { ApiServer } from '../support/api-server.ts';
import { awaitCrds } from '../support/cluster.ts';
import { recordedTelemetry, reportTo } from '../support/control-plane-telemetry.ts';
import {
  describeWithBareApiServer,
  describeWithDistantApiServer,
} from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { clientOf } from '../support/kubernetes-client.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';

const crds = fileURLToPath(new URL('../../crds', import.meta.url));
const lostFirst = 'Cannot watch RateLimitConfigs: limiters get no rules until the first list is read: ';
const found = 'Watching RateLimitConfigs again';
const missingKind = `${lostFirst}the Kubernetes API has no ratelimitconfigs of ratelimit.weir.dev/v1alpha1: is the CustomResourceDefinition installed?`;
const noOverrides =
  'RateLimitOverrides are not watched: the Kubernetes API has no ratelimitoverrides of ratelimit.weir.dev/v1alpha1: is the CustomResourceDefinition installed?';
const listed = (count: number) => `Read the first complete list of RateLimitConfigs: ${count}`;

function startSource(
  client: KubernetesClient,
  options: { namespaces?: string[]; labelSelector?: string; className?: string } = {},
) {
  const { namespaces = [], labelSelector = '', className = 'weir' } = options;
  const reported: string[] = [];
  const counts = { changed: 0 };
  const source = new KubernetesSource({
    ...recordedTelemetry(reportTo(reported)),
    client,
    namespaces,
    className,
    labelSelector,
    controllerName: 'weir-system/this',
    clock: systemClock,
    timers: systemTimers,
    random: Math.random,
    limits: { maxDelayMs: 300, deniedPatienceMs: 0 },
  });
  source.start({
    changed: () => counts.changed++,
    cutOff: () => {},
  });
  onTestFinished(() => source.close());
  const names = () =>
    [...source.objects.values()].map(({ namespace, name }) => `${namespace}/${name}`).sort();
  const left = () => source.left().map(({ name }) => name);
  return { source, reported, names, counts, left };
}

function installKind(api: ApiServer): void {
  api.mustKubectl(['apply', '-f', crds]);
  awaitCrds(api);
}

function apply(api: ApiServer, namespace: string, name: string, requests = 1): void {
  const input = rateLimitConfigText({ namespace, name, domain: `${namespace}-${name}`, requests });
  api.apply(input);
}

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describeWithBareApiServer('KubernetesSource before its kind is installed', (api) => {
  it('is not listed and says so once, until the definition is there', async () => {
    const { reported, names } = startSource(clientOf(api()));
    await eventually(() => expect(reported.toSorted()).toEqual([missingKind, noOverrides]));
    await wait(1000);
    expect(reported.length).toBe(2);
    installKind(api());
    await eventually(() => expect(reported.slice(2)).toEqual([listed(0), found]));
    apply(api(), 'default', 'first');
    await eventually(() => expect(names()).toEqual(['default/first']));
  });
});

describeWithDistantApiServer('KubernetesSource', (server, network) => {
  let api: ApiServer;
  let one: string;
  let two: string;
  let count = 0;

  beforeEach(() => {
    api = server();
    count++;
    [one, two] = [`one-${count}`, `two-${count}`];
    for (const namespace of [one, two]) api.createNamespace(namespace);
  });

  it('gives objects as their spec, generation, age and status are', async () => {
    apply(api, one, 'a');
    const { source, reported } = startSource(clientOf(api), { namespaces: [one] });
    await eventually(() => expect(reported).toEqual([listed(1)]));
    const [object] = source.objects.values();
    expect(object).toMatchObject({ namespace: one, name: 'a', generation: 1, status: undefined });
    expect(object?.spec).toMatchObject({ domain: `${one}-a`, descriptors: [{ key: 'key' }] });
    expect(Math.abs(Date.now() - (object?.createdMs ?? 0))).toBeLessThan(60_000);

    apply(api, one, 'a', 2);
    await eventually(() => expect([...source.objects.values()][0]?.generation).toBe(2));
    const status = { observedGeneration: 2, domain: 'd', conditions: [] };
    const path = `/apis/ratelimit.weir.dev/v1alpha1/namespaces/${one}/ratelimitconfigs/a/status`;
    await clientOf(api).request({
      method: 'PATCH',
      path,
      body: { status },
      contentType: 'application/merge-patch+json',
    });
    await eventually(() => expect([...source.objects.values()][0]).toMatchObject({ generation: 2, status }));
  });

  it('gives an object that was recreated another uid', async () => {
    apply(api, one, 'a');
    const { source, reported } = startSource(clientOf(api), { namespaces: [one] });
    await eventually(() => expect(reported).toEqual([listed(1)]));
    const uid = [...source.objects.values()][0]?.uid;
    api.delete('ratelimitconfigs', { name: 'a', namespace: one });
    await eventually(() => expect([...source.objects.values()]).toEqual([]));
    apply(api, one, 'a');
    await eventually(() => expect(source.objects.size).toBe(1));
    expect([...source.objects.values()][0]?.uid).not.toBe(uid);
  });

  it('sees all namespaces, or those that were named', async () => {
    apply(api, one, 'a');
    apply(api, two, 'b');
    const all = startSource(clientOf(api));
    const named = startSource(clientOf(api), { namespaces: [two, two] });
    await eventually(() => expect(all.names()).toEqual(expect.arrayContaining([`${one}/a`, `${two}/b`])));
    await eventually(() => expect(named.reported).toEqual([listed(1)]));
    expect(named.names()).toEqual([`${two}/b`]);
  });

  it('is listed only when every namespace is', async () => {
    apply(api, one, 'a');
    api.mustKubectl([
      'create',
      'role',
      'reader',
      '-n',
      one,
      '--verb=list,watch',
      '--resource=ratelimitconfigs,ratelimitoverrides',
    ]);
    const bind = (namespace: string) =>
      api.mustKubectl(['create', 'rolebinding', 'reader', '-n', namespace, '--role=reader', '--user=nobody']);
    bind(one);
    const { reported, names } = startSource(clientOf(api, { user: 'nobody' }), { namespaces: [one, two] });
    await eventually(() => expect(reported.length).toBe(2));
    expect(reported.toSorted()).toEqual(
      ['ratelimitconfigs', 'ratelimitoverrides'].map(
        (kind) =>
          `${lostFirst}GET /apis/ratelimit.weir.dev/v1alpha1/namespaces/${two}/${kind}: ${kind}.ratelimit.weir.dev is forbidden: User "nobody" cannot list resource "${kind}" in API group "ratelimit.weir.dev" in the namespace "${two}"`,
      ),
    );
    await wait(500);
    expect(reported.length).toBe(2);
    expect(names()).toEqual([]);
    api.mustKubectl([
      'create',
      'role',
      'reader',
      '-n',
      two,
      '--verb=list,watch',
      '--resource=ratelimitconfigs,ratelimitoverrides',
    ]);
    bind(two);
    await eventually(() => expect(reported.slice(2)).toEqual([listed(1), found]));
    expect(names()).toEqual([`${one}/a`]);
  });

  it('follows the label selector', async () => {
    for (const name of ['a', 'b']) apply(api, one, name);
    api.patch('ratelimitconfigs', { name: 'a', namespace: one }, { metadata: { labels: { tier: 'gold' } } });
    const { reported, names, left, counts } = startSource(clientOf(api), {
      namespaces: [one],
      labelSelector: 'tier in (gold)',
    });
    await eventually(() => expect(reported).toEqual([listed(1)]));
    api.patch('ratelimitconfigs', { name: 'b', namespace: one }, { metadata: { labels: { tier: 'gold' } } });
    await eventually(() => expect(names()).toEqual([`${one}/a`, `${one}/b`]));
    api.patch('ratelimitconfigs', { name: 'a', namespace: one }, { metadata: { labels: { tier: null } } });
    await eventually(() => expect(names()).toEqual([`${one}/b`]));
    // No status of it bears our name.
    expect(left()).toEqual([]);
    const { changed } = counts;
    api.patch(
      'ratelimitconfigs',
      { name: 'a', namespace: one },
      { metadata: { labels: { tier: 'silver' } } },
    );
    await wait(500);
    expect(counts.changed).toBe(changed);
  });

  it('gives objects of its class, and distinguishes what left it with its name', async () => {
    for (const [name, className] of [
      ['a', 'weir'],
      ['b', 'edge'],
      ['c', undefined],
    ] as const) {
      const input = rateLimitConfigText({ namespace: one, name, className, domain: name, requests: 1 });
      api.apply(input);
    }
    const { source, reported, names, left } = startSource(clientOf(api), { namespaces: [one] });
    await eventually(() => expect(reported).toEqual([listed(2)]));
    expect(names()).toEqual([`${one}/a`, `${one}/c`]);
    for (const name of ['a', 'b']) {
      const status = JSON.stringify({
        status: { controllerName: 'weir-system/this', observedGeneration: 1, conditions: [] },
      });
      const merge = ['--subresource=status', '--type=merge', '-p', status];
      api.mustKubectl(['patch', 'rlc', name, '-n', one, ...merge]);
    }
    await eventually(() => expect(left()).toEqual(['b']));
    const [a] = source.objects.values();
    const patch = '{"spec":{"className":"edge"}}';
    api.mustKubectl(['patch', 'rlc', 'a', '-n', one, '--type=merge', '-p', patch]);
    await eventually(() => expect(left().sort()).toEqual(['a', 'b']));
    expect(names()).toEqual([`${one}/c`]);
    expect(source.objects.get(a!.uid)).toBeUndefined();
    expect(source.left()[0]?.spec).toBeUndefined();
  });

  it('keeps its objects while the server is away, says so once for all namespaces, and catches up', {
    timeout: 120_000,
  }, async () => {
    apply(api, one, 'a');
    apply(api, two, 'b');
    const { source, reported, names } = startSource(clientOf(api), { namespaces: [one, two] });
    await eventually(() => expect(reported).toEqual([listed(2)]));
    await network().refuse();
    // Servers that start beside others, and waits between tries that grow, take their time.
    const patience = { timeoutMs: 40_000 };
    await eventually(
      () =>
        expect(reported.slice(1)).toEqual([
          expect.stringMatching(
            /^Cannot watch RateLimitConfigs: objects that are known are still served: https:.*: connection (refused|reset by peer)$/,
          ),
        ]),
      patience,
    );
    expect(names()).toEqual([`${one}/a`, `${two}/b`]);
    await network().heal();
    apply(api, one, 'a', 5);
    api.delete('ratelimitconfigs', { name: 'b', namespace: two });
    await eventually(() => expect(names()).toEqual([`${one}/a`]), patience);
    await eventually(() => expect([...source.objects.values()][0]?.generation).toBe(2), patience);
    await eventually(() => expect(reported.slice(2)).toEqual([found]), patience);
  });
});
