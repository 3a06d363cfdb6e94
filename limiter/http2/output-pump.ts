import type { OutputBuffer } from './frame-writer.ts';
import type { Transport } from './request-handler.ts';

export interface OutputPumpOptions {
  output: OutputBuffer;
  transport: Transport;
  /** From so many bytes that wait on the peer is not read from. */
  pauseQueuedBytes: number;
  /** A piece was written that waits for the peer. */
  onStalled: () => void;
}

/** Chosen: pieces so small that a peer which reads slowly is seen to take one after the other. */
const pieceBytes = 65_536;

/** Hands what was gathered to the transport as fast as the peer takes it. */
export class OutputPump {
  readonly #options: OutputPumpOptions;
  #isBlocked = false;
  /** The piece that the transport has and could not write yet. */
  #handedBytes = 0;
  #paused = false;

  constructor(options: OutputPumpOptions) {
    this.#options = options;
  }

  /** The transport waits for the peer. */
  get isBlocked(): boolean {
    return this.#isBlocked;
  }

  /** Bytes that cannot be written yet. */
  get waitingBytes(): number {
    return this.#isBlocked ? this.#options.output.length : 0;
  }

  /** What the process keeps for them. */
  get heldBytes(): number {
    return this.#isBlocked ? this.#options.output.bytes.length + this.#handedBytes : 0;
  }

  write(): void {
    const { output, transport, pauseQueuedBytes } = this.#options;
    if (!this.#isBlocked) this.#writeOut();
    if (this.#isBlocked && !this.#paused && output.length > pauseQueuedBytes) {
      this.#paused = true;
      transport.pause();
    }
  }

  /** The transport takes bytes again. */
  drained(): void {
    this.#isBlocked = false;
    this.write();
    if (!this.#paused || this.#isBlocked) return;
    this.#paused = false;
    this.#options.transport.resume();
  }

  /** The last words, whether or not the peer takes them yet. */
  writeRest(): void {
    const bytes = this.#options.output.take();
    if (bytes !== undefined) this.#options.transport.write(bytes);
  }

  #writeOut(): void {
    const { output, transport, onStalled } = this.#options;
    for (;;) {
      const bytes = output.take(pieceBytes);
      if (bytes === undefined) return;
      if (transport.write(bytes)) continue;
      this.#isBlocked = true;
      this.#handedBytes = bytes.length;
      onStalled();
      return;
    }
  }
}
