/** Load generators count how calls ended; the limiter counts hits. Both must report the same story. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { create, toBinary } from '@bufbuild/protobuf';
import { expect, it } from 'vitest';

import { RateLimitRequestSchema } from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { shouldRateLimitPath } from '../../limiter/service/should-rate-limit.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { ghzProgram, h2loadProgram, opensslProgram } from '../support/find-server.ts';
import { grpcMessage } from '../support/grpc-message.ts';
import { loadLimit, type ServedLimiter, serveLimiter } from './served-limiter.ts';

const run = promisify(execFile);
const protoFolder = fileURLToPath(new URL('../../proto', import.meta.url));
const calls = 4 * loadLimit;
const requestOf = (value: string) => ({
  domain: 'conformance',
  descriptors: [{ entries: [{ key: 'load', value }] }],
});

async function counted(served: ServedLimiter, value: string): Promise<Record<string, number>> {
  const prefix = `ratelimit.service.rate_limit.conformance.load_${value}`;
  const [hits, overLimit] = [
    await served.stat(`${prefix}.total_hits`),
    await served.stat(`${prefix}.over_limit`),
  ];
  return { hits, overLimit };
}
const everyCall = { hits: calls, overLimit: calls - loadLimit };

describeWithServer('ghz', ghzProgram, (ghz) => {
  describeWithServer('with TLS and without', opensslProgram, (openssl) => {
    it.each([false, true])('has every call answered and counted once (TLS: %s)', async (tls) => {
      const served = await serveLimiter({ openssl: tls ? openssl : undefined });
      try {
        const security = served.caFile === undefined ? ['--insecure'] : ['--cacert', served.caFile];
        const proto = join(protoFolder, 'envoy/service/ratelimit/v3/rls.proto');
        const call = ['--call', 'envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit'];
        const what = ['--proto', proto, '-i', protoFolder, ...call, '-d', JSON.stringify(requestOf('ghz'))];
        const load = ['-n', String(calls), '-c', '100', '--connections', '4', '-O', 'json'];
        const args = [...security, ...what, ...load, `localhost:${served.port}`];
        const { stdout } = await run(ghz, args, { maxBuffer: 2 ** 26 });
        const report = JSON.parse(stdout) as { count: number; statusCodeDistribution: object };
        expect(report.statusCodeDistribution).toEqual({ OK: calls });
        expect(await counted(served, 'ghz')).toEqual(everyCall);
      } finally {
        await served.stop();
      }
    });
  });
});

describeWithServer('h2load', h2loadProgram, (h2load) => {
  describeWithServer('with TLS and without', opensslProgram, (openssl) => {
    it.each([false, true])('has every call answered and counted once (TLS: %s)', async (tls) => {
      const served = await serveLimiter({ openssl: tls ? openssl : undefined });
      try {
        const body = join(served.folder, 'body');
        writeFileSync(
          body,
          grpcMessage(toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, requestOf('h2load')))),
        );
        const url = `${tls ? 'https' : 'http'}://127.0.0.1:${served.port}${shouldRateLimitPath}`;
        const headers = ['-H', 'content-type: application/grpc', '-H', 'te: trailers'];
        const load = ['-n', String(calls), '-c', '8', '-m', '50', '-d', body];
        const { stdout } = await run(h2load, [...load, ...headers, url]);
        expect(stdout).toContain(`${calls} succeeded, 0 failed, 0 errored, 0 timeout`);
        expect(await counted(served, 'h2load')).toEqual(everyCall);
      } finally {
        await served.stop();
      }
    });
  });
});
