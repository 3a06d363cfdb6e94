/** Which of a Redis Cluster's slots holds a key. Redis Cluster specification, "Key distribution model". */
const slotCount = 16_384;

/** CRC-16/XMODEM of every byte: polynomial 0x1021, begun with 0. */
const crcTable = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit += 1) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021;
  return crc;
});

/** Of the key's UTF-8 bytes, or of those between the first `{` and the next `}` where there are any. */
export function keySlot(key: string): number {
  const open = key.indexOf('{');
  const close = open === -1 ? -1 : key.indexOf('}', open + 1);
  return crc16(close > open + 1 ? key.slice(open + 1, close) : key) % slotCount;
}

function crc16(text: string): number {
  let crc = 0;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code > 0x7f) return crc16OfBytes(Buffer.from(text));
    crc = step(crc, code);
  }
  return crc;
}

function crc16OfBytes(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) crc = step(crc, byte);
  return crc;
}

function step(crc: number, byte: number): number {
  return ((crc << 8) & 0xffff) ^ (crcTable[(crc >> 8) ^ byte] as number);
}
