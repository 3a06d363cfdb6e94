/** What is fuzzed, and what must hold of every input. */
export interface FuzzTarget {
  /** Also the folder of its corpus. */
  readonly name: string;
  /**
   * Takes one input, and returns a word or two on what became of it: an input with a new outcome is worth mutating.
   * @throws anything when something does not hold that must
   */
  run(input: Uint8Array): string;
}

/** An outcome without its numbers, as these are endless. */
export function withoutNumbers(message: string): string {
  return message.replace(/\d+/g, '#');
}

/** Fails the input. */
export function must(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(message);
}
