import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

import { type FencedBlock, fencedBlocks, withoutFencedBlocks } from './fenced-blocks.ts';

export const projectRoot: string = fileURLToPath(new URL('../..', import.meta.url));

/** Folders that hold no documents of ours. */
const elsewhere = /^(node_modules|dist|dist-release|coverage|\.cache|\.git|\.ci)$/;

/** Paths of all Markdown files of the project, relative to its root. */
export function documentPaths(folder = ''): string[] {
  return readdirSync(join(projectRoot, folder), { withFileTypes: true })
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return elsewhere.test(entry.name) ? [] : documentPaths(path);
      return entry.name.endsWith('.md') && !entry.name.endsWith('.template.md') ? [path] : [];
    })
    .sort();
}

export function readDocument(path: string): string {
  return readFileSync(join(projectRoot, path), 'utf8');
}

/** A block of shell commands in a document. */
export interface CommandBlock extends FencedBlock {
  document: string;
  /** Why no test runs it: the text of `<!-- not run: ... -->` before it. */
  notRun: string | undefined;
}

export function commandBlocks(document: string): CommandBlock[] {
  return fencedBlocks(readDocument(document))
    .filter(({ language }) => language === 'sh')
    .map((block) => ({
      ...block,
      document,
      notRun: /^not run: (.+)$/.exec(block.comment ?? '')?.[1],
    }));
}

/** Texts of the blocks that a test has to run. */
export function commandsToRun(document: string): string[] {
  return commandBlocks(document)
    .filter(({ notRun }) => notRun === undefined)
    .map(({ text }) => text.trim());
}

/** Anchors of a document's headings, as GitHub makes them. */
export function anchorsOf(markdown: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading = ''] of withoutFencedBlocks(markdown).matchAll(/^#{1,6} +(.*)$/gm)) {
    const slug = heading
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .trim()
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\p{M}_ -]/gu, '')
      .replaceAll(' ', '-');
    let anchor = slug;
    for (let i = 1; anchors.has(anchor); i++) anchor = `${slug}-${i}`;
    anchors.add(anchor);
  }
  for (const [, id = ''] of markdown.matchAll(/<a id="([\w-]+)"><\/a>/g)) anchors.add(id);
  return anchors;
}

export interface DocumentLink {
  line: number;
  target: string;
}

/** Links and pictures of a text, those in code apart. */
export function linksOf(markdown: string): DocumentLink[] {
  const text = withoutFencedBlocks(markdown)
    // A link's text may be code; a link inside of code is none.
    .replace(/`[^`\n]*`/g, (code) => code.replace(/[[\]()]/g, ' '));
  const inline = /\]\(\s*<?([^()\s>]+(?:\([^()\s]*\))?)>?(?:\s+"[^"]*")?\s*\)/g;
  const found = [
    ...text.matchAll(inline),
    ...text.matchAll(/<(?:img|source|a)\b[^>]*?(?:src|href|srcset)="([^"]+)"/g),
  ];
  return found.map((match) => ({
    line: text.slice(0, match.index).split('\n').length,
    target: match[1] as string,
  }));
}

/** What a relative link names: a path from the project's root, and an anchor. */
export function resolveLink(document: string, target: string): { path: string; anchor: string | undefined } {
  const [path = '', anchor] = target.split('#');
  return {
    path: path === '' ? document : normalize(join(dirname(document), decodeURI(path))),
    anchor: anchor === undefined || anchor === '' ? undefined : decodeURIComponent(anchor),
  };
}
