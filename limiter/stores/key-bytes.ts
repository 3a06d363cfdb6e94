/** At least what V8 keeps: one byte a character, two where any is beyond ASCII. */
export function keyBytes(key: string): number {
  return Buffer.byteLength(key) === key.length ? key.length : key.length * 2;
}
