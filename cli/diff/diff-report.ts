/** The result of a comparison, for people, for other programs and for reviewers of pull requests. */

import type { ChangeReport, ReplayReport } from '../../replay/replay-report.ts';
import { unwrittenWords } from '../../rules/describe.ts';
import { defaultFleet } from '../../rules/language/kinds.ts';
import type { Rule } from '../../rules/model.ts';
import { ruleName } from '../../rules/review/explain-descriptor.ts';
import { documentOf } from '../forms/forms.ts';
import { findingsTable, markdownCode, markdownDocument, markdownText } from '../forms/markdown.ts';
import type { Report, ReportedFinding } from '../forms/report.ts';
import { differenceText, limitedText } from '../replay/report-text.ts';
import { io } from '../shared/io.ts';
import type { LoadedSource } from '../shared/read-rule-texts.ts';
import type { CommandReport } from '../shared/report.ts';
import { count, escaped, numberText, paintFor, type TextStyler } from '../shared/text.ts';
import type { Effect, FieldChange, RuleChange } from './limit-effect.ts';

export interface Comparison {
  changes: readonly RuleChange[];
  /** The changes that `--fail-on` names. */
  failing: readonly RuleChange[];
  /** The message about them. */
  failure: string | undefined;
  /** The rules of both sides. */
  before: readonly LoadedSource[];
  after: readonly LoadedSource[];
  files: readonly string[];
  /** The result of the replay, and the path of the recording. */
  replay: { from: string; report: ReplayReport } | undefined;
  /** The reasons if there is no comparison. */
  errors: readonly ReportedFinding[];
}

export function diffReport(found: Comparison, status: number, isQuiet: boolean): CommandReport {
  const { changes, replay, errors } = found;
  return {
    status,
    value: {
      changes,
      effects: effectCounts(changes),
      ...(replay && { replay: replay.report }),
      ...(errors.length > 0 && {
        errors: errors.map(({ code, file, line, column, message }) => ({
          code,
          file,
          line,
          column,
          message,
        })),
      }),
    },
    text: () => {
      if (errors.length > 0 || isQuiet) return '';
      const ofReplay = replay === undefined ? '' : `\n${differenceText(replay.report)}`;
      return diffText(changes, paintFor(io().stdout)) + ofReplay;
    },
    document: (form) => documentOf(findingsOf(found, { exitStatus: status, isQuiet }), form),
  };
}

const marks = {
  added: ['+', 'green'],
  removed: ['-', 'red'],
  changed: ['~', 'yellow'],
  moved: ['^', 'yellow'],
} as const;

/** Formats changes for people, in the words of the rule language, with their effect. */
function diffText(changes: readonly RuleChange[], paint: TextStyler): string {
  if (changes.length === 0) return 'no changes\n';
  const lines = changes.flatMap((change) => changeLines(change, paint));
  return `${[...lines, summary(changes)].join('\n')}\n`;
}

function changeLines(change: RuleChange, paint: TextStyler): string[] {
  const { kind, domain, rule, fields, effect, notes } = change;
  const [mark, style] = marks[kind];
  const lines = [paint(style, escaped(`${mark} ${domain}${placeWords(change)}: ${rule.join(' > ')}`))];
  if (fields.length > 0) lines.push(`    ${escaped(fieldWords(kind, fields).join(', '))}`);
  const [first, ...more] = notes.map(escaped);
  lines.push(`    ${paint('bold', effect)}: ${first}`);
  return [...lines, ...more.map((note) => `    ${note}`)];
}

/** Returns for example ` (class a, fleet b)`, without the default class and fleet. */
function placeWords({ className, fleet }: Pick<RuleChange, 'className' | 'fleet'>): string {
  const named = [className && `class ${className}`, fleet !== defaultFleet && `fleet ${fleet}`];
  const names = named.filter(Boolean);
  return names.length === 0 ? '' : ` (${names.join(', ')})`;
}

/** Returns a text for each field, for example `unit: hour -> day`. */
function fieldWords(kind: RuleChange['kind'], fields: readonly FieldChange[]): string[] {
  return fields.map(({ name, before, after }) => {
    if (kind === 'added') return `${name}: ${after}`;
    return kind === 'removed'
      ? `${name}: ${before}`
      : `${name}: ${before ?? unwrittenWords(name)} -> ${after ?? unwrittenWords(name)}`;
  });
}

function summary(changes: readonly RuleChange[]): string {
  return `${count(changes.length, 'change')}: ${effectCountsText(changes)}`;
}

/** Returns for example `1 new, 2 stricter`. */
function effectCountsText(changes: readonly RuleChange[]): string {
  const effects = Object.entries(effectCounts(changes)).map(([effect, number]) => `${number} ${effect}`);
  return effects.join(', ');
}

/** The order in which effects are counted and listed. */
export const effectOrder: readonly Effect[] = ['new', 'stricter', 'mixed', 'looser', 'gone', 'same'];

/** Counts the effects that occur. */
function effectCounts(changes: readonly RuleChange[]): Partial<Record<Effect, number>> {
  const counts: Partial<Record<Effect, number>> = {};
  for (const effect of effectOrder) {
    const number = changes.filter((change) => change.effect === effect).length;
    if (number > 0) counts[effect] = number;
  }
  return counts;
}

/** The changes and errors as findings. */
function findingsOf(found: Comparison, run: Pick<Report, 'exitStatus' | 'isQuiet'>): Report {
  const places = new RulePlaces(found.before, found.after);
  const failing = new Set(found.failing);
  const changes = found.changes.map(
    (change): ReportedFinding => ({
      severity: failing.has(change) ? 'error' : 'note',
      code: change.effect,
      ...places.of(change),
      message: changeText(change),
    }),
  );
  const findings = [...found.errors, ...changes, ...replayFindings(found.replay)];
  return {
    command: 'diff',
    findings,
    files: found.files,
    ...run,
    markdown: () => diffMarkdown(found),
  };
}

/** Returns for example `shop: path=/search* > plan`. */
function nameOf({ domain, rule, ...place }: RuleChange): string {
  return `${domain}${placeWords(place)}: ${rule.join(' > ')}`;
}

function changeText(change: RuleChange): string {
  const { kind, fields, effect, notes } = change;
  const words = fieldWords(kind, fields).join(', ');
  return `${nameOf(change)}: ${words}${words === '' ? '' : '; '}${effect}: ${notes.join('; ')}`;
}

type RulePlace = Pick<ReportedFinding, 'file' | 'line' | 'column'>;

/** Finds the places of changed rules: in the new rules, or, for a rule that is gone, in the new file of its domain. */
class RulePlaces {
  readonly #before: readonly LoadedSource[];
  readonly #after: readonly LoadedSource[];
  readonly #paths = new Map<LoadedSource, Map<string, (string | number)[]>>();

  constructor(before: readonly LoadedSource[], after: readonly LoadedSource[]) {
    this.#before = before;
    this.#after = after;
  }

  of(change: RuleChange): RulePlace {
    const now = this.#after.filter((loaded) => isOf(loaded, change));
    const found = this.#placeIn(now, change.rule);
    if (found !== undefined) return found;
    const [file = this.#after[0]?.file] = now.map((loaded) => loaded.file);
    if (file !== undefined) return { file };
    const was = this.#before.filter((loaded) => isOf(loaded, change));
    return this.#placeIn(was, change.rule) ?? { file: change.domain };
  }

  #placeIn(sources: readonly LoadedSource[], rule: readonly string[]): RulePlace | undefined {
    for (const loaded of sources) {
      const path = this.#pathsOf(loaded).get(rule.join('\0'));
      if (path === undefined) continue;
      const place = loaded.placeOf([...path, 'key']);
      return { file: loaded.file, line: place?.line, column: place?.column };
    }
    return undefined;
  }

  #pathsOf(loaded: LoadedSource): Map<string, (string | number)[]> {
    let paths = this.#paths.get(loaded);
    if (paths === undefined) {
      paths = new Map();
      this.#paths.set(loaded, paths);
      addPaths(paths, loaded.source.descriptors, { names: '', path: [] });
    }
    return paths;
  }
}

function isOf({ source, fleet, className }: LoadedSource, change: RuleChange): boolean {
  const isOfClass = change.className === undefined || (className ?? change.className) === change.className;
  return source.domain === change.domain && (fleet ?? change.fleet) === change.fleet && isOfClass;
}

function addPaths(
  paths: Map<string, (string | number)[]>,
  rules: readonly Rule[],
  above: { names: string; path: (string | number)[] },
): void {
  for (const [index, rule] of rules.entries()) {
    const names = above.names + (above.names === '' ? '' : '\0') + ruleName({ rule });
    const path = [...above.path, 'descriptors', index];
    if (!paths.has(names)) paths.set(names, path);
    addPaths(paths, rule.descriptors, { names, path });
  }
}

function replayFindings(replay: Comparison['replay']): ReportedFinding[] {
  const newly = replay?.report.difference?.newlyLimited;
  if (replay === undefined || newly === undefined || newly.limited.requests === 0) return [];
  const rules = newly.rules.slice(0, 5).map(({ rule, requests }) => `${rule} (${requests})`);
  const more = newly.rules.length > rules.length ? ', ...' : '';
  const message = `newly limited: ${limitedText(newly.limited)}, by ${rules.join(', ')}${more}`;
  return [{ severity: 'warning', code: 'newly-limited', file: replay.from, message }];
}

function diffMarkdown({ changes, failure, replay, errors }: Comparison): string {
  const marker = 'weir diff';
  if (errors.length > 0) {
    const parts = [{ table: findingsTable(errors) }];
    return markdownDocument({ marker, title: 'Rate limits: cannot be compared', parts });
  }
  const rows = changes
    .toSorted((a, b) => effectOrder.indexOf(a.effect) - effectOrder.indexOf(b.effect))
    .map((change) => [
      `**${change.effect}**`,
      markdownCode(nameOf(change)),
      fieldWords(change.kind, change.fields).map(markdownCode).join('<br>') || change.kind,
      change.notes.map(markdownText).join('<br>'),
    ]);
  const head = ['effect', 'rule', 'change', 'effect on requests'];
  return markdownDocument({
    marker,
    title: `Rate limits: ${changes.length === 0 ? 'no changes' : effectCountsText(changes)}`,
    parts: [
      ...(rows.length === 0 ? [] : [{ table: { head, rows, noun: 'changes' } }]),
      ...(failure === undefined ? [] : [{ text: markdownText(failure) }]),
      ...(replay === undefined ? [] : replayParts(replay.report)),
    ],
  });
}

function replayParts({ requests, from, to, badLines, difference }: ReplayReport): MarkdownParts {
  if (difference === undefined) return [];
  const { newlyLimited, noLongerLimited } = difference;
  const lines = [
    `${numberText(requests)} recorded requests, ${from} to ${to}`,
    ...(badLines.count > 0 ? [`lines that could not be replayed: ${badLines.count}`] : []),
    `newly limited: ${limitedText(newlyLimited.limited)}`,
    `no longer limited: ${limitedText(noLongerLimited.limited)}`,
  ];
  return [
    { heading: 'Recorded requests', text: lines.map(markdownText).join('<br>') },
    ...limitedParts('Newly limited', newlyLimited),
    ...limitedParts('No longer limited', noLongerLimited),
  ];
}

type MarkdownParts = Parameters<typeof markdownDocument>[0]['parts'];

/** Lists the rules that limit requests, and the clients limited most. */
function limitedParts(title: string, { rules, offenders }: ChangeReport): MarkdownParts {
  if (rules.length === 0) return [];
  const byRule = rules.map(({ rule, requests }) => [markdownCode(rule), `${requests}`]);
  const byCounter = offenders.top.map(({ counter, requests, first, last }) => [
    markdownCode(counter),
    `${requests}`,
    `${first} to ${last}`,
  ]);
  return [
    { text: `${title}, by rule:`, table: { head: ['rule', 'requests'], rows: byRule, noun: 'rules' } },
    {
      text: `${title}, by counter${offenders.count > byCounter.length ? ` (the first ${byCounter.length} of ${offenders.count})` : ''}:`,
      table: { head: ['counter', 'requests', 'when'], rows: byCounter, noun: 'counters' },
    },
  ];
}
