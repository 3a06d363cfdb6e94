/** What happens when rules arrive, or fail to: the decisions, health, statistics and the log learn of it. */

import type { Health } from '../../process/grpc/health.ts';
import type { Logger } from '../../process/log/logger.ts';
import type { Clock } from '../../process/time/process-clock.ts';
import type { RuleTable } from '../../rules/table/rule-table.ts';
import * as lines from '../log/lines.ts';
import { createRulesStats, createRuntimeStats, type LimiterStats } from '../stats/registry/limiter-stats.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import type { ConfigListener, LoadedRules } from './config-source.ts';
import { LoadedRulesLog, ReviewLog } from './loaded-rules-log.ts';

export interface RulesInForceParts {
  /** With a promise they are in force everywhere when it settles. */
  useRules(table: RuleTable): void | Promise<void>;
  health: Health;
  /** HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED. */
  healthNeedsDomains: boolean;
  registry: StatsRegistry;
  clock: Clock;
  stats: LimiterStats;
  log: Logger;
  /** What to log of the place that rules come from. */
  origin: lines.OriginLines;
  /** Whether rules are files, whose loads have statistics of their own. */
  isFiles: boolean;
}

export class RulesInForce {
  /** Settles with the end of the first load, good or bad. */
  readonly firstLoad: Promise<void>;
  readonly listener: ConfigListener;
  readonly #loadedRules: LoadedRulesLog;
  readonly #reviewLog: ReviewLog;
  #table: RuleTable | undefined;
  #sources = 0;
  #lastLoadFailed = false;

  constructor(parts: RulesInForceParts) {
    const { health, stats, log, origin } = parts;
    this.#loadedRules = new LoadedRulesLog(log);
    this.#reviewLog = new ReviewLog(log);
    let firstLoadEnded = (): void => {};
    this.firstLoad = new Promise((resolve) => {
      firstLoadEnded = resolve;
    });
    const runtime = parts.isFiles ? createRuntimeStats(parts.registry, () => this.#sources) : undefined;
    const inForce = createRulesStats(parts.registry, parts.clock, () => this.#lastLoadFailed);
    if (parts.healthNeedsDomains) health.set('config', false);
    const tell = (result: LoadedRules): void => {
      this.#table = result.table;
      this.#sources = result.sources;
      stats.configLoadSuccess();
      if (parts.healthNeedsDomains) health.set('config', result.domains > 0);
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
        return everywhere === undefined ? tell(result) : everywhere.then(() => tell(result));
      },
      reviewed: (review) => this.#reviewLog.tell(review),
      failed: (errors, total) => {
        runtime?.loadAttempt();
        if (errors.some(({ code }) => code === 'unreadable')) runtime?.loadFailure();
        stats.configLoadError();
        this.#lastLoadFailed = true;
        lines.configLoadFailed(log, errors, total);
        if (this.#table === undefined) lines.noRulesToDecideBy(log);
        firstLoadEnded();
      },
      unreachable: (reason) => origin.unreachable(reason, this.#table !== undefined),
      reachable: () => origin.reachable(),
    };
  }

  /** Nothing more is logged of what was loaded. */
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
