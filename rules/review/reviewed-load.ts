/** What there is to say of rules that are loaded together, each with its place: for `check`, and for a limiter's log. */
import type { CounterKeys } from '../counter-keys.ts';
import type { RuleSource } from '../model.ts';
import type { RuleError } from '../rule-error.ts';
import { type MeetingsSummary, meetingCounters, meetingsSummary } from './meeting-counters.ts';
import { reviewSources } from './review-sources.ts';
import { compositeOf } from './rule-level.ts';
import type { RuleWarning, RuleWarningCode } from './rule-warning.ts';

/** A source and the places of its values. */
export interface LocatedSource {
  source: RuleSource;
  /** How warnings name where it is from. */
  file: string;
  /** Of the value at a path in the spelling of rule files; undefined where unknown. */
  placeOf(path: readonly (string | number)[]): { line: number; column: number } | undefined;
}

/** A warning as it is shown. */
export interface PlacedWarning extends Pick<RuleError, 'source' | 'text' | 'line' | 'column'> {
  code: RuleWarningCode;
  hint: string;
}

/** What a limiter tells of rules that it has loaded. */
export interface RulesReview {
  /** The first `maxListed`. */
  warnings: LoadWarning[];
  /** Of all warnings. */
  total: number;
  /** Rules whose counters could meet in one key; undefined: none, or with unambiguous keys. */
  meetings: MeetingsSummary | undefined;
}

export interface LoadWarning extends Pick<RuleError, 'source' | 'text' | 'line' | 'column'> {
  /** As long as it is equal the warning is the same, wherever its lines have moved to. */
  identity: string;
  /** By keys and values, from the top level down: `database_users.path`. Undefined for a whole file. */
  rule: string | undefined;
  hint: string | undefined;
}

/** Ours: nobody reads more, and a limiter remembers them until the next load. */
const maxListed = 1_000;

export interface ReviewedLoad {
  sources: readonly LocatedSource[];
  /** What was told while they were read. */
  warnings: readonly RuleError[];
}

export interface ReviewOptions {
  counterKeys: CounterKeys;
  /** SANITIZE_DESCRIPTOR_METRIC_DOTS. */
  undottedMetrics: boolean;
}

/** Only what is listed is placed, as that means to parse once more. */
export function reviewLoad({ sources, warnings: read }: ReviewedLoad, options: ReviewOptions): RulesReview {
  const plain = sources.map(({ source }) => source);
  const byName = new Map(plain.map((source) => [source.name, source]));
  const found = meantWarnings(sources).filter(
    ({ code }) => code !== 'dotted-metric' || !options.undottedMetrics,
  );
  const warnings = read.slice(0, maxListed).map((error): LoadWarning => {
    const { code, source, text, line, column, path } = error;
    const rule = ruleName(byName.get(source), path);
    return {
      identity: identityOf([code, source, rule, text]),
      source,
      text,
      line,
      column,
      rule,
      hint: undefined,
    };
  });
  for (const warning of found.slice(0, maxListed - warnings.length)) {
    const { code, source, text, line, column, hint } = placedWarning(warning, sources);
    const rule = ruleName(plain[warning.source], warning.path);
    // The text that is shown may name lines of another rule.
    const identity = identityOf([code, source, rule, warning.text, ...warning.path.slice(-2)]);
    warnings.push({ identity, source, text, line, column, rule, hint });
  }
  const meetings = options.counterKeys === 'compatible' ? meetingsSummary(meetingCounters(plain)) : undefined;
  return { warnings, total: read.length + found.length, meetings };
}

/** Of sources that are loaded together. `beside`: see `reviewSources`. */
export function placedWarnings(
  sources: readonly LocatedSource[],
  beside: readonly RuleSource[] = [],
): PlacedWarning[] {
  return meantWarnings(sources, beside).map((warning) => placedWarning(warning, sources));
}

export function placedWarning(warning: RuleWarning, sources: readonly LocatedSource[]): PlacedWarning {
  const { code, hint, other } = warning;
  const { file, placeOf } = sources[warning.source]!;
  const place = placeOf(warning.path);
  let { text } = warning;
  if (other !== undefined) {
    const otherSource = sources[other.source]!;
    const line = otherSource.placeOf(other.path)?.line;
    const where = otherSource.file === file ? '' : `${otherSource.file} `;
    if (line !== undefined) text += ` (${where}line ${line})`;
  }
  return { code, source: file, text, line: place?.line, column: place?.column, hint };
}

function meantWarnings(sources: readonly LocatedSource[], beside: readonly RuleSource[] = []): RuleWarning[] {
  const plain = sources.map(({ source }) => source);
  return reviewSources(plain, beside).filter((warning) => !mayBeIntendedZero(warning, sources));
}

/**
 * A limit of 0 that is written out; where places are not known, it may be. One that is missing is placed where the map that
 * lacks it begins.
 */
function mayBeIntendedZero({ code, source, path }: RuleWarning, sources: readonly LocatedSource[]): boolean {
  if (code !== 'limit-of-zero') return false;
  const { placeOf } = sources[source]!;
  const [value, map] = [placeOf(path), placeOf(path.slice(0, -1))];
  return value === undefined || value.line !== map?.line || value.column !== map.column;
}

function ruleName(source: RuleSource | undefined, path: readonly (string | number)[]): string | undefined {
  const names: string[] = [];
  let level = source?.descriptors ?? [];
  for (let step = 0; path[step] === 'descriptors'; step += 2) {
    const rule = level[path[step + 1] as number];
    if (rule === undefined) break;
    names.push(compositeOf(rule));
    level = rule.descriptors;
  }
  return names.length === 0 ? undefined : names.join('.');
}

function identityOf(parts: readonly unknown[]): string {
  return JSON.stringify(parts);
}
