import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';

import {
  type CertificatePair,
  createAuthority,
  overwritePair,
  type TestAuthority,
} from '../support/certificates.ts';
import { startXdsLimiterHere } from '../support/cluster.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram } from '../support/find-server.ts';
import { InProcessControlPlane } from '../support/in-process-control-plane.ts';
import type { InProcessLimiter } from '../support/in-process-limiter.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';

describeWithServer('limiters that reach their control plane over TLS', opensslProgram, (openssl) => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-tls-'));
  const server = { certFile: join(folder, 'tls.pem'), keyFile: join(folder, 'tls.key') };
  const clientCaFile = join(folder, 'clients.pem');
  const limiters: InProcessLimiter[] = [];
  let authority: TestAuthority;
  let first: CertificatePair;
  let blue: CertificatePair;
  let green: CertificatePair;
  let controlPlane: InProcessControlPlane;

  beforeAll(() => {
    authority = createAuthority(openssl, folder, 'authority');
    first = authority.issue({ name: 'first', alternativeNames: 'DNS:weir.example,IP:127.0.0.1' });
    blue = authority.issue({ name: 'blue', alternativeNames: 'DNS:limiter.blue.example' });
    green = authority.issue({ name: 'green', alternativeNames: 'URI:spiffe://mesh/green' });
    for (const fleet of ['blue', 'green']) {
      const manifest = rateLimitConfigText({ name: fleet, domain: fleet, fleet, requests: 3 });
      writeFileSync(join(folder, `${fleet}.json`), manifest);
    }
  });
  beforeEach(async () => {
    overwritePair(first, server);
    writeFileSync(clientCaFile, readFileSync(authority.caFile));
    controlPlane = await InProcessControlPlane.start({
      env: {
        SOURCE: 'DIRECTORY',
        MANIFESTS_DIRECTORY: folder,
        XDS_TLS_CERT: server.certFile,
        XDS_TLS_KEY: server.keyFile,
        XDS_TLS_CLIENT_CACERT: clientCaFile,
        XDS_CLIENT_FLEETS: 'limiter.blue.example=blue,spiffe://mesh/green=green',
      },
    });
  });
  afterEach(() => Promise.all([...limiters.splice(0), controlPlane].map((one) => one.stop())));
  afterAll(() => rmSync(folder, { recursive: true }));

  async function start(
    fleet: string,
    pair: CertificatePair | undefined,
    env: Record<string, string> = {},
  ): Promise<InProcessLimiter> {
    const own: Record<string, string> =
      pair === undefined
        ? {}
        : { CONFIG_GRPC_XDS_CLIENT_TLS_CERT: pair.certFile, CONFIG_GRPC_XDS_CLIENT_TLS_KEY: pair.keyFile };
    const limiter = await startXdsLimiterHere(controlPlane.ports.xds, `limiter-of-${fleet}`, {
      CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true',
      CONFIG_GRPC_XDS_SERVER_TLS_CACERT: authority.caFile,
      CONFIG_GRPC_XDS_FLEET: fleet,
      XDS_CLIENT_BACKOFF_MAX_INTERVAL: '200ms',
      FORCE_START_WITHOUT_INITIAL_CONFIG: 'true',
      ...own,
      ...env,
    });
    limiters.push(limiter);
    return limiter;
  }

  /** How many requests for a key of its own the limiter lets pass; 10 without a rule. */
  async function allowed({ ports }: InProcessLimiter, domain: string): Promise<number> {
    const client = new LimiterClient(ports.grpc);
    try {
      const value = String(Math.random());
      let passed = 0;
      for (let i = 0; i < 10; i++) if (await client.allowed(domain, 'key', value)) passed++;
      return passed;
    } finally {
      client.close();
    }
  }

  const enforces = (limiter: InProcessLimiter, domain: string): Promise<void> =>
    eventually(async () => expect(await allowed(limiter, domain)).toBe(3));

  const hasNoRules = (limiter: InProcessLimiter): Promise<void> =>
    expect(allowed(limiter, 'blue')).rejects.toThrow('no rate limit configuration loaded');

  it('get the rules of the fleet that their certificate is bound to', async () => {
    await enforces(await start('blue', blue), 'blue');
    const limiter = await start('green', green);
    await enforces(limiter, 'green');
    expect(await allowed(limiter, 'blue')).toBe(10);
  });

  it('are reported on both sides when they ask for the rules of others', async () => {
    const limiter = await start('green', blue);
    const reason = 'the certificate of \\W+limiter.blue.example\\W+ is not bound to the fleet \\W+green';
    await limiter.program.printed(new RegExp(reason));
    await controlPlane.program.printed(new RegExp(`Rejected a stream.*${reason}`));
    await hasNoRules(limiter);
  });

  it.each([
    [
      'show no certificate',
      () => undefined,
      /A TLS handshake failed.*reason="the caller sent no certificate"/,
    ],
    [
      'show one of another authority',
      () => createAuthority(openssl, folder, 'strangers').issue({ name: 'stranger' }),
      /A TLS handshake failed.*reason="the caller's certificate is from an unknown authority \(UNABLE_TO_VERIFY_LEAF_SIGNATURE\)"/,
    ],
  ])('get nothing when they %s', async (_, pair, line) => {
    const limiter = await start('blue', pair());
    await controlPlane.program.printed(line);
    await hasNoRules(limiter);
  });

  it('say what is wrong when they do not know the authority of the control plane', async () => {
    const other = createAuthority(openssl, folder, 'another');
    const limiter = await start('blue', blue, { CONFIG_GRPC_XDS_SERVER_TLS_CACERT: other.caFile });
    await limiter.program.printed(/unable to verify the first certificate|self-signed certificate/);
    await hasNoRules(limiter);
  });

  it('say what is wrong when the control plane has another name', async () => {
    const limiter = await start('blue', blue, { CONFIG_GRPC_XDS_SERVER_TLS_SAN: 'other.example' });
    await limiter.program.printed(/other\.example/);
    await enforces(await start('blue', blue, { CONFIG_GRPC_XDS_SERVER_TLS_SAN: 'weir.example' }), 'blue');
  });

  it('stay connected while the certificates of the control plane change, and reconnect after that', async () => {
    const before = await start('blue', blue);
    await enforces(before, 'blue');
    const next = createAuthority(openssl, folder, 'next');
    overwritePair(next.issue({ name: 'second', alternativeNames: 'IP:127.0.0.1' }), server);
    writeFileSync(clientCaFile, readFileSync(next.caFile));
    await controlPlane.program.printed(/A new certificate is in use/);
    const pair = next.issue({ name: 'late', alternativeNames: 'DNS:limiter.blue.example' });
    await enforces(await start('blue', pair, { CONFIG_GRPC_XDS_SERVER_TLS_CACERT: next.caFile }), 'blue');
    expect(before.program.output).not.toContain('The xDS server sends no rules');
    await enforces(before, 'blue');
  });
});
