/** What the turns of all targets came to, in words. */
import type { FuzzProgress } from './fuzz-worker.ts';

export class FuzzTally {
  readonly #targets = new Map<string, FuzzProgress & { turns: number }>();

  add(target: string, turn: FuzzProgress): void {
    const sum = this.#targets.get(target) ?? { turns: 0, runs: 0, outcomes: 0, blocks: 0 };
    this.#targets.set(target, {
      turns: sum.turns + 1,
      runs: sum.runs + turn.runs,
      outcomes: Math.max(sum.outcomes, turn.outcomes),
      blocks: Math.max(sum.blocks, turn.blocks),
    });
  }

  /** A line for each target, after one for all. */
  summary(seconds: number, found: boolean): string {
    const lines = [...this.#targets].map(
      ([target, sum]) =>
        `  ${target}: ${progressText(sum)}, in ${sum.turns} turn${sum.turns === 1 ? '' : 's'}`,
    );
    const outcome = found ? 'something found' : 'nothing found';
    return [`fuzz: ${Math.round(seconds)} s, ${outcome}`, ...lines].join('\n');
  }
}

export function progressText({ runs, outcomes, blocks }: FuzzProgress): string {
  return `${runs} inputs, ${outcomes} outcomes, ${blocks} blocks`;
}
