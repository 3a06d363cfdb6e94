/** A copy of twice the length; what is new is 0. */
export function grownWords(words: Int32Array): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(words.length * 2);
  larger.set(words);
  return larger;
}
