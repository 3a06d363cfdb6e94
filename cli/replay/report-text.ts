import { plainText } from '../../process/log/error-text.ts';
import type {
  ChangeReport,
  LimitedReport,
  LimitFigures,
  OffendersReport,
  ReplayReport,
  RuleReport,
  RuleSetReport,
} from '../../replay/replay-report.ts';
import { algorithmNames, defaultAlgorithm } from '../../rules/algorithms/registry.ts';
import type { LimitInReplay } from '../../rules/describe.ts';
import { columnLines, escaped, numberText, perUnit } from '../shared/text.ts';

function textTable(rows: readonly (readonly string[])[], right: ReadonlySet<number>): string[] {
  return columnLines(rows, '  ', right).map((line) => `  ${line}`.trimEnd());
}

/** Formats the report for people. Values of requests are foreign, so they are escaped. */
export function reportText(report: ReplayReport): string {
  const { requests, from, to, rules, against, difference } = report;
  const lines = [`${counted(requests, 'request')}, ${from} to ${to}`, ...omissionLines(report)];
  if (against === undefined || difference === undefined) {
    lines.push(`OVER_LIMIT: ${limitedText(rules.limited)}`, ...ruleSetLines(rules));
  } else {
    lines.push(
      `OVER_LIMIT by the rules: ${limitedText(rules.limited)}`,
      `OVER_LIMIT by the other rules: ${limitedText(against.limited)}`,
      ...changeLines('Newly limited', difference.newlyLimited),
      ...changeLines('No longer limited', difference.noLongerLimited),
      ...section('The rules', ruleSetLines(rules)),
      ...section('The other rules', ruleSetLines(against)),
    );
  }
  return inert(lines);
}

/** Removes what escaping names leaves: commands of a CI runner, and characters that reverse text. */
function inert(lines: readonly string[]): string {
  return lines.map((line) => `${escaped(line)}\n`).join('');
}

/** Formats only the difference: requests that one set of rules limits, by which rules, and the clients limited most. */
export function differenceText(report: ReplayReport): string {
  const { requests, from, to, difference } = report;
  const lines = [`${counted(requests, 'recorded request')}, ${from} to ${to}`, ...omissionLines(report)];
  if (difference !== undefined) {
    lines.push(...changeLines('Newly limited', difference.newlyLimited));
    lines.push(...changeLines('No longer limited', difference.noLongerLimited));
  }
  return inert(lines);
}

function omissionLines({ askedNothing, badLines }: ReplayReport): string[] {
  const lines: string[] = [];
  if (askedNothing > 0) lines.push(`${counted(askedNothing, 'line')} without a descriptor`);
  if (badLines.count > 0) lines.push(`${counted(badLines.count, 'line')} could not be replayed`);
  return lines;
}

function section(title: string, lines: readonly string[]): string[] {
  return ['', `== ${title} ==`, ...lines];
}

function ruleSetLines(set: RuleSetReport): string[] {
  const lines = ['', ...domainLines(set), '', ...ruleLines(set.rules)];
  if (set.offenders.count > 0) lines.push('', 'Limited most', ...offenderLines(set.offenders));
  if (set.descriptorsWithoutLimit > 0) {
    lines.push('', `${counted(set.descriptorsWithoutLimit, 'descriptor')} had no limit`);
  }
  for (const { domain, descriptors } of set.unknownDomains.slice(0, 10)) {
    lines.push(`no rules for domain ${plainText(domain)}: ${counted(descriptors, 'descriptor')}`);
  }
  if (set.countersEvicted > 0) {
    const remedy = 'raise MEMORY_STORE_MAX_COUNTERS or MEMORY_STORE_MAX_BYTES with --setting';
    lines.push(`too lenient: ${counted(set.countersEvicted, 'counter')} found no room; ${remedy}`);
  }
  return lines;
}

function domainLines({ domains }: RuleSetReport): string[] {
  const head = ['domain', 'requests', 'limited', 'share', 'first', 'last'];
  const rows = domains.map(({ domain, requests, limited }) => [
    plainText(domain),
    numberText(requests),
    ...limitedCells(limited),
  ]);
  return textTable([head, ...rows], new Set([1, 2, 3]));
}

function ruleLines(rules: readonly RuleReport[]): string[] {
  const head = ['rule', 'limit', 'decisions', 'near', 'over', 'shadow', 'limited', 'share', 'first', 'last'];
  const rows = rules.flatMap(({ limits = [], ...rule }) => [
    [
      plainText(rule.rule),
      limits.length > 0 ? `${limits.length} limits` : limitText(rule.limit),
      numberText(rule.decisions),
      ...figureCells(rule),
      ...limitedCells(rule.limited),
    ],
    ...limits.map((one) => [
      `  ${plainText(one.label)}`,
      limitText(one.limit),
      '',
      ...figureCells(one),
      ...limitedCells(one.limited),
    ]),
  ]);
  return textTable([head, ...rows], new Set([2, 3, 4, 5, 6, 7]));
}

/** Returns empty cells if each of several limits has its own figures. */
function figureCells({ nearLimit, overLimit, shadowed }: Partial<LimitFigures>): string[] {
  return [nearLimit, overLimit, shadowed].map((figure) => (figure === undefined ? '' : numberText(figure)));
}

function limitText(limit: LimitInReplay | null): string {
  if (limit === null) return 'its own';
  const { requestsPerUnit, unit, unitMultiplier, window, algorithm, burst } = limit;
  const words = [
    `${numberText(requestsPerUnit)} ${unitMultiplier === 1 && !window.includes('@') ? perUnit(unit) : `in ${window}`}`,
    ...(algorithm === algorithmNames[defaultAlgorithm] ? [] : [algorithm.replaceAll('_', ' ')]),
    ...(burst === undefined ? [] : [`burst ${numberText(burst)}`]),
  ];
  return words.join(', ');
}

function limitedCells({ requests, share, first, last }: LimitedReport): string[] {
  return [numberText(requests), percent(share), timeText(first), timeText(last)];
}

function offenderLines({ top, count: all, missed }: OffendersReport): string[] {
  const head = ['counter', 'rule', 'requests', 'first', 'last'];
  const rows = top.map(({ counter, rule, requests, first, last }) => [
    plainText(counter),
    plainText(rule),
    numberText(requests),
    timeText(first),
    timeText(last),
  ]);
  const lines = textTable([head, ...rows], new Set([2]));
  if (all > top.length) lines.push(`  ... and ${counted(all - top.length, 'more counter')}`);
  if (missed > 0)
    lines.push(
      `  ${counted(missed, 'request')} over limit by further counters, which the report cannot list`,
    );
  return lines;
}

function changeLines(title: string, { limited, rules, offenders }: ChangeReport): string[] {
  const lines = ['', `${title}: ${limitedText(limited)}`];
  if (limited.requests === 0) return lines;
  const rows = rules.map(({ rule, requests }) => [plainText(rule), numberText(requests)]);
  lines.push(...textTable([['by rule', 'requests'], ...rows], new Set([1])));
  lines.push(...offenderLines(offenders));
  return lines;
}

export function limitedText({ requests, share, first, last }: LimitedReport): string {
  const when = requests === 0 ? '' : `, ${first} to ${last}`;
  return `${counted(requests, 'request')} (${percent(share)})${when}`;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(2)}%`;
}

function counted(number: number, noun: string): string {
  return `${numberText(number)} ${noun}${number === 1 ? '' : 's'}`;
}

function timeText(time: string | null): string {
  return time ?? '-';
}
