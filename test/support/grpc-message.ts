import { type DescMessage, fromBinary, type MessageShape } from '@bufbuild/protobuf';
import { configureTextEncoding, getTextEncoding } from '@bufbuild/protobuf/wire';
/** A message as gRPC puts it into a body: not compressed, its length, its bytes. */
export function grpcMessage(message: Uint8Array): Buffer {
  const body = Buffer.alloc(5 + message.length);
  body.writeUInt32BE(message.length, 1);
  body.set(message, 5);
  return body;
}

const strict = { ...getTextEncoding() };
const mending = new TextDecoder('utf-8', { ignoreBOM: true });

/** What the generated codec reads where it takes U+FFFD for bytes that are no UTF-8, in any text. */
export function fromBinaryRepaired<Schema extends DescMessage>(
  schema: Schema,
  bytes: Uint8Array,
): MessageShape<Schema> {
  configureTextEncoding({ ...strict, decodeUtf8: (text) => mending.decode(text) });
  try {
    return fromBinary(schema, bytes);
  } finally {
    configureTextEncoding(strict);
  }
}
