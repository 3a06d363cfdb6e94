/** Help texts: the flags that they list, so that each flag is written once, and their fitting to terminals. */

/** `short` is one letter, as in `-n shop`. `values` lists all possible values, for completion. */
export type FlagTypes = Record<
  string,
  { type: 'string' | 'boolean'; multiple?: boolean; short?: string; values?: readonly string[] }
>;

/** Chosen: the forms of most commands with `--output`. */
export const outputForms = ['table', 'json', 'yaml'] as const;

/** Lines of the usage, which also name flags. */
const usage = /^Usage: .*\n(?: {7,}\S.*\n)*/gm;
const ofUsage = /--(?<name>[a-z][a-z-]+)(?: (?<value><[^>]*>|\S+\|\S+))?/g;
/** The flags at the beginning of a line, such as `-n, --namespace <name>`. The rest of the line describes them. */
const row = /^ {2,6}(?:-[A-Za-z], )?--[a-z][a-z-]*.*$/gm;
const ofRow =
  /^(?:, | {2,6})(?:-(?<short>[A-Za-z]), )?--(?<name>[a-z][a-z-]*)(?: (?<value><[^>]*>[^\s,]*(?:,\S+)?|\S+\|\S+))?/;

/**
 * Reads the flags of a help text. A flag with a value, `<name>` or `a|b`, takes a text. It can be repeated if the text says
 * `Repeat the flag`, or if its value ends in `[,...]`.
 */
export function flagsOfHelp(help: string): FlagTypes {
  const flags: FlagTypes = {};
  for (const [lines] of help.matchAll(usage))
    for (const { groups } of lines.matchAll(ofUsage)) addFlag(flags, groups!, groups!['value'], '');
  for (const [line] of help.matchAll(row)) {
    const listed: Record<string, string>[] = [];
    let rest = line;
    for (let found = ofRow.exec(rest); found !== null; found = ofRow.exec(rest)) {
      listed.push(found.groups!);
      rest = rest.slice(found[0].length);
    }
    // `--class, --fleet <name>`: both take a value.
    const value = listed.find((one) => one['value'] !== undefined)?.['value'];
    for (const one of listed) addFlag(flags, one, one['value'] ?? value, line);
  }
  return flags;
}

function addFlag(
  flags: FlagTypes,
  { name, short }: Partial<Record<string, string>>,
  value: string | undefined,
  line: string,
): void {
  const values = /^\w[\w|-]*$/.test(value ?? '')
    ? value!.split('|')
    : name === 'output'
      ? outputForms
      : undefined;
  flags[name!] = {
    type: value === undefined ? 'boolean' : 'string',
    ...(value !== undefined && /repeat the flag|\[,\.{3}\]/i.test(line) && { multiple: true }),
    ...(short !== undefined && { short }),
    ...(value !== undefined && values !== undefined && { values }),
  };
}

/** Chosen: the width of a terminal beside another window. */
export const helpColumns = 100;

/** A paragraph, or the description of a flag with the text before it. */
interface Block {
  lines: string[];
  /** The column of the lines after the first; undefined if the block has one line. */
  column: number | undefined;
}

/** Wraps prose at `helpColumns` characters. */
export function fittedHelp(help: string): string {
  const blocks: Block[] = [];
  for (const line of help.split('\n')) {
    const last = blocks.at(-1);
    if (last?.column !== undefined && line !== '' && indentOf(line) === last.column) last.lines.push(line);
    else blocks.push({ lines: [line], column: columnOf(line) });
  }
  return blocks.flatMap(fitted).join('\n');
}

function indentOf(line: string): number {
  return line.length - line.trimStart().length;
}

/** Continued lines begin below the description of `--flag <x>   description`, below the first word of a usage, or at the margin. */
function columnOf(line: string): number | undefined {
  if (line === '') return undefined;
  const usage = /^Usage: (?:kubectl )?\S+ /.exec(line);
  if (usage !== null) return usage[0].length;
  if (indentOf(line) === 0) return 0;
  const item = /^ +\S.*?\S {2,}(?=\S)/.exec(line);
  return item === null ? undefined : item[0].length;
}

function fitted({ lines, column }: Block): string[] {
  if (column === undefined || lines.every(({ length }) => length <= helpColumns)) return lines;
  const [first = '', ...more] = lines;
  const made: string[] = [];
  let line = first.slice(0, column);
  let isEmpty = true;
  for (const word of [first.slice(column), ...more].join(' ').split(/\s+/).filter(Boolean)) {
    if (!isEmpty && line.length + 1 + word.length > helpColumns) {
      made.push(line);
      line = ' '.repeat(column);
      isEmpty = true;
    }
    line += isEmpty ? word : ` ${word}`;
    isEmpty = false;
  }
  return [...made, line];
}
