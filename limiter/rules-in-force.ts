/** What happens when rules arrive, or fail to: the decisions, health, statistics and the log learn of it. */
import type { Health } from '../process/health.ts';
import type { Logger } from '../process/logger.ts';
import type { RuleTable } from '../rules/table/rule-table.ts';
import type { ConfigListener } from './config-source/index.ts';
import * as lines from './log-lines.ts';
import { type LimiterStats, registerRuntimeStats } from './stats/limiter-stats.ts';
import type { StatsRegistry } from './stats/stats-registry.ts';

export interface RulesInForceParts {
  useRules(table: RuleTable): void;
  health: Health;
  /** HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED. */
  healthNeedsDomains: boolean;
  registry: StatsRegistry;
  stats: LimiterStats;
  log: Logger;
  /** Where rules are looked for, named in log lines. */
  path: string;
}

export class RulesInForce {
  /** Settles with the end of the first load, good or bad. */
  readonly firstLoad: Promise<void>;
  readonly listener: ConfigListener;
  #table: RuleTable | undefined;
  #sources = 0;
  #lastLoadFailed = false;

  constructor(parts: RulesInForceParts) {
    const { health, stats, log } = parts;
    let firstLoadEnded = (): void => {};
    this.firstLoad = new Promise((resolve) => {
      firstLoadEnded = resolve;
    });
    registerRuntimeStats(parts.registry, () => this.#sources);
    if (parts.healthNeedsDomains) health.set('config', false);
    this.listener = {
      loaded: (result) => {
        stats.runtimeLoadAttempt();
        this.#table = result.table;
        this.#sources = result.sources;
        parts.useRules(result.table);
        stats.configLoadSuccess();
        if (parts.healthNeedsDomains) health.set('config', result.domains > 0);
        for (const warning of result.warnings) lines.configWarning(log, warning);
        const { domains, rules, loadMs } = result;
        lines.configLoaded(log, { domains, rules, loadMs }, this.#lastLoadFailed);
        if (domains === 0) lines.noRules(log, parts.path);
        this.#lastLoadFailed = false;
        firstLoadEnded();
      },
      failed: (errors, total) => {
        stats.runtimeLoadAttempt();
        if (errors.some(({ code }) => code === 'unreadable')) stats.runtimeLoadFailure();
        stats.configLoadError();
        this.#lastLoadFailed = true;
        lines.configLoadFailed(log, errors, total);
        firstLoadEnded();
      },
      unreachable: (reason) => lines.configWatchLost(log, parts.path, reason),
      reachable: () => lines.configWatchFound(log, parts.path),
    };
  }

  /** Lines of `/rlconfig`; none while nothing is loaded. */
  rlconfigLines(): Iterable<string> {
    return this.#table?.rlconfigLines() ?? [];
  }
}
