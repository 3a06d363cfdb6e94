/** What has answers to write. */
interface Flushable {
  flush(): void;
}

/**
 * Writes what was gathered once a turn of the event loop, after all of its input was handled: the answers of one batch of
 * the store become one write for each connection.
 */
export class FlushTurn {
  #waiting: Flushable[] = [];

  /** Called at most once by each until it was flushed. */
  readonly schedule = (connection: Flushable): void => {
    if (this.#waiting.push(connection) === 1) setImmediate(this.#flush);
  };

  readonly #flush = (): void => {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const connection of waiting) connection.flush();
  };
}
