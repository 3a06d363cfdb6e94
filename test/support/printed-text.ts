import { LoadedDeadline } from './machine-load.ts';
import { outOfTime } from './second-tries.ts';

/** What something that runs beside a test has printed, which the test can wait for. */
export class PrintedText {
  #text = '';
  #hasEnded = false;
  readonly #waiting = new Set<() => void>();

  get output(): string {
    return this.#text;
  }

  add(text: string): void {
    this.#text += text;
    for (const check of this.#waiting) check();
  }

  /** There will be no more. */
  end(): void {
    this.#hasEnded = true;
    for (const check of this.#waiting) check();
  }

  /** Waits until the text matches; rejects with the text when it ends first, or time is up, multiplied by the machine's load. */
  async printed(pattern: RegExp, timeoutMs = 20_000): Promise<RegExpExecArray> {
    const match = (): RegExpExecArray | null => pattern.exec(this.#text);
    const found = match();
    if (found !== null) return found;
    return new Promise((resolve, reject) => {
      const finish = (settle: () => void): void => {
        clearInterval(timer);
        this.#waiting.delete(check);
        settle();
      };
      const failure = (why: string): Error =>
        new Error(`${why} before it printed ${pattern}; it printed:\n${this.#text}`);
      const check = (): void => {
        const now = match();
        if (now !== null) finish(() => resolve(now));
        else if (this.#hasEnded) finish(() => reject(failure('the program ended')));
      };
      const deadline = new LoadedDeadline(timeoutMs);
      const timer = setInterval(
        () => {
          if (deadline.isOver) finish(() => reject(outOfTime(failure(`${timeoutMs} ms passed`))));
        },
        Math.min(timeoutMs, 250),
      );
      this.#waiting.add(check);
      check();
    });
  }
}
