/** How a field that is in no table goes out. RFC 7541, section 6.2; the values are the first bytes of the formats. */
export const Indexing = {
  /** Enters the table: one byte from the next time on. */
  INCREMENTAL: 0x40,
  NONE: 0x00,
  /** Nobody on the way may ever index it: for what must not be guessed. RFC 7541, section 7.1.3. */
  NEVER: 0x10,
} as const;
export type Indexing = (typeof Indexing)[keyof typeof Indexing];

const byName = new Map<string, Indexing>([
  // The fields of a response whose values are few, so that they do not drive each other out of the table.
  [':status', Indexing.INCREMENTAL],
  ['content-type', Indexing.INCREMENTAL],
  ['grpc-status', Indexing.INCREMENTAL],
  ['grpc-encoding', Indexing.INCREMENTAL],
  ['grpc-accept-encoding', Indexing.INCREMENTAL],
  ['allow', Indexing.INCREMENTAL],
  ['server', Indexing.INCREMENTAL],
  ['authorization', Indexing.NEVER],
  ['cookie', Indexing.NEVER],
  ['set-cookie', Indexing.NEVER],
]);

/** For a gRPC server's responses: what is the same in most of them is indexed, all else is not. */
export function responseIndexing(name: string): Indexing {
  return byName.get(name) ?? Indexing.NONE;
}
