/** The fenced code blocks of a Markdown text, each with the comment right before it. */
export interface FencedBlock {
  /** First word behind the fence; empty when there is none. */
  language: string;
  /** What follows that word. */
  info: string;
  text: string;
  /** Line of the opening fence, from 1 on. */
  line: number;
  /** Text of the HTML comment that ends in the line before, a blank line between allowed. */
  comment: string | undefined;
}

export function fencedBlocks(markdown: string): FencedBlock[] {
  const blocks: FencedBlock[] = [];
  const lines = markdown.split('\n');
  for (let i = 0; i < lines.length; i++) {
    const opening = /^( *)(`{3,})(\S*) *(.*)$/.exec(lines[i] as string);
    if (opening === null) continue;
    const [, indent = '', fence = '', language = '', info = ''] = opening;
    const end = lines.indexOf(`${indent}${fence}`, i + 1);
    if (end < 0) throw new Error(`the block that begins in line ${i + 1} has no end`);
    const text = lines
      .slice(i + 1, end)
      .map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line))
      .join('\n');
    blocks.push({ language, info, text, line: i + 1, comment: commentBefore(lines, i) });
    i = end;
  }
  return blocks;
}

/** The text without its fenced blocks, whose lines become empty. */
export function withoutFencedBlocks(markdown: string): string {
  let fence: string | undefined;
  return markdown
    .split('\n')
    .map((line) => {
      const found = /^ *(`{3,})/.exec(line)?.[1];
      const isInside = fence !== undefined || found !== undefined;
      if (fence === undefined) fence = found;
      else if (line.trim() === fence) fence = undefined;
      return isInside ? '' : line;
    })
    .join('\n');
}

function commentBefore(lines: readonly string[], fenceAt: number): string | undefined {
  let i = fenceAt - 1;
  if (lines[i]?.trim() === '') i--;
  if (lines[i]?.trimEnd().endsWith('-->') !== true) return undefined;
  let first = i;
  while (first > 0 && !(lines[first] as string).includes('<!--')) first--;
  const comment = lines.slice(first, i + 1).join(' ');
  return /<!--\s*(.*?)\s*-->/.exec(comment)?.[1];
}
