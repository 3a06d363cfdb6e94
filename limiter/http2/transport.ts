/** What a connection writes to: a socket, or a test. */
export interface Transport {
  /** Takes the bytes over, which are not changed afterwards. False when they wait for the peer: `onDrain` follows. */
  write(bytes: Uint8Array): boolean;
  /** Sends what was written, then ends; the peer's end is not waited for longer than a moment. */
  end(): void;
  /** Ends at once. */
  destroy(): void;
  /** Reads no more until `resume`: the peer does not read its answers. What was read already may still be handed over. */
  pause(): void;
  resume(): void;
}
