/** How far a replay is: a bar on a terminal, redrawn in its line, and one line of speed at the end. */
export interface ProgressOutput {
  isTTY?: boolean | undefined;
  write(text: string): unknown;
}

export interface ProgressOptions {
  output: ProgressOutput;
  /** Milliseconds on a scale that never jumps. */
  nowMs(): number;
  /** Undefined where the size is unknown: there is then no bar, only a count. */
  totalBytes: number | undefined;
}

const barWidth = 30;
/** Often enough to look alive. */
const redrawMs = 100;
/** Chosen: what is shorter is mostly the start of the program, and says nothing of how fast it replays. */
const leastMeasuredMs = 1_000;

export class Progress {
  readonly #options: ProgressOptions;
  readonly #startMs: number;
  #drawnMs: number;

  constructor(options: ProgressOptions) {
    this.#options = options;
    this.#startMs = options.nowMs();
    this.#drawnMs = this.#startMs;
  }

  /** Draws nothing where no person looks on. */
  update(requests: number, bytes: number): void {
    const { output, nowMs, totalBytes } = this.#options;
    if (output.isTTY !== true) return;
    const now = nowMs();
    if (now - this.#drawnMs < redrawMs) return;
    this.#drawnMs = now;
    const bar = totalBytes === undefined ? '' : `${barText(totalBytes === 0 ? 1 : bytes / totalBytes)} `;
    output.write(`\r\x1b[K${bar}${count(requests)} requests${this.#speed(requests)}`);
  }

  finish(requests: number): void {
    const { output, nowMs } = this.#options;
    const ms = nowMs() - this.#startMs;
    const time = ms < leastMeasuredMs ? `${Math.ceil(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
    this.clear();
    output.write(
      `${count(requests)} ${requests === 1 ? 'request' : 'requests'} replayed in ${time}${this.#speed(requests)}\n`,
    );
  }

  /** Makes room for other words. */
  clear(): void {
    if (this.#options.output.isTTY === true) this.#options.output.write('\r\x1b[K');
  }

  #speed(requests: number): string {
    const ms = this.#options.nowMs() - this.#startMs;
    return ms < leastMeasuredMs ? '' : `, ${count(Math.round((requests / ms) * 1000))} per second`;
  }
}

function barText(done: number): string {
  const share = Math.min(1, done);
  const filled = Math.floor(share * barWidth);
  return `[${'#'.repeat(filled)}${' '.repeat(barWidth - filled)}] ${String(Math.floor(share * 100)).padStart(3)}%`;
}

function count(number: number): string {
  return number.toLocaleString('en-US');
}
