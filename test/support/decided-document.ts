import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';

import { type AskedDescriptor, describeAnswer, parseDecisions } from './decision-script.ts';
import { eventually } from './eventually.ts';
import { InProcessLimiter, type JsonAnswer } from './in-process-limiter.ts';
import { ManualClock } from './manual-clock.ts';

/** At the beginning of a day, an hour and a minute, and well inside a month. */
const startMs = Date.UTC(2026, 2, 4);

/** A limiter with the rules of one document, on a clock that only the document moves. */
export class DecidedDocument {
  readonly limiter: InProcessLimiter;
  readonly #folder: string;
  readonly #clock: ManualClock;
  readonly #domain: string;

  private constructor(limiter: InProcessLimiter, folder: string, clock: ManualClock, domain: string) {
    this.limiter = limiter;
    this.#folder = folder;
    this.#clock = clock;
    this.#domain = domain;
  }

  static async start(rules: string, env: Record<string, string> = {}): Promise<DecidedDocument> {
    const domain = /^domain: *([\w.-]+)/m.exec(rules)?.[1];
    if (domain === undefined) throw new Error(`no domain in these rules:\n${rules}`);
    const folder = mkdtempSync(join(tmpdir(), 'weir-document-'));
    writeFileSync(join(folder, 'rules.yaml'), rules);
    const clock = new ManualClock(startMs);
    const limiter = await InProcessLimiter.start({
      clock,
      env: { RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: '.', RUNTIME_WATCH_ROOT: 'false', ...env },
    });
    // What is not a key of the language, or stands in the wrong place, is a warning.
    expect(limiter.lines.filter((line) => !/Listening/.test(line))).toEqual([]);
    return new DecidedDocument(limiter, folder, clock, domain);
  }

  /** Asks what a `decisions` block asks, and expects what it says. */
  async expectDecisions(block: string): Promise<void> {
    for (const step of parseDecisions(block)) {
      if ('afterMs' in step) {
        this.#clock.ms += step.afterMs;
        continue;
      }
      const seen: string[] = [];
      for (const outcome of step.outcomes)
        seen.push(describeAnswer(await this.#ask(step.descriptors), outcome));
      expect(seen, step.line).toEqual(step.outcomes);
    }
  }

  /** Expects the statistics of a `statistics` block, lines of `/stats`. */
  async expectStatistics(block: string): Promise<void> {
    const lines = block.trim().split('\n');
    const seen = await this.limiter.stats();
    const shown = lines.map((line) => {
      const name = line.slice(0, line.lastIndexOf(': '));
      return `${name}: ${seen.get(name)}`;
    });
    expect(shown).toEqual(lines);
  }

  /** Writes other rules and waits until they are in force. */
  async changeRules(rules: string, isInForce: (rlconfig: readonly string[]) => boolean): Promise<void> {
    writeFileSync(join(this.#folder, 'rules.yaml'), rules);
    await eventually(async () => expect(isInForce(await this.limiter.rlconfig())).toBe(true));
  }

  async stop(): Promise<void> {
    await this.limiter.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #ask(descriptors: readonly AskedDescriptor[]): Promise<JsonAnswer> {
    const response = await fetch(`http://127.0.0.1:${this.limiter.ports.http}/json`, {
      method: 'POST',
      body: JSON.stringify({ domain: this.#domain, descriptors }),
    });
    const text = await response.text();
    const isDecision = response.headers.get('content-type') === 'application/json';
    return {
      status: response.status,
      error: response.headers.get('weir-error'),
      body: isDecision ? JSON.parse(text) : undefined,
    };
  }
}
