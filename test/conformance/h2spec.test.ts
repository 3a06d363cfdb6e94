/**
 * All cases of h2spec, strict ones too: the limiter's HTTP/2 passes each. On the gRPC port some cannot be tried, since
 * h2spec's requests are no gRPC: they are listed, and a case that is listed in vain fails the test.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { shouldRateLimitPath } from '../../limiter/service/should-rate-limit.ts';
import { createAuthority } from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { h2specProgram, opensslProgram } from '../support/find-server.ts';
import { startHttp2Echo } from '../support/http2-echo-server.ts';
import { type InProcessLimiter, startLimiterHere } from '../support/in-process-limiter.ts';
import { type H2specCases, runH2spec } from './h2spec-run.ts';

/** Of h2spec 2.2.1, the strict one among them. */
const caseCount = 146;

/**
 * What h2spec sends has no content-type. "If Content-Type does not begin with "application/grpc", gRPC servers SHOULD
 * respond with HTTP status of 415 (Unsupported Media Type)": so the answer is there, and its stream at an end, as soon
 * as the request's header section is read, with no DATA in it.
 * https://github.com/grpc/grpc/blob/v1.60.0/doc/PROTOCOL-HTTP2.md#requests
 */
const answeredEarly: Record<string, string> = {
  'generic/2/2': 'waits for DATA, and the answer has none',
  'generic/2/3': 'waits for DATA, and the answer has none',
  'http2/5.1/8': 'wants the stream open when it resets it, and then a fault for what follows',
  'http2/5.1/9': 'wants the stream open when it resets it, and then a fault for what follows',
  'http2/5.1.2/1': 'wants more streams at once than are allowed, and none is open for long',
  'http2/6.9/2': 'wants the stream open when it sends its faulty WINDOW_UPDATE',
  'http2/6.9.1/3': 'wants the stream open when it overflows its window',
  'http2/8.1/1': 'wants the request under way when its second HEADERS comes',
  'http2/8.1.2.1/3': 'wants the request under way when its trailers come',
  'http2/8.1.2.6/1': 'wants the request under way when its DATA comes',
  'http2/8.1.2.6/2': 'wants the request under way when its DATA comes',
};
const withoutData = ['http2/6.5.3/1', 'http2/6.9.1/1', 'http2/6.9.2/1', 'http2/6.9.2/2'];

describeWithServer('h2spec', h2specProgram, (h2spec) => {
  describeWithServer('with TLS and without', opensslProgram, (openssl) => {
    let folder: string;
    let certificate: { certFile: string; keyFile: string };
    beforeAll(() => {
      folder = mkdtempSync(join(tmpdir(), 'weir-h2spec-'));
      mkdirSync(join(folder, 'rules'));
      writeFileSync(join(folder, 'rules', 'none.yaml'), 'domain: conformance\n');
      const authority = createAuthority(openssl, folder, 'authority');
      certificate = authority.issue({ name: 'limiter', alternativeNames: 'DNS:localhost,IP:127.0.0.1' });
    });
    afterAll(() => rmSync(folder, { recursive: true, force: true }));

    const limiterWith = (env: Record<string, string>): Promise<InProcessLimiter> =>
      startLimiterHere({
        env: {
          BACKEND_TYPE: 'memory',
          RUNTIME_ROOT: join(folder, 'rules'),
          RUNTIME_APPDIRECTORY: '.',
          ...env,
        },
      });

    it.each([false, true])('passes every case on the HTTP/2 under gRPC (TLS: %s)', async (tls) => {
      const server = await startHttp2Echo({
        // As many as h2spec goes beyond.
        limits: { maxConcurrentStreams: 16 },
        ...(tls ? { tls: certificate } : {}),
      });
      try {
        const cases = await runH2spec({ h2spec, port: server.port, path: '/', tls, timeoutSeconds: 20 });
        expect(cases.failed).toEqual([]);
        expect(cases.skipped).toEqual([]);
        expect(cases.passed).toHaveLength(caseCount);
      } finally {
        await server.stop();
      }
    });

    it('passes every case on the gRPC port that leaves gRPC a choice, plain and over TLS', async () => {
      const { certFile, keyFile } = certificate;
      const tlsEnv = {
        GRPC_SERVER_USE_TLS: 'true',
        GRPC_SERVER_TLS_CERT: certFile,
        GRPC_SERVER_TLS_KEY: keyFile,
      };
      const casesOf = async (tls: boolean): Promise<H2specCases> => {
        const limiter = await limiterWith(tls ? tlsEnv : {});
        try {
          const { grpc: port } = limiter.ports;
          return await runH2spec({ h2spec, port, path: shouldRateLimitPath, tls, timeoutSeconds: 2 });
        } finally {
          await limiter.stop();
        }
      };
      // Beside each other, as nearly all of the time is spent waiting for what does not come.
      const both = await Promise.all([casesOf(false), casesOf(true)]);
      for (const { failed, skipped, passed } of both) {
        expect(failed).toEqual(Object.keys(answeredEarly));
        expect(skipped).toEqual(withoutData);
        expect(passed).toHaveLength(caseCount - failed.length - skipped.length);
      }
    }, 180_000);
  });
});
