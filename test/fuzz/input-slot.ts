const headBytes = 12;

/** Where a worker leaves the input that it is about to run, so that it can be saved when the worker does not come back. */
export class InputSlot {
  readonly buffer: SharedArrayBuffer;
  /** How many inputs were left here, the length of the last, and whether to stop. */
  readonly #head: Int32Array;
  readonly #bytes: Uint8Array;

  constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer;
    this.#head = new Int32Array(buffer, 0, 3);
    this.#bytes = new Uint8Array(buffer, headBytes);
  }

  static withRoomFor(maxBytes: number): InputSlot {
    return new InputSlot(new SharedArrayBuffer(headBytes + maxBytes));
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

  /** Asks the worker to end after the inputs that it is at. */
  stop(): void {
    Atomics.store(this.#head, 2, 1);
  }

  get isStopped(): boolean {
    return Atomics.load(this.#head, 2) === 1;
  }

  input(): Uint8Array {
    return Uint8Array.from(this.#bytes.subarray(0, this.#head[1]));
  }
}
