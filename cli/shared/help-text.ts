/** Fits help texts to terminals: wraps paragraphs and descriptions that are too wide, and leaves examples unchanged. */

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
