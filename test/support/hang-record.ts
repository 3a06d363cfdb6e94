/** The file in which hang-watcher.ts records what it ends, as the process that runs the tests lives on. A line of JSON each. */
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const variable = 'WEIR_TESTS_HUNG';

/** A property with a case that did not return. */
export interface Hang {
  /** From the root of the project. */
  file: string;
  /** With the names of its suites. */
  test: string;
  seed: string;
  limitSeconds: number;
  /** Whether another case had failed before: then it is not tried again. */
  hasFailed: boolean;
}

/** Of this run. Undefined where no reporter reads it. */
export function hangFile(): string | undefined {
  return process.env[variable];
}

export function recordHang(path: string, hang: Hang): void {
  appendFileSync(path, `${JSON.stringify(hang)}\n`);
}

/** Whether an error of vitest's pool says that a process has ended which hang-watcher.ts ended. */
export function isEndOf(error: unknown, hangs: readonly Hang[]): boolean {
  const { message = '', cause } = error as { message?: string; cause?: { message?: string } };
  const texts = `${message} ${cause?.message ?? ''}`;
  return texts.includes('Worker exited unexpectedly') && hangs.some(({ file }) => texts.includes(file));
}

/** Made by a reporter, before workers start and inherit its environment. */
export class HangRecord {
  readonly #path = join(mkdtempSync(join(tmpdir(), 'weir-hangs-')), 'hangs.jsonl');

  constructor() {
    process.env[variable] = this.#path;
    process.once('exit', () => rmSync(dirname(this.#path), { recursive: true, force: true }));
  }

  /** All so far. */
  read(): Hang[] {
    if (!existsSync(this.#path)) return [];
    const lines = readFileSync(this.#path, 'utf8').trimEnd().split('\n');
    return lines.map((line) => JSON.parse(line) as Hang);
  }
}
