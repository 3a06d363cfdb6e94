/** Runs test files against the rules beside them. Reports unexpected answers, and rules that no test reaches. */

import { existsSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { countingOptions } from '../../limiter/assembly/decision-service.ts';
import { counterSettings } from '../../limiter/settings/counting-settings.ts';
import { decisionSettings, headerSettings } from '../../limiter/settings/decision-settings.ts';
import type { LimiterSettings } from '../../limiter/settings/settings.ts';
import { readBoundedFile } from '../../process/files/bounded-file.ts';
import { systemErrorReason } from '../../process/log/error-text.ts';
import { textKind } from '../../rules/reader/read-manifests.ts';
import { looksLikeOverrides } from '../../rules/reader/read-override.ts';
import { looksLikeRules } from '../../rules/reader/read-rule-files.ts';
import { limitedRules } from '../../rules/review/explain-descriptor.ts';
import { formatRuleError } from '../../rules/rule-error.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { LineIndex, type TextPlace } from '../../rules/yaml/places.ts';
import { decodeYaml } from '../../rules/yaml/text.ts';
import { errorFindings } from '../check/check-input.ts';
import { type Finding, findingOf } from '../check/check-report.ts';
import { ExplainReport } from '../explain/explain-report.ts';
import { explainRequest } from '../explain/explain-request.ts';
import { checkOptions, readReplaySettings, replaySettingNames } from '../replay/replay-command.ts';
import { Containment } from '../shared/contained-files.ts';
import { hintOf, UsageError } from '../shared/flags.ts';
import {
  type InputOptions,
  linesOfTexts,
  loadConflicts,
  mayServe,
  readInput,
  type ServedBy,
  sourcesServedBy,
} from '../shared/read-input.ts';
import type { LoadedSource } from '../shared/read-rule-texts.ts';
import { type TextStyler, timeText } from '../shared/text.ts';
import { comparable, type DecidedStep, SteppedLimiter } from './decide-steps.ts';
import { type AskStep, answersText, descriptorsText } from './decision-steps.ts';
import { type PlacedText, type RuleTest, readTestFile, type TestFile } from './test-file.ts';

/** Settings of a limiter that change its answers. */
const settingNames: string[] = [
  ...[counterSettings, decisionSettings, headerSettings].flatMap((rows) =>
    Object.values(rows).map(({ name }) => name),
  ),
  ...replaySettingNames,
];

export interface RunOptions {
  /** The folders of `--root`, resolved. */
  roots: readonly string[];
  served: ServedBy;
  paint: TextStyler;
}

/** The result of one test. A file that cannot be run has one result for all of its tests. */
export interface TestOutcome {
  name: string;
  file: string;
  line: number;
  answers: number;
  /** Findings. Unexpected answers have an explanation in lines as `weir explain` prints them. */
  failures: Finding[];
}

/** A rule with a limit. */
export interface CoveredRule {
  rule: string;
  file: string;
  line: number | undefined;
  isReached: boolean;
}

export interface TestRun {
  outcomes: TestOutcome[];
  /** Undefined if some tests could not run, so that their coverage is not known. */
  coverage: CoveredRule[] | undefined;
  /** Files and folders that the result depends on. */
  read: ReadonlySet<string>;
}

/** The reason why a whole file cannot run. */
class UnusableTests extends Error {
  readonly place: TextPlace | undefined;
  /** Findings that replace the message if the rules are invalid. */
  readonly findings: readonly Finding[];

  constructor(message: string, place?: TextPlace, findings: readonly Finding[] = []) {
    super(message);
    this.place = place;
    this.findings = findings;
  }
}

interface Loaded {
  /** Rules by the paths that answers name. */
  covered: ReadonlyMap<string, CoveredRule>;
  sources: readonly LoadedSource[];
  table: RuleTable;
  settings: LimiterSettings;
}

/** `files` are tests. `others` are rule files that count for coverage even if no test loads them. */
export class TestRunner implements TestRun {
  readonly outcomes: TestOutcome[] = [];
  readonly read = new Set<string>();
  readonly #covered = new Map<string, CoveredRule>();
  readonly #options: RunOptions;

  constructor(options: RunOptions) {
    this.#options = options;
  }

  get coverage(): CoveredRule[] | undefined {
    const allRan = this.outcomes.every(({ failures }) =>
      failures.every(({ code }) => code === 'unexpected-answer'),
    );
    return allRan ? [...this.#covered.values()] : undefined;
  }

  run(file: string): void {
    const before = this.outcomes.length;
    let lines = new LineIndex('');
    try {
      this.read.add(file);
      const text = decodedText(file, this.#options.roots);
      lines = new LineIndex(text);
      const reading = readTestFile(text, basename(file));
      if ('problems' in reading) {
        const failures = reading.problems.map(({ message, ...place }) =>
          failure('invalid-test', message, file, place, lines),
        );
        this.outcomes.push({ name: basename(file), file, line: 1, answers: 0, failures });
        return;
      }
      const loaded = this.#load(file, reading);
      for (const test of reading.tests) this.outcomes.push(this.#test(file, test, loaded, lines));
    } catch (error) {
      if (!(error instanceof UnusableTests || error instanceof UsageError)) throw error;
      const { place, findings } = error instanceof UnusableTests ? error : { place: undefined, findings: [] };
      const failures =
        findings.length > 0 ? [...findings] : [failure('unreadable', error.message, file, place, lines)];
      this.outcomes.splice(before);
      this.outcomes.push({ name: basename(file), file, line: 1, answers: 0, failures });
    }
  }

  /** Counts the rules of a file that no test may have loaded. "weir check" reports its errors. */
  addRulesOf(file: string): void {
    try {
      const text = readBoundedFile(file);
      if (looksLikeOverrides(text) || !(looksLikeRules(text) || isOfManifests(text))) return;
    } catch {
      return;
    }
    const { sources, errorCount } = readInput(file, { mergeDomains: true, roots: this.#options.roots });
    if (errorCount === 0) {
      // Without a selection, all sources count, because the tests of each file name theirs.
      const { className, fleet } = this.#options.served;
      const ofClass = sources.filter((one) => mayServe(one, 'className', className));
      this.#addRules(ofClass.filter((one) => mayServe(one, 'fleet', fleet)));
    }
  }

  #load(file: string, { rules, settings: given }: TestFile): Loaded {
    const settings = settingsOf(given);
    const options = { ...checkOptions(settings), roots: this.#options.roots };
    const all = rulesPaths(file, rules).flatMap(({ path, place }) => this.#sources(path, options, place));
    const sources = sourcesServedBy(all, this.#options.served);
    const [clash] = loadConflicts(sources, options);
    if (clash !== undefined) throw new UnusableTests(formatRuleError(clash));
    const table = new RuleTable(compileRules(sources.map(({ source }) => source)));
    return { sources, table, settings, covered: this.#addRules(sources) };
  }

  #sources(path: string, options: InputOptions, place: TextPlace | undefined): LoadedSource[] {
    this.read.add(path);
    const input = readInput(path, options);
    const { sources, errors, errorCount } = input;
    const [first] = errors;
    if (first?.code === 'unreadable' && first.source === path)
      throw new UnusableTests(formatRuleError(first), place);
    if (errorCount > 0)
      throw new UnusableTests(`${path}: cannot be read`, place, errorFindings(input, linesOfTexts(input)));
    if (sources.length === 0) throw new UnusableTests(`${path}: contains no rules`, place);
    return sources;
  }

  #test(file: string, test: RuleTest, loaded: Loaded, lines: LineIndex): TestOutcome {
    const { table, settings, covered } = loaded;
    const { name, line, atMs } = test;
    const domain = domainOf(test, table);
    const limiter = new SteppedLimiter({ rules: table, settings, domain, atMs });
    const outcome: TestOutcome = { name, file, line, answers: 0, failures: [] };
    for (const step of test.steps) {
      const decided = limiter.take(step);
      if (decided === undefined) continue;
      outcome.answers += decided.answers.length;
      const message = differenceOf(decided);
      if (message === undefined) continue;
      const explanation = this.#explanation(decided, domain, loaded);
      outcome.failures.push({
        ...failure('unexpected-answer', message, file, decided.step, lines),
        explanation,
      });
    }
    for (const { path } of limiter.reached) {
      const rule = covered.get(path);
      if (rule !== undefined) rule.isReached = true;
    }
    return outcome;
  }

  #explanation({ step, atMs }: DecidedStep<AskStep>, domain: string, { sources, settings }: Loaded): string {
    const counting = countingOptions(settings);
    const request = explainRequest(sources, {
      ...counting,
      domain,
      descriptors: step.descriptors.map(({ entries }) => [...entries]),
      nowSeconds: Math.floor(atMs / 1000),
      defaultLease: 0,
      names: counting,
    });
    return new ExplainReport(sources, this.#options.paint, 0).text(domain, request);
  }

  #addRules(sources: readonly LoadedSource[]): Map<string, CoveredRule> {
    const all = new Map<string, CoveredRule>();
    for (const { source, file, placeOf } of sources) {
      for (const { path, place } of limitedRules(source)) {
        const key = `${shownPath(file)}\0${path}`;
        const { line } = placeOf([...place, 'key']) ?? { line: undefined };
        const rule = this.#covered.get(key) ?? { rule: path, file: shownPath(file), line, isReached: false };
        this.#covered.set(key, rule);
        all.set(path, rule);
      }
    }
    return all;
  }
}

function isOfManifests(content: Uint8Array): boolean {
  const text = decodeYaml(content);
  return typeof text === 'string' && textKind(text) === 'manifests';
}

/** Returns the rules of a test file: those it names, else the file of the same name, else all files beside it. */
function rulesPaths(file: string, given: readonly PlacedText[]): { path: string; place?: TextPlace }[] {
  const folder = dirname(file);
  if (given.length > 0)
    return given.map(({ text, ...place }) => ({ path: shownPath(join(folder, text)), place }));
  const stem = basename(file).replace(/\.test\.ya?ml$/, '');
  const named = [`${stem}.yaml`, `${stem}.yml`]
    .map((name) => join(folder, name))
    .find((path) => existsSync(path));
  return [{ path: named ?? folder }];
}

/** @throws UnusableTests with the place of the first error */
function settingsOf(given: readonly PlacedText[]): LimiterSettings {
  const texts: string[] = [];
  let settings = readReplaySettings(texts, settingNames);
  for (const { text, ...place } of given) {
    const name = text.split('=', 1)[0]!;
    if (!settingNames.includes(name)) {
      const taken =
        'tests take the settings of decisions, limit headers and counters, and MERGE_DOMAIN_CONFIG';
      throw new UnusableTests(
        `settings: "${name}" is none of them: ${taken}${hintOf(name, settingNames)}`,
        place,
      );
    }
    texts.push(text);
    try {
      settings = readReplaySettings(texts, settingNames);
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      throw new UnusableTests(error.message.replaceAll('--setting', 'settings'), place);
    }
  }
  return settings;
}

/** Returns the path relative to the working folder, as people write it. */
export function shownPath(path: string): string {
  const below = relative('', resolve(path));
  return below === '' ? '.' : below.startsWith('..') ? path : below;
}

function decodedText(file: string, roots: readonly string[]): string {
  const problem = new Containment(file, roots).problem();
  if (problem !== undefined) throw new UnusableTests(problem);
  try {
    const text = decodeYaml(readBoundedFile(file));
    if (typeof text === 'string') return text;
  } catch (error) {
    throw new UnusableTests(systemErrorReason(error));
  }
  throw new UnusableTests('is not UTF-8 text');
}

function domainOf({ domain, line, column, name }: RuleTest, table: RuleTable): string {
  const names = table.domainNames();
  const [only] = names;
  const known = names.slice(0, 10).join(', ');
  if (domain === undefined) {
    if (names.length === 1) return only!;
    throw new UnusableTests(`${name}: \`domain\` is missing, and the rules have several: ${known}`, {
      line,
      column,
    });
  }
  if (table.hasDomain(domain)) return domain;
  throw new UnusableTests(`${name}: there are no rules for the domain ${domain}, only for ${known}`, {
    line,
    column,
  });
}

/** Returns undefined if all answers are as expected. */
export function differenceOf({ step, atMs, answers }: DecidedStep<AskStep>): string | undefined {
  const seen = answers.map((answer, index) => comparable(answer, step.answers[index]!));
  const first = seen.findIndex((answer, index) => !isSame(answer, step.answers[index]!));
  if (first === -1) return undefined;
  const place = answers.length === 1 ? '' : `, from answer ${first + 1} on`;
  const asked = descriptorsText(step.descriptors);
  return `${asked}: decided ${answersText(seen)}, expected ${answersText(step.answers)}${place} (at ${timeText(atMs)})`;
}

function isSame(answer: object, expected: object): boolean {
  const fields = Object.entries(expected).filter(([, value]) => value !== undefined);
  return isDeepStrictEqual(answer, Object.fromEntries(fields));
}

function failure(
  code: string,
  message: string,
  file: string,
  place: TextPlace | undefined,
  lines: LineIndex,
): Finding {
  const found = { code, source: file, text: message, line: place?.line, column: place?.column };
  return findingOf('error', found, undefined, () => lines);
}
