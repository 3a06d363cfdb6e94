import { proxyKinds } from '../../rules/finding-kinds.ts';
import type { LineIndex } from '../../rules/yaml/places.ts';
import type { ReportedFinding } from '../forms/report.ts';
import { wordLength } from '../mistakes/caret.ts';
import { UsageError } from '../shared/flags.ts';
import { activeCharacters, count, escaped, placeText, type TextStyler } from '../shared/text.ts';
import type { CheckedInput } from './check-input.ts';

/** One error or warning, with the line of text that it is about. */
export interface Finding extends ReportedFinding {
  severity: 'error' | 'warning';
  excerpt: Excerpt | undefined;
}

/** Returns the lines of a file by its path; undefined for anything without lines, such as a folder. */
export type LinesOf = (file: string) => LineIndex | undefined;

/** An error of a reader, or a warning in the same form. */
export interface Found {
  code: string;
  source: string;
  text: string;
  /** The line, from 1; undefined if it is about a whole file. */
  line?: number | undefined;
  column?: number | undefined;
  /** The number of characters to mark, if the reader knows it better than the line shows. */
  length?: number | undefined;
}

export function findingOf(
  severity: Finding['severity'],
  { code, source, text, line, column, length: known }: Found,
  hint: string | undefined,
  linesOf: LinesOf,
): Finding {
  const content = line === undefined ? undefined : linesOf(source);
  const whole = content?.lineText(line ?? 1);
  const length = whole === undefined ? undefined : (known ?? wordLength(whole, column ?? 1));
  const excerpt = content === undefined ? undefined : excerptAt(content, line ?? 1, column ?? 1, length);
  return { severity, code, file: source, line, column, length, message: text, hint, excerpt };
}

/** Which accepted findings are errors: only those that the Go service's check rejects, the default, or all of them. */
export type Strictness = 'compat' | 'usual' | 'strict';

/** Every kind of finding that limiters accept, with its default severity. A finding is an error if it is certainly a mistake. */
const acceptedKinds = {
  'never-matches': 'error',
  'shadowed-wildcard': 'error',
  'no-effect': 'error',
  'replaces-nothing': 'error',
  'limit-of-zero': 'error',
  'large-estimate': 'error',
  'unread-document': 'error',
  'misplaced-key': 'error',
  'duplicate-key': 'error',
  'no-rules': 'warning',
  'replaces-unlimited': 'warning',
  'replaces-each-other': 'warning',
  'burst-of-zero': 'warning',
  'never-tighter': 'warning',
  'never-leased': 'warning',
  'never-assigned': 'warning',
  'mixed-hits-units': 'warning',
  'literal-pattern': 'warning',
  'dotted-metric': 'warning',
  'shared-metric': 'warning',
  'inner-shared-wildcard': 'warning',
  'colliding-counters': 'warning',
  'duplicate-domain': 'warning',
  'duplicate-object': 'warning',
  'ignored-file': 'warning',
  'misplaced-file': 'warning',
  unreadable: 'warning',
} as const satisfies Record<string, Finding['severity']>;

export const warningKinds = Object.keys(acceptedKinds) as (keyof typeof acceptedKinds)[];

/** Returns the severity of a finding that limiters accept. A finding that they reject is always an error. */
export function severityOf(kind: string, strictness: Strictness): Finding['severity'] {
  if (strictness !== 'usual') return strictness === 'strict' ? 'error' : 'warning';
  return (acceptedKinds as Record<string, Finding['severity'] | undefined>)[kind] ?? 'warning';
}

/** Returns the kinds that `--allow` names, separated by commas. @throws UsageError */
export function allowedKinds(values: readonly string[]): ReadonlySet<string> {
  const names = values.flatMap((value) => value.split(',')).map((name) => name.trim());
  for (const name of names) {
    if ([...warningKinds, ...proxyKinds].some((kind) => kind === name)) continue;
    throw new UsageError(`--allow: there is no kind "${name}"; there are ${warningKinds.join(', ')}`);
  }
  return new Set(names);
}

/** The line of text that a finding is about, and the place in it. */
export interface Excerpt {
  line: number;
  /** The text as written, shortened if it is long. */
  text: string;
  /** The column of the caret below the text, from 0. */
  caret: number;
  /** The number of characters that the caret marks, at least 1. */
  length: number;
}

/** Chosen: a line of this length fits beside a line number on most terminals. */
const longest = 100;

/** Returns undefined if the text has no such line. Line and column count from 1; `length` is the number of characters to mark. */
export function excerptAt(lines: LineIndex, line: number, column: number, length = 1): Excerpt | undefined {
  const whole = lines.lineText(line);
  if (whole === undefined) return undefined;
  const at = Math.min(Math.max(column - 1, 0), whole.length);
  if (whole.length <= longest) return { line, text: whole, caret: at, length };
  const from = Math.max(0, Math.min(at - longest / 2, whole.length - longest));
  const before = from > 0 ? '...' : '';
  const after = from + longest < whole.length ? '...' : '';
  const shown = Math.min(length, Math.max(1, from + longest - at));
  return {
    line,
    text: before + whole.slice(from, from + longest) + after,
    caret: at - from + before.length,
    length: shown,
  };
}

/** Returns the text and the carets below it, which follow tabs and the widths of characters. */
export function excerptLines({ line, text, caret, length }: Excerpt): string[] {
  const number = String(line);
  const gap = ' '.repeat(number.length);
  const shown = printable(text);
  const marked = shown.slice(caret, caret + length);
  const indent = [...shown.slice(0, caret)].map((one) => (one === '\t' ? one : ' '.repeat(columnsOf(one))));
  const beyond = Math.max(0, length - marked.length);
  const columns = [...marked].reduce((sum, one) => sum + columnsOf(one), beyond);
  return [`  ${number} | ${shown}`, `  ${gap} | ${indent.join('')}${'^'.repeat(Math.max(1, columns))}`];
}

/** Replaces control characters, which could move the cursor or reverse the line, and `##[`, which begins a command on CI runners. */
function printable(text: string): string {
  return text.replace(active, '\ufffd').replace(/##(?=\w*\[)/g, '#\ufffd');
}

const active = new RegExp(`[\\u0000-\\u0008\\u000b-\\u001f${activeCharacters}]`, 'g');

const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}|[\u{20000}-\u{3fffd}]/u;

/** Returns how many terminal columns a character takes. */
function columnsOf(character: string): number {
  if (/\p{Mn}|\p{Me}/u.test(character)) return 0;
  return wide.test(character) ? 2 : 1;
}

/** Formats a finding for people, with its line and what to do, as compilers do. */
export function findingText(finding: Finding, paint: TextStyler): string {
  const { severity, message, code } = finding;
  const label = severity === 'error' ? paint('red', 'error:') : paint('yellow', 'warning:');
  return withExcerpt(
    `${paint('bold', `${placeText(escaped(finding.file), finding)}:`)} ${label} ${escaped(message)} [${code}]`,
    finding,
    paint,
  );
}

/** Formats a finding in the words of the Go program, for tools that read its output. */
export function goFindingText(finding: Finding, paint: TextStyler): string {
  const { severity, message, code } = finding;
  const label =
    severity === 'error'
      ? paint('red', `error loading ${code === 'callers' ? 'callers' : 'rate limit configs'}:`)
      : paint('yellow', `warning (${code}):`);
  return withExcerpt(`${label} ${placeText(escaped(finding.file), finding)}: ${message}`, finding, paint);
}

function withExcerpt(first: string, { hint, excerpt }: Finding, paint: TextStyler): string {
  const lines = [first];
  if (excerpt !== undefined) {
    const [text, carets] = excerptLines(excerpt);
    lines.push(
      text!,
      carets!.replace(/\^+$/, (marks) => paint('bold', marks)),
    );
  }
  if (hint !== undefined) lines.push(`  ${paint('cyan', 'hint:')} ${escaped(hint)}`);
  return `${lines.join('\n')}\n`;
}

/** Compares findings by file and line. A finding about a whole file comes first. */
export function byPlace(files: readonly string[]): (a: Finding, b: Finding) => number {
  const order = new Map(files.map((file, index) => [file, index]));
  const rank = ({ file }: Finding): number => order.get(file) ?? -1;
  return (a, b) => rank(a) - rank(b) || (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0);
}

/** Chosen: people rarely read more warnings of one kind. */
const maxOfKind = 50;

/** Returns the findings and one line that sums them up; with `isQuiet`, only errors. */
export function checkText(inputs: readonly CheckedInput[], paint: TextStyler, isQuiet = false): string {
  const { errors, warnings, allowed } = sumsOf(inputs);
  const found = [errors > 0 ? count(errors, 'error') : '', warnings > 0 ? count(warnings, 'warning') : ''];
  const reported = found.filter((text) => text !== '').join(' and ');
  const ok = paint('green', reported === '' ? 'ok' : `ok with ${reported}`);
  const waived = allowed > 0 ? `; ${count(allowed, 'finding')} waived by --allow` : '';
  const end = `${errors > 0 ? paint('red', `failed: ${reported}`) : ok}: ${summaryText(inputs)}${waived}\n`;
  const textOf = (finding: Finding): string => findingText(finding, paint);
  return inputs.map((input) => findingsText(input, textOf, isQuiet)).join('') + (isQuiet ? '' : end);
}

/** Returns the findings of one argument: the first of each kind that limiters accept, and all that they reject. */
export function findingsText(
  input: CheckedInput,
  textOf: (finding: Finding) => string,
  isQuiet: boolean,
): string {
  const numbers = new Map<string, number>();
  let text = '';
  for (const finding of isQuiet ? errorsOf(input) : input.findings) {
    const { code } = finding;
    const number = (numbers.get(code) ?? 0) + 1;
    numbers.set(code, number);
    if (!(code in acceptedKinds) || number <= maxOfKind) text += textOf(finding);
  }
  for (const [code, number] of numbers) {
    const more = number - maxOfKind;
    if (code in acceptedKinds && more > 0) text += `... and ${more} more (${code}); --output json has all\n`;
  }
  const { unlisted } = input;
  return unlisted > 0 ? `${text}... and ${count(unlisted, 'more error')}\n` : text;
}

/** The listed findings of an argument that are errors. */
function errorsOf({ findings }: CheckedInput): Finding[] {
  return findings.filter(({ severity }) => severity === 'error');
}

interface Sums {
  errors: number;
  warnings: number;
  allowed: number;
}

export function sumsOf(inputs: readonly CheckedInput[]): Sums {
  return {
    errors: sumOf(inputs, (input) => errorsOf(input).length + input.unlisted),
    warnings: sumOf(inputs, (input) => input.findings.length - errorsOf(input).length),
    allowed: sumOf(inputs, ({ allowed }) => allowed),
  };
}

function sumOf<Part>(parts: readonly Part[], pick: (part: Part) => number): number {
  return parts.reduce((total, one) => total + pick(one), 0);
}

/** Returns for example `2 files, 3 domains, 9 rules; callers file, 3 callers; 4 other objects skipped (v1 ConfigMap ...)`. */
export function summaryText(all: readonly CheckedInput[]): string {
  const inputs = all.filter(({ summary }) => summary === undefined);
  const callersFiles = inputs.flatMap((input) => input.callersFiles);
  const profilesFiles = inputs.flatMap((input) => input.profilesFiles);
  const others = callersFiles.length + profilesFiles.length;
  const ofRules = sumOf(inputs, ({ files }) => files.length) - others;
  const parts: string[] = [];
  if (ofRules > 0 || (others === 0 && inputs.length > 0)) {
    const domains = sumOf(inputs, (input) => input.domains);
    const rules = sumOf(inputs, (input) => input.rules);
    // The domains and rules of files with errors are not counted.
    const isCounted = inputs.every((input) => errorsOf(input).length === 0);
    parts.push(
      [count(ofRules, 'file'), ...(isCounted ? [count(domains, 'domain'), count(rules, 'rule')] : [])].join(
        ', ',
      ),
    );
  }
  if (callersFiles.length > 0) {
    const what = callersFiles.length === 1 ? 'callers file' : `${callersFiles.length} callers files`;
    const callers = sumOf(callersFiles, (file) => file.callers);
    parts.push(`${what}, ${count(callers, 'caller')}`);
  }
  if (profilesFiles.length > 0) {
    const what =
      profilesFiles.length === 1 ? 'file of profiles' : `${profilesFiles.length} files of profiles`;
    const profiles = sumOf(profilesFiles, (file) => file.profiles);
    parts.push(`${what}, ${count(profiles, 'profile')}`);
  }
  const skipped = inputs.flatMap((input) => input.skipped);
  const objects = skipped.filter(({ type }) => type !== 'file');
  if (objects.length > 0) {
    const types = [...new Set(objects.map(({ type }) => type))];
    const shown = types.slice(0, 3).join(', ') + (types.length > 3 ? ' ...' : '');
    parts.push(`${count(objects.length, 'other object')} skipped (${shown})`);
  }
  const json = sumOf(inputs, ({ otherFiles }) => otherFiles.length);
  if (json > 0) parts.push(`${count(json, 'other JSON file')} skipped`);
  const named = skipped.length - objects.length - json;
  if (named > 0) parts.push(`${count(named, 'file')} with other names skipped`);
  const unreviewed = inputs.flatMap((input) => input.unreviewed);
  if (unreviewed.length > 0) parts.push(unreviewedText(unreviewed));
  parts.push(...all.flatMap(({ summary }) => summary ?? []));
  return parts.join('; ');
}

/** Chosen: so many files fit in a line. */
const maxNamed = 3;

/** Says that errors of files hide further findings in them. */
export function unreviewedText(files: readonly string[]): string {
  const more = files.length - maxNamed;
  const named = [...files.slice(0, maxNamed).map(escaped), ...(more > 0 ? [count(more, 'more file')] : [])];
  const names = named.length === 1 ? named[0] : `${named.slice(0, -1).join(', ')} and ${named.at(-1)}`;
  return `${names} ${files.length === 1 ? 'is' : 'are'} not reviewed further until you correct the errors`;
}

/** Returns one value for programs, for any number of arguments. */
export function checkValue(inputs: readonly CheckedInput[]): object {
  const { errors, warnings, allowed } = sumsOf(inputs);
  return {
    errorCount: errors,
    warningCount: warnings,
    allowedCount: allowed,
    files: inputs.flatMap(({ files }) => files),
    domains: sumOf(inputs, ({ domains }) => domains),
    rules: sumOf(inputs, ({ rules }) => rules),
    callersFiles: inputs.flatMap(({ callersFiles }) => callersFiles),
    profilesFiles: inputs.flatMap(({ profilesFiles }) => profilesFiles),
    skipped: inputs.flatMap(({ skipped }) => skipped),
    unreviewed: inputs.flatMap(({ unreviewed }) => unreviewed),
    findings: inputs.flatMap(({ findings }) => findings).map(findingJson),
  };
}

function findingJson({ excerpt, ...finding }: Finding): object {
  return { ...finding, excerpt: excerpt?.text };
}
