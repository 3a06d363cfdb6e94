import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { temporaryFolder } from '../../test/support/temporary-folder.ts';
import { Cluster, clusterHelp } from './cluster.ts';
import { parseFlags } from './flags.ts';
import { flagsOfHelp } from './help.ts';

interface Answer {
  status?: number;
  body: unknown;
}

/** A cluster whose API server answers so, and the queries that it was asked. */
async function clusterOf(
  answer: (query: URLSearchParams) => Answer,
  ...flags: string[]
): Promise<{ cluster: Cluster; asked: string[] }> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '', 'http://localhost');
    asked.push(`${url.pathname} ${url.search}`);
    const { status = 200, body } = answer(url.searchParams);
    response.writeHead(status).end(JSON.stringify(body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const kubeconfig = join(temporaryFolder(), 'config');
  const { port } = server.address() as AddressInfo;
  const text = `current-context: c
clusters: [{ name: c, cluster: { server: 'http://127.0.0.1:${port}', insecure-skip-tls-verify: true } }]
users: [{ name: c, user: { token: the-secret } }]
contexts: [{ name: c, context: { cluster: c, user: c, namespace: mail } }]
`;
  writeFileSync(kubeconfig, text);
  const cluster = new Cluster(parseFlags(['--kubeconfig', kubeconfig, ...flags], flagsOfHelp(clusterHelp)));
  onTestFinished(() => {
    cluster.close();
    server.closeAllConnections();
    server.close();
  });
  return { cluster, asked };
}

const things = (cluster: Cluster) => cluster.list('things', cluster.namespace, (thing) => thing);
const path = '/apis/ratelimit.weir.dev/v1alpha1/namespaces/mail/things';
const gone = { status: 410, body: { reason: 'Expired', message: 'too old' } };

describe('Cluster', () => {
  it('lists page by page, in the namespace of the context', async () => {
    const { cluster, asked } = await clusterOf((query) =>
      query.has('continue')
        ? { body: { items: [3] } }
        : { body: { metadata: { continue: 'x' }, items: [1, 2] } },
    );
    expect(await things(cluster)).toEqual([1, 2, 3]);
    expect(asked).toEqual([`${path} ?limit=500`, `${path} ?limit=500&continue=x`]);
  });

  it('asks for the labels with every page', async () => {
    const { cluster, asked } = await clusterOf((query) =>
      query.has('continue')
        ? { body: { items: [2] } }
        : { body: { metadata: { continue: 'x' }, items: [1] } },
    );
    await cluster.list('things', cluster.namespace, (thing) => thing, 'team=a');
    expect(asked).toEqual([
      `${path} ?limit=500&labelSelector=team%3Da`,
      `${path} ?limit=500&continue=x&labelSelector=team%3Da`,
    ]);
  });

  it('asks for all at once when the server has dropped the pages', async () => {
    const { cluster, asked } = await clusterOf((query) => {
      if (query.has('continue')) return gone;
      return { body: query.has('limit') ? { metadata: { continue: 'x' }, items: [1] } : { items: [1, 2] } };
    });
    expect(await things(cluster)).toEqual([1, 2]);
    expect(asked.at(-1)).toBe(`${path} `);
    await expect(things((await clusterOf(() => gone)).cluster)).rejects.toThrow('too old');
  });

  it.each([
    [401, 'Unauthorized', /^http:\S+ does not accept these credentials \(GET \S+: Unauthorized\)$/],
    [
      403,
      'no',
      /^the right to "list" on things.ratelimit.weir.dev in namespace mail is missing \(GET \S+: no\)$/,
    ],
    [404, 'nope', /^http:\S+ knows no things of \S+: install the definitions by "kubectl apply -f crds\/"$/],
    [500, 'oh', /^GET \S+: oh$/],
  ])('says of the status %i what to do about it', async (status, message, words) => {
    const { cluster } = await clusterOf(() => ({ status, body: { message } }));
    const error = await things(cluster).catch((reason: Error) => reason);
    expect((error as Error).message).toMatch(words);
    expect((error as Error).message).not.toContain('the-secret');
  });

  it('reports a value that is no list', async () => {
    const { cluster } = await clusterOf(() => ({ body: {} }));
    await expect(things(cluster)).rejects.toThrow(/^http:\S+: the answer is not a list$/);
  });

  it.each([
    [['-n', '../x'], /^--namespace must be a DNS label/],
    [['--timeout', 'soon'], /^--timeout is a duration from 1ms to 10m, such as 30s, not "soon"$/],
    [['--context', 'other'], /: context "other" is not among its contexts$/],
    [['--kubeconfig', '/nowhere'], /^--kubeconfig \/nowhere: no such file$/],
  ])('rejects %j', async (flags, words) => {
    await expect(clusterOf(() => ({ body: {} }), ...flags)).rejects.toThrow(words);
  });

  it('takes a duration for the timeout of each request', async () => {
    const { cluster } = await clusterOf(() => ({ body: { items: [1] } }), '--timeout', '5s');
    expect(await things(cluster)).toEqual([1]);
  });
});
