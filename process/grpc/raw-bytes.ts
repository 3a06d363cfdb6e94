/** Messages as bytes, for `@grpc/grpc-js`, which asks for a serializer and a deserializer. */

export function encodeBytes(message: Uint8Array): Buffer {
  return Buffer.isBuffer(message)
    ? message
    : Buffer.from(message.buffer, message.byteOffset, message.byteLength);
}

export function decodeBytes(message: Buffer): Buffer {
  return message;
}

/** Chosen: more does not fit into the header block that clients accept, once it is percent-encoded. */
const longestStatusText = 1024;

/** A status message as it may go into a trailer: bounded, and without the lone surrogates that have no encoding. */
export function statusText(message: string): string {
  const bounded = message.length > longestStatusText ? `${message.slice(0, longestStatusText)}...` : message;
  return bounded.toWellFormed();
}
