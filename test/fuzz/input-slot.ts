/** Where a worker leaves the input that it is about to run, so that it can be saved when the worker does not come back. */
export class InputSlot {
  readonly buffer: SharedArrayBuffer;
  /** How many inputs were left here, and the length of the last. */
  readonly #head: Int32Array;
  readonly #bytes: Uint8Array;

  constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer;
    this.#head = new Int32Array(buffer, 0, 2);
    this.#bytes = new Uint8Array(buffer, 8);
  }

  static withRoomFor(maxBytes: number): InputSlot {
    return new InputSlot(new SharedArrayBuffer(8 + maxBytes));
  }

  get count(): number {
    return Atomics.load(this.#head, 0);
  }

  put(input: Uint8Array): void {
    this.#bytes.set(input);
    this.#head[1] = input.length;
    Atomics.add(this.#head, 0, 1);
  }

  /** Says that the worker lives, between inputs. */
  touch(): void {
    Atomics.add(this.#head, 0, 1);
  }

  input(): Uint8Array {
    return Uint8Array.from(this.#bytes.subarray(0, this.#head[1]));
  }
}
