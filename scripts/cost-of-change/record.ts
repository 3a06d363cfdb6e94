/** Compares a new measurement with `cost-of-change.json`, the last one. Pure. */
import type { Cycles } from './cycles.ts';
import { type Kind, kinds, type Measured, type Touched } from './names.ts';

/**
 * Permits a rise of one name to `count`. It is written by hand; `before` is the count in Git. It applies while more files than
 * `before` touch the name. `--write` lowers `count` with the number of files, and removes the explanation if that number is
 * `before` or less, or if the name is gone.
 */
export interface Explanation {
  readonly kind: Kind;
  readonly name: string;
  /** The number of files before the rise. */
  readonly before: number;
  readonly count: number;
  /** A sentence. */
  readonly why: string;
}

/**
 * A name that replaces another one, which is gone, and is compared with it. Written by hand; `--write` removes it once Git has the new
 * name.
 */
export interface Rename {
  readonly kind: Kind;
  readonly from: string;
  readonly to: string;
}

/**
 * States that names of a kind are counted differently since then. It is written by hand, and stays. While Git does not have it,
 * the sources in Git are counted again, and the result replaces Git's counts of this kind. So it permits only what those sources
 * already contain, and no rise.
 */
export interface Correction {
  readonly kind: Kind;
  /** A sentence. */
  readonly why: string;
}

export interface CostRecord extends Readonly<Record<Kind, Readonly<Record<string, readonly string[]>>>> {
  readonly cycles: { readonly groups: number; readonly imports: readonly string[] };
  readonly explanations: readonly Explanation[];
  readonly renames: readonly Rename[];
  readonly corrections: readonly Correction[];
}

export interface Measurement {
  readonly touched: Measured;
  readonly cycles: Cycles;
}

/** The maximum number of files that may touch a new name. */
export const maxOfNew: Readonly<Record<Kind, number>> = {
  field: 6,
  algorithm: 6,
  setting: 3,
  reason: 3,
  flag: 3,
};

export const sumOf = (names: Iterable<readonly string[]>): number => {
  let sum = 0;
  for (const files of names) sum += files.length;
  return sum;
};

export interface Comparison {
  /** Differences that must not be recorded, each with a remedy. */
  readonly problems: readonly string[];
  /** The differences from the record that may be recorded. */
  readonly changes: readonly string[];
}

/**
 * `record`: the file with its explanations and renames. `base`: the record in Git, which no count may exceed, so that a rewritten
 * file hides no rise.
 */
export function compare(record: CostRecord, base: CostRecord, { touched, cycles }: Measurement): Comparison {
  const { explanations, renames, corrections } = record;
  return {
    problems: [
      ...corrections.flatMap((one) => vagueSentence(`correction of ${one.kind}`, one.why)),
      ...explanations.flatMap(vagueExplanation),
      ...explanations.flatMap((one) => falseBefore(one, { ...base, renames }, base.explanations)),
      ...renames.flatMap((one) => falseRename(one, renames, touched)),
      ...kinds.flatMap((kind) => problemsOf(kind, { ...base, explanations, renames }, touched[kind])),
      ...cycleProblems(base, cycles),
    ],
    changes: [
      ...kinds.flatMap((kind) => changesOf(kind, record, touched[kind])),
      ...cycleChanges(record, cycles),
      ...explanations.flatMap((one) => explanationChange(one, touched)),
    ],
  };
}

/** Returns the recorded number of files of a name, or of the name that it replaces. Undefined for a new name. */
function recordedFiles(kind: Kind, name: string, record: CostRecord): readonly string[] | undefined {
  const { from } = record.renames.find((one) => one.kind === kind && one.to === name) ?? {};
  return record[kind][name] ?? (from === undefined ? undefined : record[kind][from]);
}

function problemsOf(kind: Kind, base: CostRecord, touched: Touched): string[] {
  const problems: string[] = [];
  let known = 0;
  for (const [name, files] of touched) {
    const before = recordedFiles(kind, name, base);
    if (before === undefined) {
      if (files.length > maxOfNew[kind]) problems.push(tooManyOfNew(kind, name, files));
      continue;
    }
    known += files.length;
    if (files.length > before.length && !isExplained(base, kind, name, files.length))
      problems.push(unexplainedRise(kind, name, before, files));
  }
  const sum = sumOf(Object.values(base[kind]));
  if (known > sum) {
    problems.push(
      `${kind}: the sum of its names rose from ${sum} to ${known}, new names apart. Explanations cannot raise the sum: let fewer files touch other names of this kind (npm run cost-of-change -- ${kind}).`,
    );
  }
  return problems;
}

function changesOf(kind: Kind, record: CostRecord, touched: Touched): string[] {
  const changes: string[] = [];
  for (const [name, files] of touched) {
    const before = recordedFiles(kind, name, record);
    if (before === undefined) changes.push(`${kind} ${name} is new: ${files.length}`);
    else if (files.length !== before.length || record[kind][name] === undefined)
      changes.push(`${kind} ${name}: ${before.length} -> ${files.length}`);
  }
  const isRenamed = (name: string) =>
    record.renames.some(({ kind: of, from }) => of === kind && from === name);
  const gone = Object.keys(record[kind]).filter((name) => !touched.has(name) && !isRenamed(name));
  return [...changes, ...gone.map((name) => `${kind} ${name} is gone`)];
}

const cycleCounts = (
  { cycles: before }: CostRecord,
  { groups, imports }: Cycles,
): [what: string, before: number, now: number][] => [
  ['import cycles', before.groups, groups.length],
  ['imports in cycles', before.imports.length, imports.length],
];

function cycleProblems(base: CostRecord, cycles: Cycles): string[] {
  const added = cycles.imports.filter((one) => !base.cycles.imports.includes(one));
  const hint = 'move what both files need to a file of its own (npm run cost-of-change -- cycles).';
  return cycleCounts(base, cycles)
    .filter(([, old, now]) => now > old)
    .map(([what, old, now]) => `${what}: ${old} -> ${now}${list('added', added)}\n  To do: ${hint}`);
}

const cycleChanges = (record: CostRecord, cycles: Cycles): string[] =>
  cycleCounts(record, cycles)
    .filter(([, old, now]) => now !== old)
    .map(([what, old, now]) => `${what}: ${old} -> ${now}`);

const isExplained = ({ explanations }: CostRecord, kind: Kind, name: string, count: number): boolean =>
  explanations.some((one) => one.kind === kind && one.name === name && count <= one.count);

/** Checks that a text is a sentence: it has some words and ends. */
function vagueSentence(title: string, why: string): string[] {
  const isSentence = why.trim().split(/\s+/).length >= 5 && why.trim().endsWith('.');
  return isSentence ? [] : [`${title}: "${why}" is not a sentence that says why`];
}

function vagueExplanation({ kind, name, before, count, why }: Explanation): string[] {
  return [
    ...vagueSentence(`explanation of ${kind} ${name}`, why),
    ...(before < count
      ? []
      : [`explanation of ${kind} ${name}: "before" (${before}) is not below "count" (${count})`]),
  ];
}

/**
 * A `before` that Git does not have, or the sentence of an earlier rise, would permit a rise that nobody explained. `permitted`: the
 * explanations that Git has. Each of them stays valid for as many files as it says in Git.
 */
function falseBefore(
  { kind, name, before, count, why }: Explanation,
  base: CostRecord,
  permitted: readonly Explanation[],
): string[] {
  const earlier = permitted.filter((one) => one.kind === kind && one.name === name);
  if (earlier.some((one) => one.before === before && count <= one.count)) return [];
  const files = recordedFiles(kind, name, base);
  const title = `explanation of ${kind} ${name}`;
  const inGit = files === undefined ? 'does not have this name' : `has ${files.length}`;
  return [
    ...(files?.length === before ? [] : [`${title}: "before" is ${before}, but Git ${inGit}`]),
    ...(earlier.some((one) => one.why === why)
      ? [`${title}: Git has this sentence for fewer files: say why ${count} files touch it now`]
      : []),
  ];
}

/** Beside the name that it replaces, a name is new, and so is the second one that replaces the same name. */
function falseRename(rename: Rename, renames: readonly Rename[], touched: Measured): string[] {
  const { kind, from, to } = rename;
  const title = `rename of ${kind} ${from} to ${to}`;
  const first = renames.find((one) => one.kind === kind && one.from === from);
  return [
    ...(touched[kind].has(from) ? [`${title}: ${touched[kind].get(from)!.length} files touch ${from}`] : []),
    ...(first === rename ? [] : [`${title}: ${first!.to} replaces ${from} already`]),
  ];
}

/** As it applies to the measurement; undefined when it no longer applies. */
function applied(one: Explanation, touched: Measured): Explanation | undefined {
  const files = touched[one.kind].get(one.name)?.length ?? 0;
  return files > one.before ? { ...one, count: Math.min(one.count, files) } : undefined;
}

function explanationChange(one: Explanation, touched: Measured): string[] {
  const next = applied(one, touched);
  const title = `explanation of ${one.kind} ${one.name}`;
  if (next === undefined) return [`${title} no longer applies`];
  return next.count === one.count ? [] : [`${title}: ${one.count} -> ${next.count}`];
}

const list = (title: string, lines: readonly string[]): string =>
  lines.length === 0 ? '' : [`\n  ${title}:`, ...lines.map((line) => `    ${line}`)].join('\n');

function tooManyOfNew(kind: Kind, name: string, files: readonly string[]): string {
  return `${kind} ${name} is new: ${files.length} files touch it, at most ${maxOfNew[kind]} may${list('files', files)}
  To do: let a row in a table say what these files say. If the name replaces another one, add
  { "kind": "${kind}", "from": "<the old name>", "to": "${name}" } to "renames" in cost-of-change.json.`;
}

function unexplainedRise(
  kind: Kind,
  name: string,
  before: readonly string[],
  files: readonly string[],
): string {
  const added = files.filter((file) => !before.includes(file));
  return `${kind} ${name}: ${before.length} -> ${files.length}${list('added', added)}
  To do: read the table instead of the name; or add to "explanations" in cost-of-change.json, with a sentence,
  { "kind": "${kind}", "name": "${name}", "before": ${before.length}, "count": ${files.length}, "why": "…" }, and run npm run cost-of-change -- --write.`;
}

/** The kinds that a record corrects and Git does not. */
export function newlyCorrected(record: CostRecord, base: CostRecord): Kind[] {
  const isKnown = ({ kind, why }: Correction) =>
    base.corrections.some((one) => one.kind === kind && one.why === why);
  return record.corrections.filter((one) => !isKnown(one)).map(({ kind }) => kind);
}

/** What Git has of the record, with other counts of some kinds. `touched`: the sources that Git has, as they are counted now. */
export function correctedBase(base: CostRecord, corrected: readonly Kind[], touched: Measured): CostRecord {
  const counted = corrected.map((kind) => {
    const names = Object.entries(base[kind]);
    return [kind, Object.fromEntries(names.map(([name, files]) => [name, touched[kind].get(name) ?? files]))];
  });
  return { ...base, ...Object.fromEntries(counted) };
}

/** The measurement as the next record. `base`: what Git has of the record. */
export function nextRecord(
  record: CostRecord | undefined,
  base: CostRecord | undefined,
  { touched, cycles }: Measurement,
): CostRecord {
  return {
    explanations: record?.explanations.flatMap((one) => applied(one, touched) ?? []) ?? [],
    renames: record?.renames.filter(({ kind, from }) => base?.[kind][from] !== undefined) ?? [],
    corrections: record?.corrections ?? [],
    cycles: { groups: cycles.groups.length, imports: cycles.imports },
    field: Object.fromEntries(touched.field),
    algorithm: Object.fromEntries(touched.algorithm),
    setting: Object.fromEntries(touched.setting),
    reason: Object.fromEntries(touched.reason),
    flag: Object.fromEntries(touched.flag),
  };
}

/** JSON with one line for each name, so that changes of different names merge. */
export function recordText(record: CostRecord): string {
  const entry = ([name, value]: [string, unknown]): string =>
    `${JSON.stringify(name)}: ${JSON.stringify(value)}`;
  const parts = Object.entries(record).map(([part, value]) => {
    const isList = Array.isArray(value);
    const lines = isList ? value.map((one) => JSON.stringify(one)) : Object.entries(value).map(entry);
    const inside = part === 'cycles' ? [cyclesText(record)] : lines;
    const [open, close] = isList ? '[]' : '{}';
    if (inside.length === 0) return `  "${part}": ${open}${close}`;
    return `  "${part}": ${open}\n${inside.map((line) => `    ${line}`).join(',\n')}\n  ${close}`;
  });
  return `{\n${parts.join(',\n')}\n}\n`;
}

function cyclesText({ cycles: { groups, imports } }: CostRecord): string {
  const lines = imports.map((one) => `      ${JSON.stringify(one)}`);
  return `"groups": ${groups},\n    "imports": [${lines.length === 0 ? '' : `\n${lines.join(',\n')}\n    `}]`;
}
