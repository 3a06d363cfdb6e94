import { dirname } from 'node:path';
import { readCallersFile } from '../../limiter/callers/callers-file.ts';
import { whyUnassignable } from '../../rules/bucket-id.ts';
import type { CounterKeys } from '../../rules/counter-keys.ts';
import { manifestWords } from '../../rules/language/tables.ts';
import { isLeased } from '../../rules/lease.ts';
import type { Rule } from '../../rules/model.ts';
import { type ProfilesFile, readProfilesFile } from '../../rules/proxy/read-profiles.ts';
import { looksLikeOverrides } from '../../rules/reader/read-override.ts';
import { looksLikeRules } from '../../rules/reader/read-rule-files.ts';
import { collidingCounters } from '../../rules/review/colliding-counters.ts';
import { collisionWarning, placedWarnings } from '../../rules/review/review-sources.ts';
import type { RuleError } from '../../rules/rule-error.ts';
import { decodeYaml } from '../../rules/yaml/text.ts';
import { parentKeyPlace } from '../mistakes/caret.ts';
import { explained, withHint, withoutConsequences } from '../mistakes/mistakes.ts';
import { allTexts, linesOfTexts, type RuleInput } from '../shared/read-input.ts';
import type { LoadedSource, RuleText, SkippedObject } from '../shared/read-rule-texts.ts';
import { count } from '../shared/text.ts';
import {
  byPlace,
  type Finding,
  type Found,
  findingOf,
  type LinesOf,
  type Strictness,
  severityOf,
} from './check-report.ts';
import { domainConflicts } from './domain-conflicts.ts';

/** The result for one argument. */
export interface CheckedInput {
  path: string;
  files: string[];
  domains: number;
  rules: number;
  /** Valid callers files, with the number of their entries. */
  callersFiles: { file: string; callers: number }[];
  /** Valid files of profiles, with the number of their profiles. */
  profilesFiles: { file: string; profiles: number }[];
  skipped: SkippedObject[];
  otherFiles: string[];
  /** The listed findings, in the order of files and lines. In the words of the Go program, they have its order. */
  findings: Finding[];
  /** The number of errors that are not among the findings. */
  unlisted: number;
  /** Whether the argument itself cannot be read. */
  isUnreadable: boolean;
  /** The number of findings that `--allow` waived. */
  allowed: number;
  /** The files of rules that are not reviewed until you correct the errors. */
  unreviewed: string[];
  /** The summary of an argument without errors; it replaces the numbers. */
  summary?: string;
}

export interface CheckInputOptions {
  mergeDomains: boolean;
  /** Whether the limiter has SANITIZE_DESCRIPTOR_METRIC_DOTS. */
  sanitizeDescriptorMetricDots: boolean;
  /** COUNTER_KEYS of the limiter. */
  counterKeys: CounterKeys;
  /** Why the limiter leases nothing, if that is known. */
  unleased: string | undefined;
  /** How quota clients answer requests for rules that cannot be assigned; undefined: the limiter serves no quota clients. */
  unassignable: 'denied' | 'allowed' | undefined;
  /** Kinds of findings that `--allow` waives. Limiters accept what they report. */
  allowed: ReadonlySet<string>;
  strictness: Strictness;
  /** Whether errors have the words and the order of the Go program. */
  inGoWords: boolean;
  /** Whether an argument without files is only a warning. */
  acceptsNoFiles?: boolean;
}

export function checkInput(input: RuleInput, options: CheckInputOptions): CheckedInput {
  const linesOf = linesOfTexts(input);
  const { inGoWords } = options;
  const rejected = errorFindings(input, linesOf, inGoWords);
  const callersFiles: CheckedInput['callersFiles'] = [];
  for (const { path, read } of readings(input.callersFiles, readCallersFile)) {
    if (read.problems === undefined) callersFiles.push({ file: path, callers: read.callers.length });
    rejected.push(...rejectedOf('callers', path, read.problems, linesOf));
  }
  const profilesFiles: CheckedInput['profilesFiles'] = [];
  for (const { path, read } of readings(input.profilesFiles, profilesOf)) {
    if (read.problems === undefined) profilesFiles.push({ file: path, profiles: read.profiles.length });
    rejected.push(...rejectedOf('profiles', path, read.problems, linesOf));
  }
  const unlisted = input.errorCount - input.errors.length;
  const others = input.callersFiles.length + input.profilesFiles.length;
  const isEmpty = input.sources.length + input.skipped.length + others === 0;
  if (unlisted + rejected.length === 0 && isEmpty && input.overrides === 0 && !options.acceptsNoFiles)
    rejected.push(findingOf('error', noRules(input), ruleFileHint, linesOf));
  const rules = countRulesOf(input.sources);
  const noticed = input.warnings.map((warning) => describedFinding('warning', warning, linesOf, inGoWords));
  // The Go program stops at the first error of a load, and programs read its lines.
  const sources = inGoWords ? input.sources : input.reviewable;
  const reviewed = reviewFindings(sources, options, linesOf);
  const found = [
    ...noticed,
    ...reviewed.filter((one) => !followsFrom(one, noticed)),
    ...amongRules(input, linesOf),
  ];
  found.push(...idleRules(input.path, sources, options));
  if (unlisted + rejected.length + input.sources.length + others + input.overrides === 0)
    found.push(nothingChecked(input));
  const accepted = found
    .filter(({ code }) => !options.allowed.has(code))
    .map((finding) => ({ ...finding, severity: severityOf(finding.code, options.strictness) }));
  const files = allTexts(input).map(({ path }) => path);
  const findings = inGoWords ? [...accepted, ...rejected] : [...rejected, ...accepted].sort(byPlace(files));
  return {
    path: input.path,
    files,
    findings,
    domains: new Set(input.sources.map(({ source }) => source.domain)).size,
    rules,
    callersFiles,
    profilesFiles,
    skipped: [...input.skipped, ...passedOver(input)],
    otherFiles: input.otherFiles,
    unlisted,
    isUnreadable: input.errors.some(({ code, source }) => code === 'unreadable' && source === input.path),
    allowed: found.length - accepted.length,
    unreviewed: inGoWords ? [] : files.filter((file) => input.unreviewed.has(file)),
  };
}

/** Returns the errors of an argument, in plain words unless those of the Go program are requested. */
export function errorFindings(input: RuleInput, linesOf: LinesOf, inGoWords = false): Finding[] {
  const listed = inGoWords ? input.errors : withoutConsequences(input.errors);
  return listed.map((error) => describedFinding('error', error, linesOf, inGoWords)).filter(isFirst);
}

function describedFinding(
  severity: Finding['severity'],
  error: RuleError,
  linesOf: LinesOf,
  inGoWords: boolean,
): Finding {
  const lines = linesOf(error.source);
  const found = inGoWords ? withHint(error, lines) : explained(error, lines);
  return findingOf(severity, found, found.hint, linesOf);
}

/** Whether this is the first finding with these words at this place. */
function isFirst({ file, line, column, message }: Finding, index: number, all: readonly Finding[]): boolean {
  if (line === undefined) return true;
  const same = (one: Finding) =>
    one.file === file && one.line === line && one.column === column && one.message === message;
  return all.findIndex(same) === index;
}

/** Whether another finding explains this one: a rule changes nothing because its limit is misplaced a line or two below. */
function followsFrom({ code, file, line = 0 }: Finding, others: readonly Finding[]): boolean {
  if (code !== 'no-effect') return false;
  return others.some(
    (one) => one.code === 'misplaced-key' && one.file === file && Math.abs((one.line ?? 0) - line) <= 2,
  );
}

/** Returns the results of files that are not rules. Files that are not text are reported elsewhere. */
export function readings<Reading>(
  files: readonly RuleText[],
  read: (text: string) => Reading,
): { path: string; read: Reading }[] {
  return files.flatMap(({ path, text }) => {
    const decoded = decodeYaml(text);
    return typeof decoded === 'string' ? [{ path, read: read(decoded) }] : [];
  });
}

/** Reports other files in a folder of rules. A limiter reads every file there as rules and rejects all of them if one is not. */
function amongRules({ texts, callersFiles, profilesFiles }: RuleInput, linesOf: LinesOf): Finding[] {
  const overrides = texts.filter(({ text }) => looksLikeOverrides(text));
  const others = [...callersFiles, ...profilesFiles, ...overrides];
  // Nearly all folders hold nothing else, and to look at rules is to parse them.
  if (others.length === 0) return [];
  const ofRules = texts.filter((file) => !overrides.includes(file) && looksLikeRules(file.text));
  const folders = new Set(ofRules.map(({ path }) => dirname(path)));
  const what = 'is in a folder of rule files: a limiter would load it as a rule file, and reject all files';
  return others.flatMap(({ path: source }) => {
    if (!folders.has(dirname(source))) return [];
    const found = { code: 'misplaced-file', source, text: what };
    return [findingOf('warning', found, 'move it out of the folder of rules', linesOf)];
  });
}

export function profilesOf(text: string): ProfilesFile {
  return readProfilesFile(text);
}

function rejectedOf(
  code: 'callers' | 'profiles',
  source: string,
  problems: readonly { line: number; column: number; message: string }[] = [],
  linesOf: LinesOf,
): Finding[] {
  return problems.map(({ message: text, ...place }) =>
    findingOf('error', { code, source, text, ...place }, undefined, linesOf),
  );
}

function reviewFindings(
  sources: readonly LoadedSource[],
  options: CheckInputOptions,
  linesOf: LinesOf,
): Finding[] {
  const files = sources.filter(({ kind }) => kind === 'rule-file');
  const loads = Map.groupBy(files, ({ load }) => load);
  const warnings = [...loads.values()].flatMap((load) => placedWarnings(load, []));
  for (const loaded of sources) {
    if (loaded.kind === 'rule-file') continue;
    const beside = sources.filter((other) => other !== loaded && isMergedWith(other, loaded, options));
    const found = placedWarnings(
      [loaded],
      beside.map(({ source }) => source),
    );
    const inWords = loaded.kind === 'manifests' ? manifestWords : (text: string) => text;
    for (const { text, hint, ...place } of found) {
      // JSON of xDS omits zeros, so a limit of 0 may be intended.
      if (loaded.kind === 'resources' && place.code === 'limit-of-zero') continue;
      warnings.push({ ...place, text: inWords(text), hint: inWords(hint) });
    }
  }
  const findings = warnings.map((warning) => {
    const { code, source, line, column = 1 } = warning;
    const lines = line === undefined || code !== 'limit-of-zero' ? undefined : linesOf(source);
    const place = lines === undefined ? {} : parentKeyPlace(lines, { line: line!, column });
    return findingOf('warning', { ...warning, ...place }, warning.hint, linesOf);
  });
  if (options.counterKeys === 'compatible') {
    const together = Map.groupBy(sources, ({ kind, load, fleet, className }) =>
      kind === 'rule-file' ? `load ${load}` : `${kind} ${className} ${fleet}`,
    );
    for (const some of together.values())
      for (const finding of collisionFindings(some, linesOf)) findings.push(finding);
  }
  for (const { hint, ...conflict } of domainConflicts(sources, options)) {
    findings.push(findingOf('warning', conflict, hint, linesOf));
  }
  return findings.filter(({ code }) => code !== 'dotted-metric' || !options.sanitizeDescriptorMetricDots);
}

/** Returns a finding for each rule that shares counters with a rule before it. The limiter logs one line for all of them. */
function collisionFindings(sources: readonly LoadedSource[], linesOf: LinesOf): Finding[] {
  const { pairs, isComplete } = collidingCounters(sources.map(({ source }) => source));
  const bySecond = Map.groupBy(pairs, ({ second }) => `${second.source} ${second.path.join(' ')}`);
  return [...bySecond.values()].map((collisions, index) => {
    const isLast = index === bySecond.size - 1;
    const more = { others: collisions.length - 1, isComplete: isComplete || !isLast };
    const warning = collisionWarning(collisions[0]!, sources, more);
    return findingOf('warning', warning, warning.hint, linesOf);
  });
}

function isMergedWith(
  a: LoadedSource,
  b: LoadedSource,
  { mergeDomains }: { mergeDomains: boolean },
): boolean {
  const isServedWith = a.kind === b.kind && a.className === b.className && a.fleet === b.fleet;
  return mergeDomains && isServedWith && a.source.domain === b.source.domain;
}

const ruleFileHint = 'rule files are called *.yaml, and their first line is "domain: <name>"';

function noRules({ path, texts, otherFiles }: RuleInput): Found {
  const text =
    texts.length === 0 && otherFiles.length === 0
      ? 'contains no *.yaml, *.yml or *.json file'
      : 'contains no rules';
  return { code: 'unreadable', source: path, text };
}

/** Reports an argument that has objects, but none of Weir's kinds, or an empty folder that is accepted. */
function nothingChecked(input: RuleInput): Finding {
  const { path, skipped } = input;
  if (skipped.length === 0)
    return findingOf('warning', { ...noRules(input), code: 'no-rules' }, ruleFileHint, () => undefined);
  const text = `contains no rules: nothing was checked of ${count(skipped.length, 'object')}`;
  const found = { code: 'no-rules', source: path, text };
  return findingOf(
    'warning',
    found,
    'rules are RateLimitConfigs, or rule files in ConfigMaps',
    () => undefined,
  );
}

/** Returns a warning for the rules of a file that ask for something that the limiter does not do. */
function idleRules(
  path: string,
  sources: readonly LoadedSource[],
  { unleased, unassignable }: Pick<CheckInputOptions, 'unleased' | 'unassignable'>,
): Finding[] {
  const kinds = [
    {
      code: 'never-leased',
      reason: unleased,
      isOfKind: isLeased,
      what: `a lease without effect: ${unleased}`,
      hint: 'leases need LEASES=on and a Redis with scripts',
    },
    {
      code: 'never-assigned',
      reason: unassignable,
      isOfKind: (rule: Rule) => whyUnassignable(rule) !== undefined,
      what: `limits that cannot be assigned: requests of quota clients for them are ${unassignable}`,
      hint: 'docs/quota-service.md lists such rules; RLQS_UNASSIGNABLE decides what happens to requests',
    },
  ];
  return kinds.flatMap(({ code, reason, isOfKind, what, hint }) => {
    const rules = reason === undefined ? 0 : countRulesOf(sources, isOfKind);
    if (rules === 0) return [];
    const text = `${count(rules, 'rule')} ${rules === 1 ? 'has' : 'have'} ${what}`;
    return [findingOf('warning', { code, source: path, text }, hint, () => undefined)];
  });
}

/** Lists files of a folder that no limiter reads but that look like rules. */
function passedOver({ otherFiles, warnings }: RuleInput): SkippedObject[] {
  const files = warnings.filter(({ code }) => code === 'ignored-file').map(({ source }) => source);
  return [...new Set([...files, ...otherFiles])].map((file) => ({ file, type: 'file', line: undefined }));
}

function countRulesOf(
  sources: readonly LoadedSource[],
  isCounted: (rule: Rule) => boolean = () => true,
): number {
  const countIn = (rules: readonly Rule[]): number =>
    rules.reduce((sum, rule) => sum + (isCounted(rule) ? 1 : 0) + countIn(rule.descriptors), 0);
  return sources.reduce((sum, { source }) => sum + countIn(source.descriptors), 0);
}
