import type { HeaderFields } from './request-handler.ts';

/** Body of one stream that waits for the peer's windows, and the trailers behind it. */
export class SendQueue {
  trailers: HeaderFields | undefined = undefined;
  bytes = 0;
  readonly #pieces: Uint8Array[] = [];
  #offset = 0;

  /** Copies the piece. */
  add(piece: Uint8Array): void {
    if (piece.length === 0) return;
    this.#pieces.push(new Uint8Array(piece));
    this.bytes += piece.length;
  }

  /** Moves so many bytes, at most `this.bytes`, to `target`. */
  moveTo(target: Uint8Array, at: number, length: number): void {
    this.bytes -= length;
    for (let moved = 0; moved < length; ) {
      const piece = this.#pieces[0] as Uint8Array;
      const take = Math.min(length - moved, piece.length - this.#offset);
      target.set(piece.subarray(this.#offset, this.#offset + take), at + moved);
      moved += take;
      this.#offset += take;
      if (this.#offset === piece.length) {
        this.#pieces.shift();
        this.#offset = 0;
      }
    }
  }
}
