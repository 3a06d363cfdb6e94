import type { RuleSource } from '../model.ts';
import { type RuleError, RuleErrorList } from '../rule-error.ts';
import { checkSources } from '../validate-sources.ts';
import { type DecodedFile, decodeRuleFile, type RuleFile } from './read-rule-file.ts';

export interface ReadRuleFilesOptions {
  /** Whether several files may add rules to one domain. */
  mergeDomains: boolean;
  /** How many errors, and how many warnings, to list. Defaults to 1,000. */
  maxErrors?: number;
}

export interface RuleReading {
  /** One for each file, in their order; none when there is an error. */
  sources: RuleSource[];
  /** Where the values of each source stand. */
  places: ReadonlyMap<RuleSource, DecodedFile['placeOf']>;
  /** The first is the one that the Go service would report: what cannot be read, then what makes no sense. */
  errors: RuleError[];
  /** How many errors there are, listed or not. */
  errorCount: number;
  /** What is accepted and has no effect. */
  warnings: RuleError[];
}

/** Reads and checks all files of one load. They go by the order given, which should be that of their names. */
export function readRuleFiles(files: readonly RuleFile[], options: ReadRuleFilesOptions): RuleReading {
  const errors = new RuleErrorList(options.maxErrors);
  const warnings = new RuleErrorList(options.maxErrors);
  const bySource = new Map<RuleSource, DecodedFile>();
  for (const file of files) {
    const result = decodeRuleFile(file);
    for (const error of result.errors) errors.add(error);
    for (const warning of result.warnings) warnings.add(warning);
    if (result.source === undefined) continue;
    bySource.set(result.source, result);
  }
  const sources = [...bySource.keys()];
  checkSources(sources, options, (problem) => {
    const file = bySource.get(problem.source);
    if (file === undefined) return;
    if (file.followUps.includes(problem, () => isWritten(file, problem.path))) return;
    const place = errors.isFull ? undefined : file.placeOf(problem.path);
    errors.add({
      code: problem.code,
      source: problem.source.name,
      text: problem.text,
      path: problem.path,
      line: place?.line,
      column: place?.column,
    });
  });
  return {
    sources: errors.count === 0 ? sources : [],
    places: new Map([...bySource].map(([source, { placeOf }]) => [source, placeOf])),
    errors: errors.errors,
    errorCount: errors.count,
    warnings: warnings.errors,
  };
}

/** A value that is missing is placed where the map that lacks it begins. */
function isWritten(file: DecodedFile, path: readonly (string | number)[]): boolean {
  const place = file.placeOf(path);
  const map = file.placeOf(path.slice(0, -1));
  return place.line !== map.line || place.column !== map.column;
}
