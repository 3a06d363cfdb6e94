/** Messages as bytes, for `@grpc/grpc-js`, which asks for a serializer and a deserializer. */

export function encodeBytes(message: Uint8Array): Buffer {
  return Buffer.isBuffer(message)
    ? message
    : Buffer.from(message.buffer, message.byteOffset, message.byteLength);
}

export function decodeBytes(message: Buffer): Buffer {
  return message;
}
