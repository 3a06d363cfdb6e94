/** Whether `length` code units of the text, from `from` on, are what stands in the pool at `offset`. */
export function unitsEqual(
  units: Uint16Array,
  offset: number,
  text: string,
  from: number,
  length: number,
): boolean {
  for (let i = 0; i < length; i++) {
    if (units[offset + i] !== text.charCodeAt(from + i)) return false;
  }
  return true;
}

/** A string from the pool. Lone surrogates stay what they are. */
export function readText(units: Uint16Array, offset: number, length: number): string {
  let text = '';
  const end = offset + length;
  for (let at = offset; at < end; at += chunkUnits) {
    text += String.fromCharCode(...units.subarray(at, Math.min(at + chunkUnits, end)));
  }
  return text;
}
/** Arguments of one call stay far from the stack's limit. */
const chunkUnits = 4096;
