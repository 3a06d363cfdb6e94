/** The result of a comparison, for other programs and for reviewers of pull requests. */

import type { ChangeReport, ReplayReport } from '../../replay/replay-report.ts';
import type { Rule } from '../../rules/model.ts';
import { ruleName } from '../../rules/review/explain-descriptor.ts';
import { documentOf } from '../forms/forms.ts';
import { findingsTable, markdownCode, markdownDocument, markdownText } from '../forms/markdown.ts';
import type { Report, ReportedFinding } from '../forms/report.ts';
import { differenceText, limitedText } from '../replay/report-text.ts';
import { io } from '../shared/io.ts';
import type { PlainError } from '../shared/plain-words.ts';
import type { LoadedSource } from '../shared/read-rule-texts.ts';
import type { CommandReport } from '../shared/report.ts';
import { paintFor } from '../shared/text.ts';
import {
  diffText,
  effectCounts,
  effectCountsText,
  effectOrder,
  fieldWords,
  placeWords,
} from './diff-report.ts';
import type { RuleChange } from './limit-effect.ts';

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
  errors: readonly (Pick<PlainError, 'code' | 'source' | 'text' | 'line' | 'column'> &
    Partial<Pick<PlainError, 'length' | 'fix'>>)[];
}

export function diffReport(found: Comparison, status: number, isQuiet: boolean): CommandReport {
  const { changes, replay, errors } = found;
  return {
    status,
    value: {
      changes,
      effects: effectCounts(changes),
      ...(replay && { replay: replay.report }),
      ...(errors.length > 0 && { errors: errors.map(errorValue) }),
    },
    text: () => {
      if (errors.length > 0 || isQuiet) return '';
      const ofReplay = replay === undefined ? '' : `\n${differenceText(replay.report)}`;
      return diffText(changes, paintFor(io().stdout)) + ofReplay;
    },
    document: (form) => documentOf(findingsOf(found, { exitStatus: status, isQuiet }), form),
  };
}

/** The changes and errors as findings. */
function findingsOf(found: Comparison, run: Pick<Report, 'exitStatus' | 'isQuiet'>): Report {
  const errors = found.errors.map(
    ({ source: file, text: message, fix: hint, ...error }): ReportedFinding => ({
      ...{ severity: 'error', code: error.code, file, line: error.line, column: error.column },
      ...{ length: error.length, message, hint },
    }),
  );
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
  const findings = [...errors, ...changes, ...replayFindings(found.replay)];
  return {
    command: 'diff',
    findings,
    files: found.files,
    ...run,
    markdown: () => diffMarkdown(found, errors),
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

interface RulePlace {
  file: string;
  line: number | undefined;
  column: number | undefined;
}

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
    if (file !== undefined) return { file, line: undefined, column: undefined };
    const was = this.#before.filter((loaded) => isOf(loaded, change));
    return this.#placeIn(was, change.rule) ?? { file: change.domain, line: undefined, column: undefined };
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
  const place = { file: replay.from, line: undefined, column: undefined };
  return [{ severity: 'warning', code: 'newly-limited', ...place, message }];
}

function diffMarkdown(found: Comparison, errors: readonly ReportedFinding[]): string {
  const { changes, failure, replay } = found;
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
    `${requests.toLocaleString('en-US')} recorded requests, ${from} to ${to}`,
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

/** Converts an error for programs. */
function errorValue(error: Comparison['errors'][number]): object {
  const { code, source: file, line, column, text: message } = error;
  return { code, file, line, column, message };
}
