/** The debug lines of what was loaded. 100,000 rules take a while to write: calls are answered between two slices. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Logger } from '../process/logger.ts';
import type { ListedRule } from '../rules/table/listed-rules.ts';
import { listingReplaced, loadingDescriptor, loadingDomain } from './log-lines.ts';

/** Ours: so many lines take about a millisecond. */
export const linesPerTurn = 256;

export class LoadedRulesLog {
  readonly #log: Logger;
  #current: object | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Lists these rules in the background, in place of those that are being listed. Settles when it is through. */
  async list(table: { listedRules(): Iterable<ListedRule> }): Promise<void> {
    if (!this.#log.isEnabled('debug')) return;
    if (this.#current !== undefined) listingReplaced(this.#log);
    this.#current = table;
    let count = 0;
    for (const { path, isDomain, limit } of table.listedRules()) {
      if (isDomain) loadingDomain(this.#log, path);
      else loadingDescriptor(this.#log, path, limit);
      if (++count % linesPerTurn !== 0) continue;
      await nextTurn();
      if (this.#current !== table) return;
    }
    this.#current = undefined;
  }

  /** Nothing more is listed. */
  stop(): void {
    this.#current = undefined;
  }
}
