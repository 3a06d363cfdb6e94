import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { ClientTls, type ClientTlsFiles } from '../../limiter/stores/client-tls.ts';
import type { MemcacheStore } from '../../limiter/stores/memcache/memcache-store.ts';
import {
  type CertificatePair,
  createAuthority,
  overwritePair,
  type TestAuthority,
} from '../support/certificates.ts';
import { counterOp, submit, totalOf } from '../support/counter-ops.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { findServer, memcachedProgram, opensslProgram } from '../support/find-server.ts';
import { MemcacheNews, openMemcacheStore } from '../support/memcache-stores.ts';
import { type MemcachedServer, startMemcached } from '../support/memcached-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const openssl = findServer(opensslProgram);

describeWithServer('memcache over TLS', 'path' in openssl ? memcachedProgram : opensslProgram, (path) => {
  const folder = suiteFolder();
  let authority: TestAuthority;
  let stranger: TestAuthority;
  let client: CertificatePair;
  let server: MemcachedServer;
  let misnamed: MemcachedServer;
  let ended: MemcachedServer;
  const servers: MemcachedServer[] = [];

  /** One that takes nobody who shows no certificate of the authority. */
  async function start(name: string, alternativeNames: string, days?: number): Promise<MemcachedServer> {
    const wish = { name, alternativeNames, ...(days === undefined ? {} : { days }) };
    const { certFile, keyFile } = authority.issue(wish);
    const files = [`ssl_chain_cert=${certFile}`, `ssl_key=${keyFile}`, `ssl_ca_cert=${authority.caFile}`];
    const args = ['-Z', '-o', [...files, 'ssl_verify_mode=2'].join()];
    // As root: another user could not read the key.
    const started = await startMemcached({ path, user: 'root', args });
    servers.push(started);
    return started;
  }

  beforeAll(async () => {
    const program = (openssl as { path: string }).path;
    authority = createAuthority(program, folder, 'authority');
    stranger = createAuthority(program, folder, 'stranger');
    client = authority.issue({ name: 'limiter' });
    server = await start('node', 'IP:127.0.0.1');
    misnamed = await start('other', 'DNS:other.example');
    ended = await start('ended', 'IP:127.0.0.1', -1);
  });
  afterAll(() => Promise.all(servers.map((one) => one.stop())));

  function open(
    node: MemcachedServer,
    files: Partial<ClientTlsFiles> = {},
  ): { store: MemcacheStore; news: MemcacheNews } {
    const tls = new ClientTls(
      {
        certPath: client.certFile,
        keyPath: client.keyFile,
        caPath: authority.caFile,
        skipHostnameVerification: false,
        ...files,
      },
      () => {},
    );
    const news = new MemcacheNews();
    const store = openMemcacheStore(node.address, { tls, events: news });
    onTestFinished(() => store.close());
    return { store, news };
  }

  it('counts, known by its certificate', async () => {
    const { store } = open(server);
    const key = randomUUID();
    expect(await totalOf(store, { key, hits: 2 })).toBe(2);
    expect(await totalOf(store, { key, hits: 2 })).toBe(4);
    await store.ping();
  });

  it.each([
    [
      'its name is another',
      () => open(misnamed),
      "Hostname/IP does not match certificate's altnames: IP: 127.0.0.1 is not in the cert's list: ",
    ],
    [
      'nobody known signed it',
      () => open(server, { caPath: '' }),
      'self-signed certificate in certificate chain',
    ],
    ['its certificate has ended', () => open(ended), 'certificate has expired'],
    [
      'its certificate has ended, whatever its name',
      () => open(ended, { skipHostnameVerification: true }),
      'certificate has expired',
    ],
  ])('leaves a node, and lets its keys pass, when %s', async (_, opened, reason) => {
    const { store, news } = opened();
    await eventually(() => expect(store.figures.down).toBe(1));
    expect(news.lines).toEqual([expect.stringMatching(/^127\.0\.0\.1:\d+ down: /)]);
    expect(news.lines[0]?.replace(/^\S+ down: /, '')).toBe(reason);
    const [op] = await submit(store, [counterOp({ key: 'passes', hits: 3 })]);
    expect([op?.after, op?.error]).toEqual([3, undefined]);
    expect(news.lines.slice(1)).toEqual([
      'get: memcached is not connected',
      'Failed to increment passes: memcached is not connected',
    ]);
  });

  it.each([
    ['none', () => ({ certPath: '', keyPath: '' }), /^TLS: .*alert certificate required$/],
    [
      'that of another authority',
      () => {
        const { certFile, keyFile } = stranger.issue({ name: 'foreign' });
        return { certPath: certFile, keyPath: keyFile };
      },
      /^TLS: .*alert unknown ca$/,
    ],
  ])('is rejected by a node that wants its certificate when it shows %s', async (_, files, reason) => {
    const { store, news } = open(server, files());
    await eventually(() => expect(store.figures.down).toBe(1));
    expect(news.lines[0]?.replace(/^\S+ down: /, '')).toMatch(reason);
  });

  it('takes any name when it is asked to', async () => {
    await open(misnamed, { skipHostnameVerification: true }).store.ping();
  });

  it('shows a certificate that was rotated at the next connection, and the last good one until then', async () => {
    const own = await start('rotating', 'IP:127.0.0.1');
    const used = authority.issue({ name: 'rotated' });
    const { store, news } = open(own, { certPath: used.certFile, keyPath: used.keyFile });
    await store.ping();
    const restart = async () => {
      await own.kill('SIGKILL');
      await eventually(() => expect(store.figures.down).toBe(1));
      await own.start();
    };
    writeFileSync(used.keyFile, 'half a key');
    await restart();
    await eventually(() => expect(store.figures.down).toBe(0));
    overwritePair(stranger.issue({ name: 'foreign-rotated' }), used);
    await store.ping();
    const refused = await open(own, { certPath: used.certFile, keyPath: used.keyFile });
    await eventually(() => expect(refused.store.figures.down).toBe(1));
    await restart();
    expect(news.lines.filter((line) => line.endsWith(' up'))).toHaveLength(1);
    overwritePair(client, used);
    await eventually(() => expect([store, refused.store].map(({ figures }) => figures.down)).toEqual([0, 0]));
    const key = randomUUID();
    await totalOf(store, { key });
    await store.ping();
    expect(await totalOf(refused.store, { key })).toBe(2);
  });
});
