/** What is logged of rules that were loaded: what is odd about them, and the debug lines, a line for each. 100,000 rules take a while to write: calls are answered between two slices. */

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Logger } from '../../process/log/logger.ts';
import type { ListedRule } from '../../rules/table/listed-rules.ts';
import * as lines from '../log/lines.ts';
import type { ReviewOutcome } from './config-source.ts';

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
    if (this.#current !== undefined) lines.listingReplaced(this.#log);
    this.#current = table;
    let count = 0;
    for (const { path, isDomain, limit } of table.listedRules()) {
      if (isDomain) lines.loadingDomain(this.#log, path);
      else lines.loadingDescriptor(this.#log, path, limit);
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

/** Ours, of one load. `weir check` shows all. */
export const maxWarnings = 100;

/** Warns of what a review found, of each thing once for as long as it stays. */
export class ReviewLog {
  readonly #log: Logger;
  #known: ReadonlySet<string> = new Set();
  #unlisted = 0;
  #meetings: string | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  tell(review: ReviewOutcome): void {
    if ('problem' in review) {
      lines.rulesNotReviewed(this.#log, review.problem);
      return;
    }
    const { warnings, total, meetings } = review;
    const news = warnings.filter(({ identity }) => !this.#known.has(identity));
    for (const warning of news.slice(0, maxWarnings)) lines.ruleWarning(this.#log, warning);
    const unlisted = total - warnings.length;
    const more = Math.max(0, news.length - maxWarnings) + (unlisted === this.#unlisted ? 0 : unlisted);
    if (more > 0) lines.moreRuleWarnings(this.#log, { more, total });
    if (meetings !== undefined && meetings.identity !== this.#meetings) {
      const { count, first } = meetings;
      lines.countersMayMeet(this.#log, { count, first });
    }
    this.#known = new Set(warnings.map(({ identity }) => identity));
    this.#unlisted = unlisted;
    this.#meetings = meetings?.identity;
  }
}
