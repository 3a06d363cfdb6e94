import type { ConnectionContext } from './connection-context.ts';
import { ErrorCode } from './error-code.ts';

/** Requests that were begun and not ended in time, of one connection: each holds a stream, and what came of its body. */
export class UnfinishedRequests {
  readonly #context: ConnectionContext;
  readonly #onReset: () => void;
  #drainStartedMs = Number.POSITIVE_INFINITY;

  /** `onReset` is called for each whose time was up. */
  constructor(context: ConnectionContext, onReset: () => void) {
    this.#context = context;
    this.#onReset = onReset;
  }

  /** Those there are have `drainPingMs` from now on. */
  drainStarted(nowMs: number): void {
    this.#drainStartedMs = nowMs;
  }

  /** Whether any was reset. @throws ConnectionError when they are too many */
  tick(nowMs: number): boolean {
    const { requestTimeoutMs, drainPingMs } = this.#context.limits;
    const drainIsOver = nowMs - this.#drainStartedMs >= drainPingMs;
    const lastOpenedMs = drainIsOver ? nowMs : nowMs - requestTimeoutMs;
    const before = this.#context.streams.size;
    for (const stream of this.#context.streams) {
      // They come in the order in which they were opened.
      if (stream.openedMs > lastOpenedMs) break;
      if (!stream.isUnfinished) continue;
      // Nothing was done for it, so that the peer may repeat it elsewhere. RFC 9113, section 8.7.
      if (drainIsOver) this.#context.resetStream(stream.id, ErrorCode.REFUSED_STREAM);
      else this.#resetLate(stream.id);
    }
    return this.#context.streams.size < before;
  }

  #resetLate(id: number): void {
    this.#onReset();
    this.#context.streamError(id, ErrorCode.ENHANCE_YOUR_CALM);
  }
}
