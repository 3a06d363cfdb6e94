/** Measures the time to encode and decode the header block of a call: `npx node bench/hpack.ts` */
import { HpackDecoder } from '../limiter/hpack/decoder.ts';
import { HpackEncoder, Indexing, maxEncodedBytes } from '../limiter/hpack/encoder.ts';

const rounds = 7;
const calls = 500_000;

// The headers that Envoy sends with a call to its rate limit service.
const request = [
  ...[':method', 'POST', ':scheme', 'http', ':authority', 'ratelimit', 'te', 'trailers'],
  ...[':path', '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'],
  ...['grpc-timeout', '20m', 'content-type', 'application/grpc', 'x-envoy-internal', 'true'],
  ...['x-forwarded-for', '10.0.0.1', 'x-envoy-expected-rq-timeout-ms', '20'],
  ...['grpc-accept-encoding', 'identity,deflate,gzip', 'user-agent', 'envoy'],
];
const responseHeaders = [':status', '200', 'content-type', 'application/grpc'];
const responseTrailers = ['grpc-status', '0'];
const failure = [...responseHeaders, 'grpc-status', '14', 'grpc-message', 'no answer from the store'];

/** Returns the nanoseconds per call: the median of several rounds. */
function nanoseconds(action: () => void): number {
  const measured: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const begin = process.hrtime.bigint();
    for (let index = 0; index < calls; index++) action();
    measured.push(Number(process.hrtime.bigint() - begin) / calls);
  }
  return measured.toSorted((a, b) => a - b)[rounds >> 1] ?? Number.NaN;
}

function print(name: string, bytes: number, action: () => void): void {
  console.log(
    `${name.padEnd(44)} ${String(bytes).padStart(5)} bytes ${nanoseconds(action).toFixed(0).padStart(6)} ns`,
  );
}

/** The header blocks of a client's first and second call. */
function requestBlocks(indexing: Indexing, huffman: boolean): Buffer[] {
  const encoder = new HpackEncoder({ maxTableBytes: 4096, indexing: () => indexing, huffman });
  return [0, 1].map(() => {
    const target = Buffer.alloc(maxEncodedBytes(request));
    return target.subarray(0, encoder.encode(request, target, 0));
  });
}

function printDecode(name: string, indexing: Indexing, huffman: boolean): void {
  const decoder = new HpackDecoder({ maxTableBytes: 4096, maxListBytes: 16_384 });
  const [first, later] = requestBlocks(indexing, huffman) as [Buffer, Buffer];
  const fields: string[] = [];
  decoder.decode(first, 0, first.length, fields);
  print(name, later.length, () => {
    fields.length = 0;
    decoder.decode(later, 0, later.length, fields);
  });
}

function printEncode(name: string, ...blocks: readonly (readonly string[])[]): void {
  const encoder = new HpackEncoder({ maxTableBytes: 4096 });
  const target = Buffer.alloc(1024);
  const encode = (): number => {
    let offset = 0;
    for (const fields of blocks) offset = encoder.encode(fields, target, offset);
    return offset;
  };
  encode();
  print(name, encode(), encode);
}

printDecode('decode a request, all fields indexed', Indexing.INCREMENTAL, true);
printDecode('decode a request, nothing indexed, Huffman', Indexing.NONE, true);
printDecode('decode a request, nothing indexed, plain', Indexing.NONE, false);
printEncode('encode a response and its trailers', responseHeaders, responseTrailers);
printEncode('encode a failure with a message', failure);
