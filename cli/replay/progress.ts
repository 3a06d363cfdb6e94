/** The progress of a replay: a bar on a terminal, and one line with the speed at the end. */
import { numberText } from '../shared/text.ts';

export interface ProgressOutput {
  isTTY?: boolean | undefined;
  write(text: string): unknown;
}

export interface ProgressOptions {
  output: ProgressOutput;
  /** A monotonic clock, in milliseconds. */
  nowMs(): number;
  /** Undefined if the size is unknown. Then there is no bar, only a count. */
  totalBytes: number | undefined;
}

const barWidth = 30;
/** Chosen: often enough to show progress. */
const redrawMs = 100;
/** Chosen: a shorter run is mostly the start of the program and says nothing about speed. */
const minMeasuredMs = 1_000;

export class Progress {
  readonly #options: ProgressOptions;
  readonly #startMs: number;
  #drawnMs: number;

  constructor(options: ProgressOptions) {
    this.#options = options;
    this.#startMs = options.nowMs();
    this.#drawnMs = this.#startMs;
  }

  /** Draws only on a terminal. */
  update(requests: number, bytes: number): void {
    const { output, nowMs, totalBytes } = this.#options;
    if (output.isTTY !== true) return;
    const now = nowMs();
    if (now - this.#drawnMs < redrawMs) return;
    this.#drawnMs = now;
    const bar = totalBytes === undefined ? '' : `${barText(totalBytes === 0 ? 1 : bytes / totalBytes)} `;
    output.write(`\r\x1b[K${bar}${numberText(requests)} requests${this.#speed(requests)}`);
  }

  finish(requests: number): void {
    const { output, nowMs } = this.#options;
    const ms = nowMs() - this.#startMs;
    const time = ms < minMeasuredMs ? `${Math.ceil(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
    this.clear();
    output.write(
      `${numberText(requests)} ${requests === 1 ? 'request' : 'requests'} replayed in ${time}${this.#speed(requests)}\n`,
    );
  }

  /** Clears the bar before other output. */
  clear(): void {
    if (this.#options.output.isTTY === true) this.#options.output.write('\r\x1b[K');
  }

  #speed(requests: number): string {
    const ms = this.#options.nowMs() - this.#startMs;
    return ms < minMeasuredMs ? '' : `, ${numberText(Math.round((requests / ms) * 1000))} per second`;
  }
}

function barText(done: number): string {
  const share = Math.min(1, done);
  const filled = Math.floor(share * barWidth);
  return `[${'#'.repeat(filled)}${' '.repeat(barWidth - filled)}] ${String(Math.floor(share * 100)).padStart(3)}%`;
}
