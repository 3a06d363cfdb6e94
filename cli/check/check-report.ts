import type { Paint } from '../shared/paint.ts';
import type { CheckedInput } from './check-input.ts';
import { excerptLines } from './excerpt.ts';
import type { Finding } from './finding.ts';

/** A finding with its line and what to do, for a person. */
export function findingText(finding: Finding, paint: Paint): string {
  const { severity, file, line, column, message, hint, excerpt } = finding;
  const place = line === undefined ? file : `${file}:${line}:${column ?? 1}`;
  const label =
    severity === 'error'
      ? paint('red', `error loading ${finding.code === 'callers' ? 'callers' : 'rate limit configs'}:`)
      : paint('yellow', `warning (${finding.code}):`);
  const lines = [`${label} ${place}: ${message}`];
  if (excerpt !== undefined) lines.push(...excerptLines(excerpt));
  if (hint !== undefined) lines.push(`  ${paint('cyan', 'hint:')} ${hint}`);
  return `${lines.join('\n')}\n`;
}

/** We chose it: warnings of one kind that a person looks at. */
const mostOfKind = 50;

/** The first warnings of each kind, and how many there are beyond. */
export function shownWarnings(warnings: readonly Finding[]): {
  shown: Finding[];
  unshown: ReadonlyMap<string, number>;
} {
  const numbers = new Map<string, number>();
  const unshown = new Map<string, number>();
  const shown = warnings.filter(({ code }) => {
    const number = (numbers.get(code) ?? 0) + 1;
    numbers.set(code, number);
    if (number > mostOfKind) unshown.set(code, number - mostOfKind);
    return number <= mostOfKind;
  });
  return { shown, unshown };
}

/** `2 files, 3 domains, 9 rules; callers file, 3 callers ok; 4 other objects passed over (v1 ConfigMap ...)`. */
export function summaryText(input: CheckedInput): string {
  const { files, domains, rules, callersFiles, skipped, otherFiles } = input;
  const parts: string[] = [];
  const ofRules = files.length - callersFiles.length;
  if (ofRules > 0 || callersFiles.length === 0)
    parts.push(`${count(ofRules, 'file')}, ${count(domains, 'domain')}, ${count(rules, 'rule')}`);
  if (callersFiles.length > 0) {
    const callers = callersFiles.reduce((sum, one) => sum + one.callers, 0);
    const what = callersFiles.length === 1 ? 'callers file' : `${callersFiles.length} callers files`;
    parts.push(`${what}, ${count(callers, 'caller')} ok`);
  }
  const objects = skipped.filter(({ type }) => type !== 'file');
  if (objects.length > 0) {
    const types = [...new Set(objects.map(({ type }) => type))];
    const shown = types.slice(0, 3).join(', ') + (types.length > 3 ? ' ...' : '');
    parts.push(`${count(objects.length, 'other object')} passed over (${shown})`);
  }
  const json = otherFiles.length;
  if (json > 0) parts.push(`${count(json, 'other JSON file')} passed over`);
  const named = skipped.length - objects.length - json;
  if (named > 0) parts.push(`${count(named, 'file')} of other names passed over`);
  return parts.join('; ');
}

/** One object for programs, whatever the number of arguments. */
export function checkJson(inputs: readonly CheckedInput[]): string {
  const sum = (pick: (input: CheckedInput) => number) => inputs.reduce((total, one) => total + pick(one), 0);
  const report = {
    errorCount: sum(({ errorCount }) => errorCount),
    warningCount: sum(({ warnings }) => warnings.length),
    allowedCount: sum(({ allowed }) => allowed),
    files: inputs.flatMap(({ files }) => files),
    domains: sum(({ domains }) => domains),
    rules: sum(({ rules }) => rules),
    callersFiles: inputs.flatMap(({ callersFiles }) => callersFiles),
    skipped: inputs.flatMap(({ skipped }) => skipped),
    findings: inputs.flatMap(({ errors, warnings }) => [...errors, ...warnings]).map(findingJson),
  };
  return `${JSON.stringify(report, undefined, 2)}\n`;
}

function findingJson({ excerpt, ...finding }: Finding): object {
  return { ...finding, excerpt: excerpt?.text };
}

export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}
