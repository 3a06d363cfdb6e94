import { statusText } from '../../process/grpc/status-text.ts';

const needsEncoding = /[^ -$&-~]/;
const hex = '0123456789ABCDEF';

/**
 * A status message as the value of `grpc-message`: bounded, in UTF-8, and percent-encoded where a byte is no printable
 * ASCII character or is the percent sign. https://github.com/grpc/grpc/blob/v1.60.0/doc/PROTOCOL-HTTP2.md
 */
export function encodeStatusMessage(message: string): string {
  const text = statusText(message);
  if (!needsEncoding.test(text)) return text;
  let encoded = '';
  for (const byte of Buffer.from(text, 'utf8')) {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25;
    encoded += isPlain ? String.fromCharCode(byte) : `%${hex[byte >> 4]}${hex[byte & 15]}`;
  }
  return encoded;
}
