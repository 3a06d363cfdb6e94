/** Rules about the size of sentences, cells of tables, and lines. */
import type { TextlintRuleModule } from '@textlint/kernel';
import { split } from 'sentence-splitter';

interface ProseNode {
  readonly type: string;
  readonly value?: unknown;
  readonly children?: readonly ProseNode[];
}

/** Returns the text on one line. A link becomes its text. Code becomes one word, unless it is wanted as written. */
export function plainText(
  { type, value, children = [] }: ProseNode,
  code: 'one word' | 'as written' = 'one word',
): string {
  if (type === 'Code') return code === 'one word' ? 'code' : String(value);
  if (type === 'Break') return ' ';
  if (type === 'Str') return String(value).replaceAll('\n', ' ');
  return children.map((child) => plainText(child, code)).join('');
}

/** A word contains a letter or a digit. */
export function countWords(text: string): number {
  return text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
}

/** A sentence may begin with code, whose first letter may be lowercase. */
export function sentencesOf(text: string): string[] {
  return split(text.replaceAll(/(?<=[.!?] )code\b/g, 'Code'))
    .filter(({ type }) => type === 'Sentence')
    .map(({ raw }) => raw);
}

function firstWords(text: string): string {
  return text.split(' ').slice(0, 6).join(' ');
}

export const sentenceLength: TextlintRuleModule<{ words?: number }> = (context, { words = 30 } = {}) => ({
  [context.Syntax.Paragraph](node) {
    for (const sentence of sentencesOf(plainText(node))) {
      const count = countWords(sentence);
      if (count <= words) continue;
      const message = `"${firstWords(sentence)} …" has ${count} words; write at most ${words}`;
      context.report(node, new context.RuleError(message));
    }
  },
});

export const cellLength: TextlintRuleModule<{ words?: number }> = (context, { words = 30 } = {}) => ({
  [context.Syntax.TableCell](node) {
    const text = plainText(node);
    const count = countWords(text);
    if (count <= words) return;
    const message = `the cell "${firstWords(text)} …" has ${count} words; write at most ${words}`;
    context.report(node, new context.RuleError(message));
  },
});

/** Finds up to three words that are written twice, such as "in force in force". Neighboring pieces of code are no repetition. */
export const repeatedWords: TextlintRuleModule = (context) => ({
  [context.Syntax.Paragraph](node) {
    for (const [, words] of plainText(node).matchAll(/(?<![\w'-])((?:[a-z]+ ){0,2}[a-z]+) \1(?![\w'-])/gi)) {
      if (!/\bcode\b/.test(words ?? ''))
        context.report(node, new context.RuleError(`"${words}" is written twice`));
    }
  },
});

/** Returns the length of a line without images, targets of links, addresses and long code, which cannot be wrapped. */
function proseLength(line: string): number {
  return line.replaceAll(/!\[[^\]]*\]\([^)]*\)|(?<=\])\([^)]*\)|https?:[^\s)>]*|`[^`]{40,}`/g, '').length;
}

/** Checks the lines of documents. */
export const lineLength: TextlintRuleModule<{ characters?: number }> = (
  context,
  { characters = 140 } = {},
) => ({
  [context.Syntax.Paragraph](node) {
    if (!context.getFilePath()?.endsWith('.md')) return;
    const { line: first, column } = node.loc.start;
    for (const [index, line] of context.getSource(node).split('\n').entries()) {
      const length = proseLength(line) + (index === 0 ? column : 0);
      if (length <= characters) continue;
      const message = `line ${first + index} has ${length} characters; write at most ${characters}`;
      context.report(node, new context.RuleError(message));
    }
  },
});
