/**
 * Collects the texts that the linter reads: the documents, and texts of programs that the documents do not repeat. These are the
 * descriptions of the API and of the schemas (which come from the table of fields), the help of commands, and every message in the
 * sources and the chart. It leaves out the texts of other projects that schemas/frozen-names.json lists.
 */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { parseSync } from 'rolldown/utils';
import { isObject } from '../../rules/model.ts';
import { runWeirHere } from '../../test/support/run-command.ts';
import { countWords } from './sentence-rules.ts';

export interface ProseText {
  /** A file in the project, or the program that prints the text. */
  source: string;
  markdown: string;
}

const documents = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', '{docs,examples,packages,charts}/**/*.md'];

const described = [
  'docs/openapi.json',
  'schemas/*.json',
  'charts/weir/values.schema.json',
  'charts/weir/alerts/*.yaml',
  'charts/weir/dashboards/*.json',
  'crds/*.yaml',
  'action.yml',
  '.github/ISSUE_TEMPLATE/*.yml',
];

/** The sources of the programs. Each text in them with several words is a message, a description, or text of a page. */
const sourceFiles = ['{limiter,process,rules,control-plane,cli,console,replay,packages}/**/*.{ts,js}'];

function filesOf(root: string, patterns: string[]): string[] {
  return globSync(patterns, { cwd: root, exclude: ['**/node_modules/**', '**/dist/**'] }).sort();
}

/** The texts of descriptions, of messages of validation rules, and of the panels of a dashboard, at any depth. */
export function descriptionsIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, one]) =>
    typeof one === 'string' && isText(key, one) ? [one] : descriptionsIn(one),
  );
}

/** A title or a legend of one word, or with a value in it, is a name. */
function isText(key: string, text: string): boolean {
  if (/^(description|summary|message)$/.test(key)) return true;
  return /^(title|legendFormat)$/.test(key) && /^[^{]* [^{]*$/.test(text);
}

/**
 * Returns the texts of at least four words in a source file, each as a paragraph. A filled-in value counts as code. It leaves out help
 * texts, because `helpTexts` prints them, and programs in other languages.
 */
export function messagesIn(source: string, path: string): string[] {
  const messages: string[] = [];
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) for (const one of value) visit(one);
    else if (isObject(value) && value['type'] !== 'ImportDeclaration') {
      const { type, value: text, quasis } = value;
      if (type === 'Literal' && typeof text === 'string') messages.push(...proseIn(text));
      if (type === 'TemplateLiteral' && Array.isArray(quasis)) {
        const parts = quasis.map((quasi: { value: { cooked: string } }) => quasi.value.cooked);
        messages.push(...proseIn(parts.join(placeholder)));
      }
      for (const own of Object.values(value)) visit(own);
    }
  };
  visit(parseSync(path, source).program);
  return messages;
}

/** The replacement of a value in a text: one word of code. */
const placeholder = '`x`';

/** Returns the paragraphs of a text; in HTML, the text between tags. Empty if the text is not prose, such as a Lua script. */
function proseIn(text: string): string[] {
  if (text.startsWith('Usage:') || /^ {2}-/.test(text)) return [];
  const isHtml = /<\/\w+>/.test(text);
  if (!isHtml && /\n.*\n/s.test(text.trim()) && !/^[\w`].*[.:]$/m.test(text)) return [];
  if (/\b(local \w+ =|redis\.|return \w|then\n|COMP_WORDS|%w\{|\$\()/.test(text)) return [];
  const parts = isHtml ? text.split(/<(?!\/?(?:b|code|small|em)\b)[^>]*>/) : text.split(/\n{2,}/);
  return parts
    .map((part) => markdownOf(isHtml ? part.replaceAll(/<[^>]*>/g, '') : part))
    .filter((part) => countWords(part.replaceAll(placeholder, '')) >= 4);
}

/** Escapes the characters of a message that have a meaning in markdown. */
function markdownOf(text: string): string {
  return text
    .trim()
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/[<*{#]|\[(?![^\]]*\]\()/g, '\\$&')
    .replace(/^([-+>]|\d+\.) /, '\\$1 ');
}

/** Returns a paragraph for each description of a flag, and for each paragraph of text. It leaves out indented examples. */
export function helpParagraphs(help: string): string {
  const paragraphs: string[] = [''];
  for (const line of help.split('\n').slice(1)) {
    const flag = /^ {2}-.*? {2,}(\S.*)$/.exec(line)?.[1];
    const more = /^ {10,}(\S.*)$/.exec(line)?.[1];
    if (line === '' || flag !== undefined) paragraphs.push(flag ?? '');
    else if (more !== undefined || !line.startsWith(' '))
      paragraphs.push(`${paragraphs.pop()} ${more ?? line}`);
  }
  return paragraphs.map((paragraph) => paragraph.trim().replaceAll(/[<*]/g, '\\$&')).join('\n\n');
}

async function printedHelp(args: string[], program: 'weir' | 'kubectl weir'): Promise<string> {
  return (await runWeirHere([...args, '--help'], {}, program)).stdout;
}

/** Returns the help of every command and subcommand of both programs, passed through `read`. */
export async function helpTexts(read: (help: string) => string): Promise<ProseText[]> {
  const texts: ProseText[] = [];
  for (const program of ['weir', 'kubectl weir'] as const) {
    const list = [...(await printedHelp([], program)).matchAll(/^ {2}(\S+) {2,}(\S.*)$/gm)];
    texts.push({ source: `${program} --help`, markdown: list.map(([, , summary]) => summary).join('\n\n') });
    for (const [, name = ''] of list) {
      const help = await printedHelp([name], program);
      const markdown = read(help);
      texts.push({ source: `${program} ${name} --help`, markdown });
      for (const [, word = ''] of help.matchAll(/^ {2}([a-z]+) {2,}\S/gm)) {
        texts.push({
          source: `${program} ${name} ${word} --help`,
          markdown: read(await printedHelp([name, word], program)),
        });
      }
    }
  }
  return texts;
}

/** Texts that stay unchanged, because users search for them. */
function frozenTexts(root: string): Set<string> {
  const lists = JSON.parse(readFileSync(join(root, 'schemas/frozen-names.json'), 'utf8')) as Record<
    string,
    string[]
  >;
  const all = Object.entries(lists).filter(([name]) => /(?:Lines|Errors|Texts)$/.test(name));
  return new Set(
    all.flatMap(([, list]) => list).map((text) => markdownOf(text.replaceAll(/<\w+>/g, placeholder))),
  );
}

export function messageTexts(root: string): ProseText[] {
  const frozen = frozenTexts(root);
  const sources = filesOf(root, sourceFiles).filter(
    (source) => !/\.test\.ts$|\.d\.ts$|\/test\//.test(source),
  );
  return sources.flatMap((source) => {
    const messages = messagesIn(readFileSync(join(root, source), 'utf8'), source);
    const markdown = messages.filter((message) => !frozen.has(message)).join('\n\n');
    return markdown === '' ? [] : [{ source, markdown }];
  });
}

/** Returns the messages with which a chart template rejects values. Names of values are code. */
export function failuresIn(template: string): string[] {
  return [...template.matchAll(/\bfail \(?(?:printf )?"((?:[^"\\]|\\.)*)"/g)].map(([, text = '']) =>
    markdownOf(
      text
        .replaceAll('\\"', '"')
        .replaceAll(/(?:[\w-]+|%s)(?:[.=](?:\w+|%s))+/g, placeholder)
        .replaceAll(/%[sdq]/g, placeholder),
    ),
  );
}

/**
 * Returns the paragraphs of the notes that Helm prints after an installation. Values are code. Commands are left out, because they are
 * indented.
 */
export function notesIn(template: string): string {
  return template
    .replaceAll(/<<END\n.*?^END$/gms, '')
    .replaceAll(/^kubectl .*$/gm, '')
    .replaceAll(/\{\{-? *(?:\/\*|if|else|end|range|with|define|\$\w+ :?=).*?\}\}/gs, '')
    .replaceAll(/\{\{.*?\}\}/gs, placeholder)
    .split(/\n\s*\n/)
    .map((part) =>
      part
        .split('\n')
        .filter((line) => !line.startsWith('  '))
        .join(' '),
    )
    .map(markdownOf)
    .filter((part) => countWords(part) >= 4)
    .join('\n\n');
}

/** Returns the texts of a document outside of its paragraphs, one paragraph each: alternative texts of images, and HTML. */
export function asidesIn(markdown: string): string {
  const prose = markdown.replaceAll(/^( *)(`{3,}).*?^\1\2$|`[^`\n]+`/gms, placeholder);
  const images = [...prose.matchAll(/!\[([^\]]*)\]\(|\balt="([^"]*)"/g)].map(([, text, alt]) => text ?? alt!);
  const html = [...prose.matchAll(/<(summary|p|b|em|strong|h\d|figcaption)\b[^>]*>(.*?)<\/\1>/gs)].map(
    ([, , text]) => text!.replaceAll(/<[^>]*>/g, ''),
  );
  return [...images, ...html].map(markdownOf).filter(Boolean).join('\n\n');
}

export async function proseTexts(root: string): Promise<ProseText[]> {
  const ofDocuments = filesOf(root, documents).map((source) => {
    return { source, markdown: readFileSync(join(root, source), 'utf8') };
  });
  const ofAsides = ofDocuments.map(({ source, markdown }) => {
    return { source: `${source} (images, HTML)`, markdown: asidesIn(markdown) };
  });
  const ofNotes = filesOf(root, ['charts/weir/templates/NOTES.txt']).map((source) => {
    return { source, markdown: notesIn(readFileSync(join(root, source), 'utf8')) };
  });
  const seen = new Set<string>();
  const ofSchemas = filesOf(root, described).map((source) => {
    const text = readFileSync(join(root, source), 'utf8');
    const all = descriptionsIn(/\.ya?ml$/.test(source) ? load(text) : JSON.parse(text));
    const fresh = [...new Set(all)].filter((one) => !seen.has(one));
    for (const one of fresh) seen.add(one);
    return { source, markdown: fresh.join('\n\n') };
  });
  const ofTemplates = filesOf(root, ['charts/weir/templates/**/*.tpl']).map((source) => {
    return { source, markdown: failuresIn(readFileSync(join(root, source), 'utf8')).join('\n\n') };
  });
  return [
    ...ofDocuments,
    ...ofAsides,
    ...ofNotes,
    ...ofSchemas,
    ...ofTemplates,
    ...messageTexts(root),
    ...(await helpTexts(helpParagraphs)),
  ];
}
