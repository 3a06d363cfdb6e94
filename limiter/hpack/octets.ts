/**
 * The octet that stands for a character: header fields are strings of one character a byte. What is none becomes a
 * question mark, rather than whatever its low byte happens to mean.
 */
export function byteAt(text: string, index: number): number {
  const code = text.charCodeAt(index);
  return code <= 0xff ? code : 0x3f;
}
