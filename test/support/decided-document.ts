import { expect } from 'vitest';
import { readRuleTexts } from '../../cli/shared/read-rule-texts.ts';
import { SteppedLimiter } from '../../cli/test/decide-steps.ts';
import { answersText, parseDecisions } from '../../cli/test/decision-steps.ts';
import { differenceOf } from '../../cli/test/run-tests.ts';
import { policyName } from '../../limiter/decide/extra-headers.ts';
import { type LimiterSettings, parseLimiterSettings } from '../../limiter/settings/settings.ts';
import { createWarningStats } from '../../limiter/stats/registry/limiter-stats.ts';
import { StatsRegistry } from '../../limiter/stats/registry/stats-registry.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';

/** At the beginning of a day, an hour and a minute, and well inside a month. */
const startMs = Date.UTC(2026, 2, 4);

/** The rules of one document as "weir test" decides by them, on a clock that only the document moves. */
export class DecidedDocument {
  readonly limiter: SteppedLimiter;
  readonly #stats = new StatsRegistry();

  constructor(rules: string, env: Record<string, string> = {}) {
    const countWarning = createWarningStats(this.#stats);
    this.limiter = new SteppedLimiter({
      ...decidedBy(rules, env),
      stats: this.#stats,
      atMs: startMs,
      onReached: (plan, mark) => countWarning({ rule: plan.rule.path, policy: policyName(plan), mark }),
    });
  }

  /** Asks what a `decisions` block asks, and expects what it says. */
  expectDecisions(block: string): void {
    for (const { line, step } of parseDecisions(block)) {
      const decided = this.limiter.take(step);
      if (decided !== undefined)
        expect(differenceOf(decided), `${line} (${answersText(decided.answers)})`).toBe(undefined);
    }
  }

  /** Expects the statistics of a `statistics` block, lines of `/stats`. */
  expectStatistics(block: string): void {
    const lines = block.trim().split('\n');
    const seen = new Map(
      [...this.#stats.statsLines()].map((line) => [line.slice(0, line.lastIndexOf(': ')), line]),
    );
    expect(lines.map((line) => seen.get(line.slice(0, line.lastIndexOf(': '))))).toEqual(lines);
  }

  /** Counters stay. */
  changeRules(rules: string): void {
    this.limiter.limiter.useRules(decidedBy(rules, {}).rules);
  }
}

interface DecidedBy {
  rules: RuleTable;
  domain: string;
  settings: LimiterSettings;
}

/** Expects that nothing is to be said of the rules. */
export function decidedBy(text: string, env: Record<string, string>): DecidedBy {
  const { settings } = parseLimiterSettings({ BACKEND_TYPE: 'memory', DISABLE_STATS: 'true', ...env });
  const texts = [{ path: 'rules.yaml', text }];
  const { sources, errors, warnings } = readRuleTexts(texts, { mergeDomains: false });
  expect([errors, warnings]).toEqual([[], []]);
  const [loaded] = sources;
  if (loaded === undefined || settings === undefined) throw new Error('no rules, or no settings');
  return { rules: new RuleTable(compileRules([loaded.source])), domain: loaded.source.domain, settings };
}
