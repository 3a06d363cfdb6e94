import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { ClientTls, type ClientTlsFiles } from '../../limiter/stores/client-tls.ts';
import { RedisStore } from '../../limiter/stores/redis/redis-store.ts';
import { parseSentinelAddress } from '../../limiter/stores/redis/wire/redis-address.ts';
import {
  type CertificatePair,
  createAuthority,
  overwritePair,
  type TestAuthority,
} from '../support/certificates.ts';
import { ChildProgram } from '../support/child-program.ts';
import { totalOf } from '../support/counter-ops.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { findServer, opensslProgram, redisProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { connectStore, newRedisStore, openRedisStore } from '../support/redis-stores.ts';
import { type RedisTlsServer, startRedisTls } from '../support/redis-tls-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { closedStoreSuite, counterStoreSuite } from './counter-store.suite.ts';

const openssl = findServer(opensslProgram);

describeWithServer('RedisStore over TLS', 'path' in openssl ? redisProgram : opensslProgram, (path) => {
  const folder = suiteFolder();
  let authority: TestAuthority;
  let stranger: TestAuthority;
  let client: CertificatePair;
  let foreignClient: CertificatePair;
  /** One that asks nobody for a certificate, and one that does. */
  let open: RedisTlsServer;
  let closed: RedisTlsServer;
  const others: RedisTlsServer[] = [];

  beforeAll(async () => {
    const program = (openssl as { path: string }).path;
    authority = createAuthority(program, folder, 'authority');
    stranger = createAuthority(program, folder, 'stranger');
    const pair = authority.issue({ name: 'server', alternativeNames: 'IP:127.0.0.1' });
    client = authority.issue({ name: 'client' });
    foreignClient = stranger.issue({ name: 'foreign' });
    open = await startRedisTls({ path, authority, pair });
    closed = await startRedisTls({ path, authority, pair, needsClient: true });
  });
  afterAll(() => Promise.all([open, closed, ...others].map(({ server }) => server.stop())));

  const tls = (files: Partial<ClientTlsFiles> = {}) =>
    new ClientTls(
      { certPath: '', keyPath: '', caPath: authority.caFile, skipHostnameVerification: false, ...files },
      () => {},
    );

  /** A server with a certificate that something is wrong with. */
  async function serverWith(pair: CertificatePair): Promise<RedisTlsServer> {
    const started = await startRedisTls({ path, authority, pair });
    others.push(started);
    return started;
  }

  /** Why it does not connect, or what it counted. */
  async function outcome(port: number, used: ClientTls, timeoutMs = 5000): Promise<string> {
    const store = newRedisStore({ url: `127.0.0.1:${port}` }, { tls: used, timeoutMs });
    try {
      await store.connect({
        maxElapsedMs: Number.MIN_VALUE,
        monotonicMs: () => performance.now(),
        sleep: () => Promise.reject(new Error('retried')),
      });
      return `counted ${await totalOf(store, { key: 'outcome', hits: 0 })}`;
    } catch (error) {
      return (error as Error).message.replace(/^.* after \d+ ms: /, '');
    } finally {
      await store.close();
    }
  }

  describe('counts', () => {
    const openStore = () => openRedisStore({ url: `127.0.0.1:${open.tlsPort}` }, { tls: tls() });
    counterStoreSuite(openStore);
    closedStoreSuite(openStore);
  });

  it('reaches the master through a sentinel, both over TLS', async () => {
    const pair = authority.issue({ name: 'sentinel', alternativeNames: 'IP:127.0.0.1' });
    const port = await freePort();
    const file = join(folder, 'sentinel.conf');
    const lines = [
      'port 0',
      `tls-port ${port}`,
      `tls-cert-file ${pair.certFile}`,
      `tls-key-file ${pair.keyFile}`,
      `tls-ca-cert-file ${authority.caFile}`,
      'tls-auth-clients no',
      'tls-replication yes',
      `dir ${folder}`,
      `sentinel monitor mymaster 127.0.0.1 ${open.tlsPort} 1`,
    ];
    writeFileSync(file, `${lines.join('\n')}\n`);
    const sentinel = new ChildProgram({ command: path, args: [file, '--sentinel'] });
    onTestFinished(async () => void (await sentinel.stop('SIGKILL')));
    const address = parseSentinelAddress({ url: `mymaster,127.0.0.1:${port}`, auth: '', sentinelAuth: '' });
    const newStore = (used: ClientTls | undefined) => {
      const store = new RedisStore({ address, tls: used, timeoutMs: 5000, random: Math.random });
      onTestFinished(() => store.close());
      return store;
    };
    const store = newStore(tls());
    await connectStore(store);
    const direct = new Redis(open.server.port, '127.0.0.1', { protocol: 2 });
    onTestFinished(() => direct.disconnect());
    expect(await totalOf(store, { key: 'by-sentinel' })).toBe(1);
    expect(await direct.get('by-sentinel')).toBe('1');
    const failed = newStore(tls({ caPath: stranger.caFile })).connect({
      maxElapsedMs: Number.MIN_VALUE,
      monotonicMs: () => performance.now(),
      sleep: () => Promise.reject(new Error('retried')),
    });
    await expect(failed).rejects.toThrow(
      `sentinel 127.0.0.1:${port}: self-signed certificate in certificate chain`,
    );
  });

  it('says that it does not know the issuer of the certificate', async () => {
    expect(await outcome(open.tlsPort, tls({ caPath: stranger.caFile }))).toBe(
      'self-signed certificate in certificate chain (set REDIS_TLS_CACERT to authorities that the limiter should trust)',
    );
    expect(await outcome(open.tlsPort, tls({ caPath: '' }))).toBe(
      'self-signed certificate in certificate chain (set REDIS_TLS_CACERT to authorities that the limiter should trust)',
    );
  });

  it('trusts the default authorities besides the given one', async () => {
    const common = getCACertificates('default');
    onTestFinished(() => setDefaultCACertificates(common));
    setDefaultCACertificates([readFileSync(authority.caFile, 'latin1')]);
    expect(await outcome(open.tlsPort, tls({ caPath: stranger.caFile }))).toBe('counted 0');
  });

  it('says that a certificate has ended', async () => {
    const ended = authority.issue({ name: 'ended', alternativeNames: 'IP:127.0.0.1', days: -1 });
    const { tlsPort } = await serverWith(ended);
    expect(await outcome(tlsPort, tls())).toBe('certificate has expired');
    expect(await outcome(tlsPort, tls({ skipHostnameVerification: true }))).toBe('certificate has expired');
  });

  it('rejects a certificate of another name, unless names are not checked', async () => {
    const { tlsPort } = await serverWith(authority.issue({ name: 'other', alternativeNames: 'DNS:other' }));
    expect(await outcome(tlsPort, tls())).toMatch(
      /^Hostname\/IP does not match certificate's altnames: IP: 127\.0\.0\.1 is not in the cert's list/,
    );
    const skipping = { skipHostnameVerification: true };
    expect(await outcome(tlsPort, tls(skipping))).toBe('counted 0');
    expect(await outcome(tlsPort, tls({ ...skipping, caPath: stranger.caFile }))).toBe(
      'self-signed certificate in certificate chain (set REDIS_TLS_CACERT to authorities that the limiter should trust)',
    );
  });

  it('shows its certificate to a server that wants one', async () => {
    const pair = ({ certFile, keyFile }: CertificatePair) => ({ certPath: certFile, keyPath: keyFile });
    expect(await outcome(closed.tlsPort, tls(pair(client)))).toBe('counted 0');
    expect(await outcome(closed.tlsPort, tls())).toMatch(/^TLS: .*certificate required$/);
    expect(await outcome(closed.tlsPort, tls(pair(foreignClient)))).toMatch(/^TLS: .*unknown ca$/);
  });

  it('waits no longer than the timeout for a server that speaks no TLS', async () => {
    expect(await outcome(open.server.port, tls(), 200)).toBe(
      'connect ETIMEDOUT (no connection, or no TLS handshake: does the port support TLS?)',
    );
  });

  it('shows a certificate that was rotated at the next connection, and the last good one until then', async () => {
    const used = authority.issue({ name: 'rotated' });
    const rotating = tls({ certPath: used.certFile, keyPath: used.keyFile });
    const store = await openRedisStore({ url: `127.0.0.1:${closed.tlsPort}` }, { tls: rotating });
    onTestFinished(() => store.close());
    const direct = new Redis(closed.server.port, '127.0.0.1', { protocol: 2 });
    onTestFinished(() => direct.disconnect());
    const cut = async () => {
      const { total } = store.connectionCounts;
      await direct.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await eventually(() => expect(store.connectionCounts.localClose).toBe(total));
    };
    writeFileSync(used.keyFile, 'half a key');
    await cut();
    await eventually(() => expect(store.connected).toBe(true));
    overwritePair(foreignClient, used);
    await cut();
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(store.connected).toBe(false);
    overwritePair(client, used);
    await eventually(() => expect(store.connected).toBe(true));
  });
});

describeWithServer('ClientTls', opensslProgram, (program) => {
  const folder = suiteFolder();
  const none = { certPath: '', keyPath: '', caPath: '', skipHostnameVerification: false };

  it('says which files it cannot use, in the words of the Go service', () => {
    const authority = createAuthority(program, folder, 'authority');
    const { certFile, keyFile } = authority.issue({ name: 'client' });
    const missing = join(folder, 'missing.pem');
    const junk = join(folder, 'junk.pem');
    writeFileSync(junk, 'no certificate');
    const failure = (files: Partial<ClientTlsFiles>) => {
      try {
        return void new ClientTls({ ...none, ...files }, () => {});
      } catch (error) {
        return (error as Error).message;
      }
    };
    expect(failure({ caPath: authority.caFile, certPath: certFile, keyPath: keyFile })).toBeUndefined();
    expect(failure({ certPath: missing, keyPath: keyFile })).toBe(
      `failed lo load TLS key pair (${missing},${keyFile}): no such file or directory`,
    );
    expect(failure({ certPath: certFile, keyPath: junk })).toMatch(
      new RegExp(`^failed lo load TLS key pair \\(${certFile},${junk}\\): .+`),
    );
    expect(failure({ caPath: missing })).toBe(`failed to read file: ${missing}: no such file or directory`);
    expect(failure({ caPath: junk })).toBe(`failed to load the provided TLS CA certificate: ${junk}`);
  });
});
