/** The findings that a limiter reports about rules that it has loaded. */

import type { CounterKeys } from '../../rules/counter-keys.ts';
import type { RuleSource } from '../../rules/model.ts';
import { type Collisions, collidingCounters } from '../../rules/review/colliding-counters.ts';
import {
  collisionText,
  collisionWarning,
  type LocatedSource,
  type PlacedWarning,
  placedWarning,
  reviewMistakes,
  ruleNames,
} from '../../rules/review/review-sources.ts';
import type { RuleError } from '../../rules/rule-error.ts';

export interface RulesReview {
  /** The first `maxListed` findings. */
  warnings: LoadWarning[];
  /** The number of all warnings. */
  total: number;
  /** Rules whose counters could have equal keys. Undefined if there are none, or if keys are unambiguous. */
  collisions: CollisionsSummary | undefined;
}

export interface CollisionsSummary {
  /** If it is equal, the findings are the same, even if lines have moved. */
  identity: string;
  /** The number of pairs: `7` or `at least 7`. */
  count: string;
  /** The first five findings in words, with their locations. */
  first: string;
}

export interface LoadWarning extends Pick<RuleError, 'source' | 'text' | 'line' | 'column'> {
  /** If it is equal, the warning is the same, even if its lines have moved. */
  identity: string;
  /** The domain. Empty if the subject has none. */
  domain: string;
  /** The rule by its keys and values, from the top level down: `database_users.path`. Undefined for a whole file. */
  rule: string | undefined;
  hint: string | undefined;
}

/** Chosen: more than people read. A limiter stores the findings until the next load. */
const maxListed = 1_000;

export interface ReviewedLoad {
  sources: readonly LocatedSource[];
  /** The problems that were reported while the files were read. */
  warnings: readonly RuleError[];
}

export interface ReviewOptions {
  counterKeys: CounterKeys;
  /** The value of SANITIZE_DESCRIPTOR_METRIC_DOTS. */
  sanitizeDescriptorMetricDots: boolean;
}

/** Only listed findings get places, because a place requires another parse. */
export function reviewLoad({ sources, warnings: read }: ReviewedLoad, options: ReviewOptions): RulesReview {
  const plain = sources.map(({ source }) => source);
  const byName = new Map(plain.map((source) => [source.name, source]));
  const found = reviewMistakes(sources).filter(
    ({ code }) => code !== 'dotted-metric' || !options.sanitizeDescriptorMetricDots,
  );
  const warnings = read.slice(0, maxListed).map((error) => {
    return loadWarning(error, byName.get(error.source), error.path, [error.text]);
  });
  for (const warning of found.slice(0, maxListed - warnings.length)) {
    const { source, path, text } = warning;
    // The shown text may name lines of another rule.
    const details = [text, ...path.slice(-2)];
    warnings.push(loadWarning(placedWarning(warning, sources), plain[source], path, details));
  }
  const collisions =
    options.counterKeys === 'compatible' ? meetingsSummary(collidingCounters(plain), sources) : undefined;
  return { warnings, total: read.length + found.length, collisions };
}

/** `details`: the values that distinguish the finding from others of its rule. */
function loadWarning(
  warning: Omit<PlacedWarning, 'code' | 'hint'> & { code: string; hint?: string },
  rules: RuleSource | undefined,
  path: readonly (string | number)[],
  details: readonly unknown[],
): LoadWarning {
  const { code, source, text, line, column, hint } = warning;
  const rule = ruleNames(rules, path);
  const identity = JSON.stringify([code, source, rule, ...details]);
  return { identity, domain: rules?.domain ?? '', source, text, line, column, rule, hint };
}

/**
 * Returns the domains to review again if some domains have changed since a review of all. Returns undefined for all domains, if the
 * findings about the others may no longer hold. Compatible keys of a domain can equal keys of another domain whose name has the same
 * beginning.
 */
export function domainsToReview(
  before: RulesReview,
  {
    changed,
    all,
    counterKeys,
  }: { changed: ReadonlySet<string>; all: Iterable<string>; counterKeys: CounterKeys },
): ReadonlySet<string> | undefined {
  if (before.collisions !== undefined || before.total > before.warnings.length) return undefined;
  if (counterKeys === 'unambiguous') return changed;
  const beginnings = new Set([...changed].flatMap(keyBeginnings));
  const related = [...all].filter(
    (domain) => beginnings.has(domain) || keyBeginnings(domain).some((beginning) => changed.has(beginning)),
  );
  return new Set([...changed, ...related]);
}

/** Returns the domains whose keys can have the same beginning as the keys of this domain: `a` and `a_b` for `a_b`. */
function keyBeginnings(domain: string): string[] {
  return domain.split('_').map((_, index, parts) => parts.slice(0, index + 1).join('_'));
}

/** Returns a review of all domains. `part` is the review of some domains; for the others, the previous review holds. */
export function joinedReviews(
  before: RulesReview,
  part: RulesReview,
  domains: ReadonlySet<string>,
): RulesReview {
  const kept = before.warnings.filter(({ domain }) => !domains.has(domain));
  const warnings = [...kept, ...part.warnings].slice(0, maxListed);
  return { warnings, total: kept.length + part.total, collisions: part.collisions };
}

function meetingsSummary(
  { pairs, count, isComplete }: Collisions,
  sources: readonly LocatedSource[],
): CollisionsSummary | undefined {
  if (count === 0 && isComplete) return undefined;
  const listed = pairs.slice(0, 5);
  const counted = isComplete ? `${count}` : `at least ${count}`;
  const shown = listed.map((pair) => {
    const { source, line, column, text } = collisionWarning(pair, sources);
    return `${source}${line === undefined ? '' : `:${line}:${column}`}: ${text}`;
  });
  return {
    identity: JSON.stringify([counted, ...listed.map((pair) => collisionText(pair, sources))]),
    count: counted,
    first: shown.join('; '),
  };
}
