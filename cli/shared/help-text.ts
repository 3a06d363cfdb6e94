/** Help texts as terminals show them: paragraphs and descriptions that are too wide are filled anew, examples stay as they are. */

/** Chosen: what a terminal beside another window has. */
export const helpColumns = 100;

/** A paragraph, or the description of a flag with what stands before it. */
interface Block {
  lines: string[];
  /** Where lines after the first begin; undefined for what nothing follows. */
  column: number | undefined;
}

/** The same words, in lines of at most `helpColumns` characters where they are prose. */
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

/** `  --flag <x>   description` goes on below its description, a usage below its first word, prose at the margin. */
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
