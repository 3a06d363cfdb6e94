/** Lints texts for readers: the documents, and the descriptions that programs show. Comments in code are not linted. */
import { createRequire } from 'node:module';
import {
  TextlintKernel,
  type TextlintKernelOptions,
  type TextlintPluginCreator,
  type TextlintRuleModule,
} from '@textlint/kernel';
import terminologyRule from 'textlint-rule-terminology';
import { cellLength, lineLength, plainText, repeatedWords, sentenceLength } from './sentence-rules.ts';
import { bySense, retired, spelling, type Term, terminology } from './terms.ts';
import type { ProseText } from './texts.ts';

export interface Finding {
  source: string;
  line: number;
  column: number;
  kind: Kind;
  message: string;
}

/** Bundlers and Node differ about the default of a CommonJS module that is written as an ES module. */
const require = createRequire(import.meta.url);
const { default: markdown } = require('@textlint/textlint-plugin-markdown') as {
  default: TextlintPluginCreator;
};
const { default: writeGood } = require('textlint-rule-write-good') as { default: TextlintRuleModule };

function termRule(terms: readonly Term[]) {
  return { rule: terminologyRule, options: { defaultTerms: false, terms, skip: ['BlockQuote'] } };
}

const checks = ['weasel', 'illusion', 'so', 'thereIs', 'passive', 'adverb', 'tooWordy', 'cliches', 'eprime'];

/** Runs one check of write-good, without the words that are correct in our texts. */
function writeGoodRule(check: 'passive' | 'weasel', whitelist: readonly string[] = []) {
  const chosen = Object.fromEntries(checks.map((name) => [name, name === check]));
  return { rule: writeGood, options: { ...chosen, whitelist } };
}

const rules = {
  'retired word': termRule(retired),
  terminology: termRule(terminology),
  spelling: termRule(spelling),
  'long sentence': { rule: sentenceLength, options: { words: 30 } },
  'long cell': { rule: cellLength, options: { words: 30 } },
  'repeated words': { rule: repeatedWords, options: {} },
  'long line': { rule: lineLength, options: { characters: 140 } },
  'word by sense': termRule(bySense),
  'passive voice': writeGoodRule('passive'),
  filler: writeGoodRule('weasel', ['several', 'Several', 'many', 'Many', 'few', 'Few']),
} satisfies Record<string, { rule: TextlintRuleModule; options: object }>;

export type Kind = keyof typeof rules;

export const kinds = Object.keys(rules) as Kind[];

/** Kinds of findings that are correct in some sentences, so their number may only fall. A finding of any other kind is an error. */
export const ratchets = ['word by sense', 'passive voice', 'filler'] as const satisfies readonly Kind[];

export type Ratchet = (typeof ratchets)[number];

const options: TextlintKernelOptions = {
  ext: '.md',
  plugins: [{ pluginId: 'markdown', plugin: markdown }],
  rules: Object.entries(rules).map(([ruleId, rule]) => ({ ruleId, ...rule })),
};

export async function findingsOf(texts: readonly ProseText[]): Promise<Finding[]> {
  const kernel = new TextlintKernel();
  const findings: Finding[] = [];
  for (const { source, markdown: text } of texts) {
    const { messages } = await kernel.lintText(text, { ...options, filePath: source });
    for (const { ruleId, message, loc } of messages) {
      findings.push({
        source,
        line: loc.start.line,
        column: loc.start.column,
        kind: ruleId as Kind,
        message,
      });
    }
  }
  return findings;
}

/** Returns the paragraphs of a markdown text without markup, including lists. Code stays unchanged. */
export async function paragraphsOf(markdownText: string): Promise<string[]> {
  const paragraphs: string[] = [];
  const collect: TextlintRuleModule = ({ Syntax }) => ({
    [Syntax.Paragraph]: (node) => void paragraphs.push(plainText(node, 'as written')),
  });
  const rules = [{ ruleId: 'collect', rule: collect }];
  await new TextlintKernel().lintText(markdownText, { ...options, rules });
  return paragraphs;
}
