import type { ChildProgram } from '../support/child-program.ts';
import type { OpenSpan } from './fault-figures.ts';

/** Follows a limiter's log to know when the breakers of its stores were open. */
export class BreakerWatch {
  readonly spans: OpenSpan[] = [];
  #rest = '';

  constructor(program: ChildProgram) {
    program.process.stderr?.on('data', (chunk) => this.#read(String(chunk)));
  }

  get isOpen(): boolean {
    return this.spans.at(-1)?.toMs === Number.POSITIVE_INFINITY;
  }

  #read(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#line(line);
  }

  #line(line: string): void {
    const last = this.spans.at(-1);
    if (line.includes('The store does not answer: the limiter stops asking it until it answers again')) {
      this.spans.push({ fromMs: performance.now(), toMs: Number.POSITIVE_INFINITY });
    } else if (line.includes('The store answers again') && last !== undefined) {
      last.toMs = performance.now();
    }
  }
}
