/** Converts the content of a mapper file to the rules that apply, including its defaults. */
import { type CostBudget, newCostBudget, spend } from '../../process/regex/expression.ts';
import type { DocumentPath, PathProblem } from '../../rules/yaml/places.ts';
import {
  defaultBuckets,
  defaultSummary,
  type Mapping,
  type MappingRule,
  type ObserverOptions,
  Template,
} from '../stats/prometheus/mapping-rules.ts';
import { maxNameLength } from '../stats/registry/name-budget.ts';
import { NameSearch } from '../stats/registry/name-search.ts';
import { quoted, type WrittenDefaults, type WrittenMapping } from './mapper-schema.ts';

export interface ReadMapping {
  mapping: Mapping;
  problems: PathProblem[];
  /** Problems that are reported, but do not reject the file. */
  warnings: PathProblem[];
}

type Common = Pick<
  WrittenMapping,
  'observer_type' | 'timer_type' | 'buckets' | 'quantiles' | 'summary_options' | 'histogram_options'
>;
const globPattern = /^(?:\*|[a-zA-Z_][a-zA-Z0-9_-]*)(?:\.(?:\*|[a-zA-Z0-9_][a-zA-Z0-9_-]*))*$/;

export function readMapping(written: {
  defaults?: WrittenDefaults | undefined;
  mappings?: readonly WrittenMapping[] | undefined;
}): ReadMapping {
  const { defaults = {}, mappings = [] } = written;
  const problems: PathProblem[] = [];
  const warnings: PathProblem[] = effectless(defaults, ['defaults']);
  const budget = newCostBudget(maxNameLength);
  const rules = mappings.map((one, index): MappingRule => {
    const path = ['mappings', index];
    const matchType = one.match_type ?? defaults.match_type ?? 'glob';
    const match = matchType === 'glob' ? globOf(one.match) : expressionOf(one.match, budget);
    if (match.invalid !== undefined) problems.push({ path: [...path, 'match'], message: match.invalid });
    problems.push(...clashes(one, defaults, path));
    warnings.push(
      ...effectless(one, path),
      ...lostReferences(one, match.references, path),
      ...fallingCounters(one, path),
    );
    return ruleOf(one, matchType, defaults);
  });
  const unmapped = { observer: observerOf({}, defaults), ttlMs: defaults.ttl ?? 0 };
  const globDisableOrdering = defaults.glob_disable_ordering ?? false;
  return { mapping: { rules, globDisableOrdering, unmapped }, problems, warnings };
}

function ruleOf(
  one: WrittenMapping,
  matchType: MappingRule['matchType'],
  defaults: WrittenDefaults,
): MappingRule {
  const kind = one.match_metric_type === 'timer' ? 'observer' : one.match_metric_type;
  return {
    matchType,
    match: one.match,
    kind,
    action: one.action ?? 'map',
    name: one.name,
    labels: Object.entries(one.labels ?? {}),
    honorLabels: one.honor_labels ?? false,
    help: one.help === '' ? undefined : one.help,
    scale: one.scale ?? 1,
    ttlMs: one.ttl || (defaults.ttl ?? 0),
    observer: observerOf(one, defaults),
  };
}

function observerType(one: Common, defaults: Common): 'histogram' | 'summary' {
  return one.observer_type ?? one.timer_type ?? defaults.observer_type ?? defaults.timer_type ?? 'summary';
}

function observerOf(one: Common, defaults: Common): ObserverOptions {
  if (observerType(one, defaults) === 'histogram') {
    const candidates = [
      one.buckets,
      one.histogram_options?.buckets,
      defaults.histogram_options?.buckets,
      defaults.buckets,
    ];
    return { type: 'histogram', buckets: firstFilled(candidates) ?? defaultBuckets };
  }
  const [own, common] = [one.summary_options, defaults.summary_options];
  const written = firstFilled([one.quantiles, own?.quantiles, common?.quantiles, defaults.quantiles]);
  return {
    type: 'summary',
    quantiles:
      written === undefined
        ? defaultSummary.quantiles
        : [...new Set(written.map(({ quantile }) => quantile))].sort((a, b) => a - b),
    maxAgeMs: own?.max_age || common?.max_age || defaultSummary.maxAgeMs,
    ageBuckets: own?.age_buckets || common?.age_buckets || defaultSummary.ageBuckets,
  };
}

function firstFilled<T>(lists: readonly (readonly T[] | undefined)[]): readonly T[] | undefined {
  return lists.find((list) => list !== undefined && list.length > 0);
}

/** The groups that names and labels may refer to. Undefined if the expression cannot be read. */
interface Match {
  invalid?: string;
  references: ReadonlySet<string> | undefined;
}

function globOf(match: string): Match {
  const references = globReferences(match);
  return globPattern.test(match) ? { references } : { invalid: `invalid match ${quoted(match)}`, references };
}

function expressionOf(match: string, budget: CostBudget): Match {
  try {
    const search = new NameSearch(match);
    spend(budget, match, search.stepCost);
    return { references: expressionReferences(search) };
  } catch (error) {
    const invalid = `invalid regex ${quoted(match)}: ${(error as Error).message}`;
    return { invalid, references: undefined };
  }
}

function clashes(one: WrittenMapping, defaults: WrittenDefaults, path: DocumentPath): PathProblem[] {
  const found: PathProblem[] = [];
  const type = observerType(one, defaults);
  const foreign = type === 'histogram' ? 'summary_options' : 'histogram_options';
  // If no type is written, the type is a summary only by default, and both may be present.
  const writtenType = one.observer_type ?? one.timer_type ?? defaults.observer_type ?? defaults.timer_type;
  if (writtenType !== undefined && one[foreign] !== undefined) {
    found.push({ path: [...path, foreign], message: `a ${type} has no ${foreign}` });
  }
  if (one.buckets !== undefined && one.histogram_options?.buckets !== undefined) {
    found.push({ path: [...path, 'buckets'], message: 'buckets are also in histogram_options' });
  }
  if (one.quantiles !== undefined && one.summary_options?.quantiles !== undefined) {
    found.push({ path: [...path, 'quantiles'], message: 'quantiles are also in summary_options' });
  }
  return found;
}

/** Reports options of statsd_exporter that this program accepts but does not use. */
function effectless(one: Common, path: DocumentPath): PathProblem[] {
  const reasons = {
    native_histogram_bucket_factor: 'native histograms are not supported',
    native_histogram_max_buckets: 'native histograms are not supported',
    buf_cap: 'the limiter does not buffer',
  };
  const groups = { histogram_options: one.histogram_options, summary_options: one.summary_options };
  return Object.entries(groups).flatMap(([group, options]) =>
    Object.entries(reasons).flatMap(([name, reason]) =>
      options !== undefined && Object.hasOwn(options, name)
        ? [{ path: [...path, group, name], message: `${name} has no effect: ${reason}` }]
        : [],
    ),
  );
}

/** Reports `$1_total` in place of `${1}_total`, because it is always empty. */
function lostReferences(
  one: WrittenMapping,
  known: ReadonlySet<string> | undefined,
  path: DocumentPath,
): PathProblem[] {
  if (known === undefined) return [];
  const texts: [DocumentPath, string][] = [
    [[...path, 'name'], one.name],
    ...Object.entries(one.labels ?? {}).map(([label, value]): [DocumentPath, string] => [
      [...path, 'labels', label],
      value,
    ]),
  ];
  return texts.flatMap(([at, text]) =>
    new Template(text).references
      .filter((reference) => !known.has(reference))
      .map((reference) => ({
        path: at,
        message: `${quoted(text)}: \${${reference}} has no group and is always empty`,
      })),
  );
}

/** Reports counters that can fall. statsd_exporter leaves such counters out, too. */
function fallingCounters(
  { scale = 1, match_metric_type: type }: WrittenMapping,
  path: DocumentPath,
): PathProblem[] {
  if (scale >= 0 || (type !== undefined && type !== 'counter')) return [];
  return [{ path: [...path, 'scale'], message: 'counters cannot fall: those that match are dropped' }];
}

function globReferences(match: string): Set<string> {
  const stars = match.split('.').filter((segment) => segment === '*').length;
  return new Set(Array.from({ length: stars }, (_, index) => String(index + 1)));
}

function expressionReferences({ groupCount, namedGroups }: NameSearch): Set<string> {
  const numbers = Array.from({ length: groupCount + 1 }, (_, index) => String(index));
  return new Set([...numbers, ...Object.keys(namedGroups)]);
}
