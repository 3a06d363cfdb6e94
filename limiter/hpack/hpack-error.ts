/** Bytes that are no header block. It ends the connection with COMPRESSION_ERROR. RFC 9113, section 4.3. */
export class HpackError extends Error {
  override readonly name = 'HpackError';
}
