import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { expect, it } from 'vitest';

import {
  RateLimitResponse_Code as Code,
  RateLimitRequestSchema,
  RateLimitResponseSchema,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { grpcioProgram, opensslProgram } from '../support/find-server.ts';
import { serveLimiter } from './served-limiter.ts';

const script = fileURLToPath(new URL('grpcio_client.py', import.meta.url));

interface Reported {
  answers: string[];
  status: string;
  at_once: number;
  health: string;
  watched: string;
  unknown: [string, string];
  compressed: [string, string];
  malformed: [string, string];
}

const request = create(RateLimitRequestSchema, {
  domain: 'conformance',
  descriptors: [{ entries: [{ key: 'client', value: 'grpcio' }] }],
});
/** A HealthCheckResponse that says SERVING. */
const serving = '0801';

describeWithServer("Python's grpcio", grpcioProgram, (python) => {
  describeWithServer('with TLS and without', opensslProgram, (openssl) => {
    it.each([false, true])(
      'is answered and rejected as gRPC specifies (TLS: %s)',
      async (tls) => {
        const served = await serveLimiter({ openssl: tls ? openssl : undefined });
        try {
          const hex = Buffer.from(toBinary(RateLimitRequestSchema, request)).toString('hex');
          const args = [script, `localhost:${served.port}`, served.caFile ?? '', hex];
          const reported = JSON.parse((await promisify(execFile)(python, args)).stdout) as Reported;
          const codes = reported.answers.map(
            (answer) => fromBinary(RateLimitResponseSchema, Buffer.from(answer, 'hex')).overallCode,
          );
          expect(codes).toEqual([Code.OK, Code.OK, Code.OK, Code.OVER_LIMIT]);
          expect(reported).toMatchObject({ status: 'OK', at_once: 300, health: serving, watched: serving });
          const service = 'envoy.service.ratelimit.v3.RateLimitService';
          expect(reported.unknown).toEqual([
            'UNIMPLEMENTED',
            `unknown method Nothing for service ${service}`,
          ]);
          expect(reported.compressed[0]).toBe('UNIMPLEMENTED');
          expect(reported.malformed[0]).toBe('INTERNAL');
          // All but the one with a method, an encoding or a message that is none: 4, 1 and 300.
          expect(await served.stat('ratelimit.service.rate_limit.conformance.client.total_hits')).toBe(305);
        } finally {
          await served.stop();
        }
      },
      60_000,
    );
  });
});
