/** A limiter, by its settings, that counts in a Redis Cluster whose nodes speak TLS and want to know their clients. */
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { keySlot } from '../../limiter/stores/redis/cluster/cluster-topology.ts';
import { type CertificatePair, createAuthority, type TestAuthority } from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { findServer, opensslProgram, redisProgram } from '../support/find-server.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { type ClusterMember, type RedisCluster, startRedisCluster } from '../support/redis-cluster.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const rules = `
domain: tls
descriptors:
  - key: ticket
    rate_limit: { unit: year, requests_per_unit: 100000 }
`;
const yearStart = Math.floor(Date.now() / 1000 / 31_536_000) * 31_536_000;

const openssl = findServer(opensslProgram);

describeWithServer('a Redis Cluster over TLS', 'path' in openssl ? redisProgram : opensslProgram, (path) => {
  const folder = suiteFolder();
  let authority: TestAuthority;
  let stranger: TestAuthority;
  let client: CertificatePair;
  let cluster: RedisCluster;

  beforeAll(async () => {
    const program = (openssl as { path: string }).path;
    authority = createAuthority(program, folder, 'authority');
    stranger = createAuthority(program, folder, 'stranger');
    client = authority.issue({ name: 'limiter' });
    // Of no address: a limiter that looks at names rejects it.
    const pair = authority.issue({ name: 'node', alternativeNames: 'DNS:node.example' });
    writeFileSync(join(folder, 'rules.yaml'), rules);
    cluster = await startRedisCluster({ path, tls: { authority, pair, needsClient: true } });
  });
  afterAll(() => cluster?.stop());

  async function limiter(env: Record<string, string> = {}): Promise<InProcessLimiter> {
    const started = await InProcessLimiter.start({
      env: {
        BACKEND_TYPE: 'redis',
        REDIS_TYPE: 'cluster',
        REDIS_SOCKET_TYPE: 'tcp',
        REDIS_URL: cluster.tlsUrl,
        REDIS_TLS: 'true',
        REDIS_TLS_CACERT: authority.caFile,
        REDIS_TLS_CLIENT_CERT: client.certFile,
        REDIS_TLS_CLIENT_KEY: client.keyFile,
        REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: 'true',
        RUNTIME_ROOT: folder,
        RUNTIME_APPDIRECTORY: '.',
        RUNTIME_WATCH_ROOT: 'false',
        ...env,
      },
    });
    onTestFinished(async () => void (await started.stop()));
    return started;
  }

  const keyOf = (ticket: string) => `tls_ticket_${ticket}_${yearStart}`;

  /** Hits left of the limit, as the answer says. */
  async function remaining(asked: InProcessLimiter, ticket: string): Promise<number> {
    const { status, error, body } = await asked.ask('tls', [{ ticket }]);
    expect([status, error]).toEqual([200, null]);
    return body.statuses[0].limitRemaining;
  }

  it('counts on all nodes, each known by its certificate and shown the limiter’s', async () => {
    const asked = await limiter();
    const tickets = Array.from({ length: 60 }, () => randomUUID());
    for (const left of [99_999, 99_998]) {
      const answers = await Promise.all(tickets.map((ticket) => remaining(asked, ticket)));
      expect(answers).toEqual(tickets.map(() => left));
    }
    expect(await cluster.valuesOf(tickets.map(keyOf))).toEqual(tickets.map(() => '2'));
    const owners = await Promise.all(tickets.map((ticket) => cluster.ownerOf(keySlot(keyOf(ticket)))));
    expect(new Set(owners).size).toBe(3);
    const listed: string[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const { debug } = asked.ports;
      const page = await fetch(`http://127.0.0.1:${debug}/v1/counters?domain=tls&cursor=${cursor}`);
      expect(page.status).toBe(200);
      const body = (await page.json()) as { counters: { key: string }[]; cursor: string | null };
      listed.push(...body.counters.map(({ key }) => key));
      cursor = body.cursor;
    }
    expect(listed).toEqual(expect.arrayContaining(tickets.map(keyOf)));
  });

  it('follows ASK and MOVED to a node’s port for TLS: every hit counts once', {
    timeout: 60_000,
  }, async () => {
    const asked = await limiter();
    const slot = keySlot(keyOf('{moving}'));
    const tickets = Array.from({ length: 40 }, (_, i) => `{moving}${i}`);
    const owner = await cluster.ownerOf(slot);
    const target = cluster.members.slice(0, 3).find((member) => member !== owner) as ClusterMember;
    let rounds = 0;
    let stopped = false;
    const load = (async () => {
      while (!stopped) {
        const left = await Promise.all(tickets.map((ticket) => remaining(asked, ticket)));
        rounds += 1;
        expect(left).toEqual(tickets.map(() => 100_000 - rounds));
      }
    })();
    const moved = (async () => {
      for (const to of [target, owner, target]) {
        const before = rounds;
        await eventually(() => expect(rounds).toBeGreaterThan(before + 5));
        await cluster.moveSlot(slot, to);
      }
    })();
    await Promise.race([moved, load]);
    stopped = true;
    await Promise.all([moved, load]);
    expect(await cluster.valuesOf(tickets.map(keyOf))).toEqual(tickets.map(() => String(rounds)));
    const stats = await Promise.all(cluster.members.map((member) => member.client.info('errorstats')));
    for (const word of ['ASK', 'MOVED']) expect(stats.join()).toContain(`errorstat_${word}:count=`);
  });

  it.each([
    [
      'looks at names',
      () => ({ REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: 'false' }),
      /Hostname\/IP does not match certificate's altnames: IP: 127\.0\.0\.1 is not in the cert's list/,
    ],
    [
      'trusts another authority',
      () => ({ REDIS_TLS_CACERT: stranger.caFile }),
      /self-signed certificate in certificate chain/,
    ],
    [
      'shows no certificate',
      () => ({ REDIS_TLS_CLIENT_CERT: '', REDIS_TLS_CLIENT_KEY: '' }),
      /TLS: [^"]*certificate required/,
    ],
  ])('does not take a limiter for ready that %s, and it says why', async (_, env, reason) => {
    const refused = await limiter({
      ...env(),
      REDIS_STARTUP_MAX_ELAPSED_TIME: '100ms',
      REDIS_STARTUP_INITIAL_INTERVAL: '200ms',
    });
    expect(await refused.ended).toBe(1);
    const reported = refused.lines.filter((line) => line.includes('timed out waiting for Redis connection'));
    expect(reported.join('\n')).toMatch(reason);
  });
});
