import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import type { ApiServer } from '../api-server.ts';
import { installPrerequisites } from '../cluster.ts';
import { describeWithPrograms } from '../describe-with-api-server.ts';
import { eventually } from '../eventually.ts';
import { rateLimitConfigText } from '../rate-limit-config.ts';
import { ApiServerPool } from './api-server-pool.ts';
import { ApiServerProcesses } from './api-server-processes.ts';
import { PooledApiServer } from './pooled-api-server.ts';

const patience = 300_000;

const webhook = {
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'ValidatingWebhookConfiguration',
  metadata: { name: 'left' },
  webhooks: [
    {
      name: 'left.example.com',
      clientConfig: { url: 'https://127.0.0.1:1/' },
      rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['*'], resources: ['configmaps'] }],
      failurePolicy: 'Fail',
      sideEffects: 'None',
      admissionReviewVersions: ['v1'],
    },
  ],
};

/** As many kinds of traces as suites leave. */
function leaveTraces(api: ApiServer): void {
  installPrerequisites(api);
  api.apply(rateLimitConfigText({ name: 'left', domain: 'left', requests: 1 }));
  for (const args of [
    ['create', 'namespace', 'left'],
    ['create', 'configmap', 'left', '--from-literal=a=b', '-n', 'left'],
    ['create', 'service', 'clusterip', 'left', '--tcp=80', '--clusterip=10.0.0.77'],
    ['create', 'clusterrolebinding', 'left', '--clusterrole=cluster-admin', '--user=nobody'],
    ['label', 'namespace', 'default', 'left=yes'],
    ['delete', 'clusterrole', 'view'],
  ]) {
    api.mustKubectl(args);
  }
  api.apply(JSON.stringify(webhook));
}

/** What the next suite would see of them. */
function expectNoTraces(api: ApiServer): void {
  const get = (...args: string[]): string => api.mustKubectl(['get', ...args, '-o', 'name']);
  expect(get('crd,validatingwebhookconfiguration,configmap,leases', '--namespace=default')).toBe('');
  // The server itself may have reported that the Service's address was free again.
  expect(get('events', '--namespace=default', '--field-selector=involvedObject.kind!=Service')).toBe('');
  expect(get('namespaces').trim().split('\n')).toEqual(
    ['default', 'kube-node-lease', 'kube-public', 'kube-system'].map((name) => `namespace/${name}`),
  );
  expect(get('namespaces', '-l', 'left=yes')).toBe('');
  expect(get('clusterrole', 'view')).toBe('clusterrole.rbac.authorization.k8s.io/view\n');
  expect(api.kubectl(['auth', 'can-i', 'list', 'secrets'], { user: 'nobody' }).stdout).toBe('no\n');
  expect(api.kubectl(['get', 'rlc']).stderr).toContain('the server doesn\'t have a resource type "rlc"');
  // The address is free again.
  const service = ['service', 'clusterip', 'next', '--tcp=80', '--clusterip=10.0.0.77'];
  api.mustKubectl(['create', ...service, '--dry-run=server']);
}

describeWithPrograms('the API servers of a run', () => {
  const made: ApiServerProcesses[] = [];
  const pool = new ApiServerPool(() => {
    const processes = new ApiServerProcesses();
    made.push(processes);
    return processes;
  });
  beforeAll(() => pool.listen());
  afterAll(() => pool.close());
  const take = (suite: string, kinds = false): Promise<PooledApiServer> =>
    PooledApiServer.take({ suite, kinds }, pool.socketPath);

  it('are handed from suite to suite without a trace', { timeout: patience }, async () => {
    const first = await take('first');
    leaveTraces(first);
    await first.release();
    for (const name of ['second', 'third']) {
      const next = await take(name);
      expect(next.url).toBe(first.url);
      expectNoTraces(next);
      next.mustKubectl(['delete', 'clusterrole', 'view']);
      await next.release();
    }
    expect(pool.counts).toEqual({ servers: 1, suites: 3 });
  });

  it('keep our kinds for suites that want them', { timeout: patience }, async () => {
    const definition = { name: 'ratelimitconfigs.ratelimit.weir.dev' };
    const kindOf = (api: ApiServer) => {
      const { metadata, spec } = api.read('customresourcedefinitions', definition);
      return { uid: metadata.uid, names: spec.names.shortNames };
    };
    const first = await take('first of kinds', true);
    const kind = kindOf(first);
    first.apply(rateLimitConfigText({ name: 'left', domain: 'left', requests: 1 }));
    first.patch('customresourcedefinitions', definition, { spec: { names: { shortNames: ['left'] } } });
    expect(kindOf(first).names).toEqual(['left']);
    await first.release();
    const second = await take('second of kinds', true);
    expect(second.url).toBe(first.url);
    expect(kindOf(second)).toEqual(kind);
    expect(second.names('ratelimitconfigs')).toEqual([]);
    await second.release();
    const third = await take('without', false);
    expectNoTraces(third);
    await third.release();
  });

  it('stand still while no suite has them', { timeout: patience }, async () => {
    const held = await take('before the rest');
    const states = () =>
      made.map(({ pid }) => /\) (\S)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]);
    expect(states()).not.toContain('T');
    await held.release();
    await eventually(() => expect(states()).toEqual(['T']));
  });

  it('fail a suite that leaves a program on them', { timeout: patience }, async () => {
    const held = await take('careless');
    const port = new URL(held.url).port;
    const script = `require('net').connect(${port}, '127.0.0.1', () => console.log('connected'))`;
    const program = spawn('node', ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    onTestFinished(() => void program.kill('SIGKILL'));
    await once(program.stdout, 'data');
    await expect(held.release()).rejects.toThrow(
      `the suite left programs on the API server: ${program.pid} node -e require('net')`,
    );
  });

  it('are two for two suites at a time, and replaced when they have died', {
    timeout: patience,
  }, async () => {
    const [one, other] = await Promise.all([take('one'), take('other')]);
    expect(one.url).not.toBe(other.url);
    const started = pool.counts.servers;
    for (const { place, pid } of made) if (place.url === one.url) process.kill(pid, 'SIGKILL');
    await one.release();
    const next = await take('next');
    expect(next.url).not.toBe(one.url);
    expectNoTraces(next);
    expect(pool.counts.servers).toBe(started + 1);
    await Promise.all([next.release(), other.release()]);
  });
});
