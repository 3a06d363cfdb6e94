import { readFileSync } from 'node:fs';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Client, credentials, Metadata, type ServiceError, status as Status } from '@grpc/grpc-js';
import { expect, it } from 'vitest';

import {
  RateLimitResponse_Code as Code,
  RateLimitRequestSchema,
  RateLimitResponseSchema,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { shouldRateLimitPath } from '../../limiter/service/should-rate-limit.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { opensslProgram } from '../support/find-server.ts';
import { machineLoad } from '../support/machine-load.ts';
import { serveLimiter } from './served-limiter.ts';

const atOnce = 1_000;

/** How a call ended; no code without an answer. */
interface Outcome {
  code: Code | undefined;
  status: Status;
}

class GrpcJsClient {
  readonly #client: Client;

  constructor(port: number, caFile: string | undefined) {
    const security =
      caFile === undefined ? credentials.createInsecure() : credentials.createSsl(readFileSync(caFile));
    this.#client = new Client(`localhost:${port}`, security, { 'grpc.use_local_subchannel_pool': 1 });
  }

  ask(key: string, path: string = shouldRateLimitPath): Promise<Outcome> {
    const request = create(RateLimitRequestSchema, {
      domain: 'conformance',
      descriptors: [{ entries: [{ key, value: 'grpc-js' }] }],
    });
    const metadata = new Metadata();
    metadata.set('x-request-id', '1');
    metadata.set('trace-bin', Buffer.from([0, 255]));
    return new Promise((resolve) => {
      this.#client.makeUnaryRequest(
        path,
        (bytes: Uint8Array) => Buffer.from(bytes),
        (bytes: Buffer) => fromBinary(RateLimitResponseSchema, bytes),
        toBinary(RateLimitRequestSchema, request),
        metadata,
        { deadline: Date.now() + 20_000 * machineLoad() },
        (error: ServiceError | null, response) =>
          resolve({ code: response?.overallCode, status: error?.code ?? Status.OK }),
      );
    });
  }

  close(): void {
    this.#client.close();
  }
}

describeWithServer('@grpc/grpc-js with TLS and without', opensslProgram, (openssl) => {
  it.each([false, true])('has each of 1,000 calls at once answered (TLS: %s)', async (tls) => {
    const served = await serveLimiter({ openssl: tls ? openssl : undefined });
    const client = new GrpcJsClient(served.port, served.caFile);
    try {
      const outcomes = await Promise.all(Array.from({ length: atOnce }, () => client.ask('client')));
      expect(outcomes.filter(({ status }) => status !== Status.OK)).toEqual([]);
      expect(outcomes.filter(({ code }) => code === Code.OK)).toHaveLength(3);
      expect(outcomes.filter(({ code }) => code === Code.OVER_LIMIT)).toHaveLength(atOnce - 3);
      expect(await served.stat('ratelimit.service.rate_limit.conformance.client.total_hits')).toBe(atOnce);
      const unknown = await client.ask('client', '/envoy.service.ratelimit.v3.RateLimitService/Nothing');
      expect(unknown.status).toBe(Status.UNIMPLEMENTED);
    } finally {
      client.close();
      await served.stop();
    }
  });

  it.each([false, true])('loses no call to a limiter that ends while calls run (TLS: %s)', async (tls) => {
    const served = await serveLimiter({ openssl: tls ? openssl : undefined });
    const client = new GrpcJsClient(served.port, served.caFile);
    try {
      await client.ask('free');
      const running = Promise.all(Array.from({ length: atOnce }, () => client.ask('free')));
      const [outcomes, ended] = await Promise.all([running, served.limiter.stop()]);
      // Calls that it had not taken yet find no server to go to; none is left without an end, or ends oddly.
      const allowed = [Status.OK, Status.UNAVAILABLE];
      expect(outcomes.filter(({ status }) => !allowed.includes(status))).toEqual([]);
      expect(ended).toBe(0);
    } finally {
      client.close();
      await served.stop();
    }
  });
});
