/** Measures the time per message of the hand-written codec and of the generated one: `npx node bench/codec.ts` */
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { RateLimitRequestSchema, RateLimitResponseSchema } from '../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { Code } from '../limiter/decide/messages.ts';
import type { RateLimitResponse } from '../limiter/decide/response-message.ts';
import { decodeRateLimitRequest, encodeRateLimitResponse } from '../limiter/decide/wire-codec.ts';

const variants = 4096;
const rounds = 7;

/** The same request with `variants` different addresses, as in real traffic. */
function requests(init: (address: string) => MessageInitShape<typeof RateLimitRequestSchema>): Uint8Array[] {
  return Array.from({ length: variants }, (_, index) =>
    toBinary(
      RateLimitRequestSchema,
      create(RateLimitRequestSchema, init(`10.${index >> 8}.0.${index & 255}`)),
    ),
  );
}

const requestSets: Record<string, Uint8Array[]> = {
  'request, 1 descriptor of 1 entry': requests((address) => ({
    domain: 'edge',
    descriptors: [{ entries: [{ key: 'remote_address', value: address }] }],
  })),
  'request, 3 descriptors of 2 entries': requests((address) => ({
    domain: 'edge_proxy_per_ip',
    descriptors: ['route', 'method', 'account'].map((key) => ({
      entries: [
        { key: 'remote_address', value: address },
        { key, value: 'checkout-service' },
      ],
      hitsAddend: 2n,
    })),
    hitsAddend: 1,
  })),
  'request, a value of 200 bytes': requests((address) => ({
    domain: 'edge',
    descriptors: [{ entries: [{ key: 'path', value: `/${address}/`.padEnd(200, 'x') }] }],
  })),
  'request, a value outside of ASCII': requests((address) => ({
    domain: 'edge',
    descriptors: [{ entries: [{ key: 'città', value: `Zürich ${address}` }] }],
  })),
};

function response(statuses: number, headers: number): RateLimitResponse {
  return {
    overallCode: Code.OK,
    statuses: Array.from({ length: statuses }, (_, index) => ({
      code: Code.OK,
      currentLimit: { name: '', requestsPerUnit: 1000, unit: 2 },
      limitRemaining: 900 - index,
      durationUntilResetSeconds: 37,
    })),
    responseHeadersToAdd: Array.from({ length: headers }, () => ({
      key: 'RateLimit-Remaining',
      value: '900',
    })),
    requestHeadersToAdd: [],
    dynamicMetadata: undefined,
  };
}

/** Returns the nanoseconds per call: the median of several rounds. */
function nanoseconds(calls: number, action: (index: number) => unknown): number {
  const measured: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const begin = process.hrtime.bigint();
    for (let index = 0; index < calls; index++) action(index);
    measured.push(Number(process.hrtime.bigint() - begin) / calls);
  }
  return measured.toSorted((a, b) => a - b)[rounds >> 1] ?? Number.NaN;
}

function print(name: string, byHand: number, generated: number): void {
  const factor = (generated / byHand).toFixed(1);
  console.log(
    `${name.padEnd(44)} ${byHand.toFixed(0).padStart(6)} ns ${generated.toFixed(0).padStart(8)} ns ${factor.padStart(6)}x`,
  );
}

console.log(`${''.padEnd(44)} ${'by hand'.padStart(9)} ${'generated'.padStart(11)}`);
for (const [name, messages] of Object.entries(requestSets)) {
  const at = (index: number): Uint8Array => messages[index & (variants - 1)] as Uint8Array;
  print(
    name,
    nanoseconds(200_000, (index) => decodeRateLimitRequest(at(index))),
    nanoseconds(50_000, (index) => fromBinary(RateLimitRequestSchema, at(index))),
  );
}
for (const [statuses, headers] of [
  [1, 0],
  [3, 0],
  [1, 3],
] as const) {
  const message = response(statuses, headers);
  const generated = fromBinary(RateLimitResponseSchema, encodeRateLimitResponse(message));
  print(
    `response, ${statuses} statuses, ${headers} headers`,
    nanoseconds(200_000, () => encodeRateLimitResponse(message)),
    nanoseconds(50_000, () => toBinary(RateLimitResponseSchema, generated)),
  );
}
