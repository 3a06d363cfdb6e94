import { writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { type EnvoyProcess, startEnvoy } from '../support/envoy.ts';
import { envoyConfig } from '../support/envoy-config.ts';
import { envoyProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { type InProcessLimiter, startLimiterHere } from '../support/in-process-limiter.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const rules = `
domain: edge
descriptors:
  - key: path
    value: /fixed
    rate_limit: { requests_per_unit: 2, window: 50h }
  - key: path
    value: /sliding
    rate_limit: { requests_per_unit: 2, window: 2d, algorithm: sliding_window }
  - key: path
    value: /bucket
    rate_limit: { requests_per_unit: 1, unit: minute, unit_multiplier: 5, algorithm: token_bucket, burst: 2 }
  - key: path
    value: /several
    rate_limits:
      - { requests_per_unit: 1, unit: hour, algorithm: token_bucket, burst: 2 }
      - { requests_per_unit: 100, window: 30s }
      - { requests_per_unit: 1000, unit: week, name: weekly }
`;

/** Seconds of a window of so many since 1970 that are over. */
const elapsed = (windowSeconds: number): number => (Date.now() / 1000) % windowSeconds;

describeWithServer('a limiter of all algorithms behind a real Envoy', envoyProgram, (envoyPath) => {
  const folder = suiteFolder();
  let limiter: InProcessLimiter;
  let upstream: Server;
  let envoy: EnvoyProcess;
  let port: number;

  /** Asks until it is rejected; gives how often it passed, and the answer that rejected. */
  const askUntilOverLimit = async (path: string): Promise<{ passed: number; refusal: Response }> => {
    for (let passed = 0; ; passed++) {
      const response = await fetch(`http://127.0.0.1:${port}${path}`);
      await response.arrayBuffer();
      if (response.status !== 200) return { passed, refusal: response };
      expect(response.headers.has('retry-after')).toBe(false);
    }
  };

  /** Between the two ends, of a wait that began a moment ago. */
  const expectRetryAfter = ({ headers, status }: Response, seconds: number): void => {
    expect(status).toBe(429);
    const reported = Number(headers.get('retry-after'));
    expect(reported).toBeLessThanOrEqual(Math.ceil(seconds) + 1);
    expect(reported).toBeGreaterThanOrEqual(Math.ceil(seconds) - 60);
  };

  beforeAll(async () => {
    writeFileSync(join(folder, 'edge.yaml'), rules);
    limiter = await startLimiterHere({
      env: { BACKEND_TYPE: 'memory', RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: '.' },
    });
    upstream = createServer((_, response) => response.end());
    await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
    port = await freePort();
    envoy = await startEnvoy(
      envoyPath,
      envoyConfig({
        listenPort: port,
        limiterPort: limiter.ports.grpc,
        upstreamPort: (upstream.address() as AddressInfo).port,
        domain: 'edge',
        filter: { enable_retry_after_header: true, enable_x_ratelimit_headers: 'DRAFT_VERSION_03' },
      }),
    );
  });

  afterAll(async () => {
    await envoy?.stop();
    await limiter?.stop();
    upstream?.close();
  });

  it('is reported when a fixed window of 50 hours ends', async () => {
    const { passed, refusal } = await askUntilOverLimit('/fixed');
    expect(passed).toBe(2);
    expectRetryAfter(refusal, 180_000 - elapsed(180_000));
    // Envoy names windows by their unit, and this one has none.
    expect(refusal.headers.get('x-ratelimit-limit')).toBe('2');
  });

  it('is reported when one more hit passes a sliding window', async () => {
    const { passed, refusal } = await askUntilOverLimit('/sliding');
    expect(passed).toBe(2);
    // In the next window, when half of this one's two hits are out of sight.
    expectRetryAfter(refusal, 172_800 - elapsed(172_800) + 86_400);
  });

  it('is reported when a bucket has the next token', async () => {
    const { passed, refusal } = await askUntilOverLimit('/bucket');
    expect(passed).toBe(2);
    expectRetryAfter(refusal, 300);
  });

  it('is notified of the exceeded limit with the longest wait if there are several', async () => {
    const { passed, refusal } = await askUntilOverLimit('/several');
    expect(passed).toBe(2);
    expectRetryAfter(refusal, 3600);
    expect(refusal.headers.get('x-ratelimit-limit')).toBe('1, 1;w=3600');
  });
});
