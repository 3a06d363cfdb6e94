import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { describeWithServer } from '../support/describe-with-server.ts';
import { startEnvoy } from '../support/envoy.ts';
import { envoyConfig } from '../support/envoy-config.ts';
import { envoyProgram, opensslProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { serveLimiter } from './served-limiter.ts';

/** Requests, none of which a rule limits. */
const asked = 400;

describeWithServer('Envoy', envoyProgram, (envoyPath) => {
  describeWithServer('with TLS and without', opensslProgram, (openssl) => {
    let upstream: Server;
    beforeAll(async () => {
      upstream = createServer((_request, response) => response.end('passed'));
      await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
    });
    afterAll(() => void upstream.close());

    it.each([false, true])('has each of many requests at once answered (TLS: %s)', async (tls) => {
      const served = await serveLimiter({ openssl: tls ? openssl : undefined });
      const listenPort = await freePort();
      const envoy = await startEnvoy(
        envoyPath,
        envoyConfig({
          listenPort,
          limiterPort: served.port,
          upstreamPort: (upstream.address() as AddressInfo).port,
          domain: 'conformance',
          limiterCaFile: served.caFile,
        }),
      );
      try {
        // With failure_mode_deny a question without an answer would be a 500.
        const statuses = await Promise.all(
          Array.from({ length: asked }, async (_, i) => {
            const response = await fetch(`http://127.0.0.1:${listenPort}/${i % 7}`);
            await response.text();
            return response.status;
          }),
        );
        expect(statuses).toEqual(Array.from({ length: asked }, () => 200));
        expect(await served.stat('ratelimit_server.ShouldRateLimit.total_requests')).toBe(asked);
      } finally {
        await envoy.stop();
        await served.stop();
      }
    });
  });
});
