/** HPACK, the header compression of HTTP/2: RFC 7541. Knows bytes only. */
export { HpackDecoder } from './decoder.ts';
export { HpackEncoder, type HpackEncoderOptions, maxEncodedBytes } from './encoder.ts';
export { HpackError } from './hpack-error.ts';
export { Indexing } from './indexing.ts';
