/** Passes loaded rules and failed loads on to the decisions, health, statistics and the log. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Health } from '../../process/grpc/health.ts';
import type { Logger } from '../../process/log/logger.ts';
import type { Clock } from '../../process/time/clock.ts';
import type { Override } from '../../rules/override.ts';
import type { RuleError } from '../../rules/rule-error.ts';
import type { ListedRule, RuleTable } from '../../rules/table/rule-table.ts';
import { lines } from '../log/lines.ts';
import { createRulesStats, createRuntimeStats, type LimiterStats } from '../stats/registry/limiter-stats.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import type { ConfigListener, LoadedRules, RulesReviewOutcome } from './config-source.ts';

/** Chosen: this many lines take about a millisecond. */
export const linesPerTurn = 256;

/**
 * Writes the debug lines of loaded rules, one for each. Writing 100,000 lines takes a while, so the list is written in slices, and
 * the limiter answers calls between two of them.
 */
export class LoadedRulesLog {
  readonly #log: Logger;
  #current: object | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Lists these rules in the background and stops a list that is being written. Settles at the end of the list. */
  async list(table: { listedRules(): Iterable<ListedRule> }): Promise<void> {
    if (!this.#log.isEnabled('debug')) return;
    if (this.#current !== undefined) lines.listingReplaced(this.#log);
    this.#current = table;
    let count = 0;
    for (const { path, rule } of table.listedRules()) {
      if (rule === undefined) lines.loadingDomain(this.#log, { domain: path });
      else lines.loadingDescriptor(this.#log, { key: path, rule });
      if (++count % linesPerTurn !== 0) continue;
      await nextTurn();
      if (this.#current !== table) return;
    }
    this.#current = undefined;
  }

  /** Stops a list that is being written. */
  stop(): void {
    this.#current = undefined;
  }
}

/** Chosen: warnings logged for one load. `weir check` shows all of them. */
export const maxWarnings = 100;

/** Logs the warnings of reviews. A warning is logged once and again only after it has gone. */
export class ReviewLog {
  readonly #log: Logger;
  #known: ReadonlySet<string> = new Set();
  #unlisted = 0;
  #collisions: string | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  report(review: RulesReviewOutcome): void {
    if ('problem' in review) {
      lines.rulesNotReviewed(this.#log, { reason: review.problem });
      return;
    }
    const { warnings, total, collisions } = review;
    const news = warnings.filter(({ identity }) => !this.#known.has(identity));
    for (const warning of news.slice(0, maxWarnings)) lines.ruleWarning(this.#log, warning);
    const unlisted = total - warnings.length;
    const more = Math.max(0, news.length - maxWarnings) + (unlisted === this.#unlisted ? 0 : unlisted);
    if (more > 0) lines.moreRuleWarnings(this.#log, { more, total });
    if (collisions !== undefined && collisions.identity !== this.#collisions) {
      const { count: pairs, first } = collisions;
      if (first === '') lines.noCollisionFound(this.#log);
      else lines.countersMayCollide(this.#log, { pairs, first });
    }
    this.#known = new Set(warnings.map(({ identity }) => identity));
    this.#unlisted = unlisted;
    this.#collisions = collisions?.identity;
  }
}

/** Log lines about the source of rules. */
export interface OriginLines {
  /** A successful load without rules. */
  noRules(): void;
  /** Logged once an outage. The last good rules, if there are any, stay in force. */
  unreachable(reason: string, areLoaded: boolean): void;
  reachable(): void;
}

export interface RulesInForceParts {
  /** If it returns a promise, the rules are in force in all workers once it settles. */
  useRules(table: RuleTable): void | Promise<void>;
  useOverrides(overrides: readonly Override[]): Promise<void>;
  health: Health;
  /** When the limiter becomes healthy: once it has rules for a domain, once it has loaded rules (which may be empty), or at once. */
  healthNeeds: 'domains' | 'rules' | 'nothing';
  registry: StatsRegistry;
  clock: Clock;
  stats: LimiterStats;
  log: Logger;
  /** Log lines about the source of the rules. */
  origin: OriginLines;
  /** Whether rules come from files. Loads of files have their own statistics. */
  isFiles: boolean;
}

/** Listens to the source of rules and passes news on to the decisions, health, statistics and the log. */
export class RulesInForce {
  /** Settles when the first load has ended, good or bad. */
  readonly firstLoad: Promise<void>;
  readonly listener: ConfigListener;
  readonly #loadedRules: LoadedRulesLog;
  readonly #reviewLog: ReviewLog;
  #table: RuleTable | undefined;
  #sources = 0;
  #lastLoadFailed = false;
  #lastError: RuleError | undefined;
  #loadedMs: number | undefined;

  constructor(parts: RulesInForceParts) {
    const { health, stats, log, origin, healthNeeds: needs } = parts;
    this.#loadedRules = new LoadedRulesLog(log);
    this.#reviewLog = new ReviewLog(log);
    let firstLoadEnded = (): void => {};
    this.firstLoad = new Promise((resolve) => {
      firstLoadEnded = resolve;
    });
    const runtime = parts.isFiles ? createRuntimeStats(parts.registry, () => this.#sources) : undefined;
    const inForce = createRulesStats(parts.registry, parts.clock, () => this.#lastLoadFailed);
    if (needs !== 'nothing') health.set('config', false);
    const report = (result: LoadedRules): void => {
      this.#table = result.table;
      this.#loadedMs = parts.clock.nowMs();
      this.#sources = result.sources;
      stats.configLoadSuccess();
      if (needs !== 'nothing') health.set('config', needs === 'rules' || result.domains > 0);
      const { domains, rules, loadMs } = result;
      inForce({ version: result.table.contentHash, domains, rules });
      lines.configLoaded(log, { domains, rules, loadMs }, this.#lastLoadFailed);
      void this.#loadedRules.list(result.table);
      if (domains === 0) origin.noRules();
      this.#lastLoadFailed = false;
      firstLoadEnded();
    };
    this.listener = {
      loaded: (result) => {
        runtime?.loadAttempt();
        const everywhere = parts.useRules(result.table);
        return everywhere === undefined ? report(result) : everywhere.then(() => report(result));
      },
      overrides: (overrides) => parts.useOverrides(overrides),
      unchanged: (loadMs) => {
        if (!this.#lastLoadFailed || this.#table === undefined) return;
        const { domainCount: domains, ruleCount: rules } = this.#table;
        lines.configLoaded(log, { domains, rules, loadMs }, true);
        this.#lastLoadFailed = false;
      },
      reviewed: (review) => this.#reviewLog.report(review),
      failed: (errors, total) => {
        runtime?.loadAttempt();
        if (errors.some(({ code }) => code === 'unreadable')) runtime?.loadFailure();
        stats.configLoadError();
        this.#lastLoadFailed = true;
        this.#lastError = errors[0];
        lines.configLoadFailed(log, { errors, total });
        if (this.#table === undefined) lines.noRulesToDecideBy(log);
        firstLoadEnded();
      },
      unreachable: (reason) => origin.unreachable(reason, this.#table !== undefined),
      reachable: () => origin.reachable(),
    };
  }

  /** The rules in force; undefined before the first good load. */
  get table(): RuleTable | undefined {
    return this.#table;
  }

  /** The time at which the rules in force were loaded, in milliseconds since 1970. */
  get loadedMs(): number | undefined {
    return this.#loadedMs;
  }

  get lastLoadFailed(): boolean {
    return this.#lastLoadFailed;
  }

  /** The first error of the last load, if it failed. */
  get lastError(): RuleError | undefined {
    return this.#lastLoadFailed ? this.#lastError : undefined;
  }

  /** Stops listing the loaded rules in the log. */
  close(): void {
    this.#loadedRules.stop();
  }

  /** Lines of `/rlconfig?format=json`: an empty list while nothing is loaded. */
  ruleFileLines(): Iterable<string> {
    return this.#table?.ruleFileLines() ?? ['[]'];
  }

  /** Lines of `/rlconfig`; none while nothing is loaded. */
  rlconfigLines(): Iterable<string> {
    return this.#table?.rlconfigLines() ?? [];
  }
}
