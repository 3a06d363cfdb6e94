/** A message as gRPC puts it into a body: not compressed, its length, its bytes. */
export function grpcMessage(message: Uint8Array): Buffer {
  const body = Buffer.alloc(5 + message.length);
  body.writeUInt32BE(message.length, 1);
  body.set(message, 5);
  return body;
}
