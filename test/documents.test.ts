/**
 * Holds the documents to what they say: every shell command in them is run by a test or says why not, and every link
 * leads somewhere.
 */

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { readCallersFile } from '../limiter/callers/callers-file.ts';
import { group, kind } from '../rules/language/kinds.ts';
import { readSpec } from '../rules/reader/manifest-reader.ts';
import { readManifests } from '../rules/reader/read-manifests.ts';
import { looksLikeOverrides, readOverrideFile } from '../rules/reader/read-override.ts';
import { readRuleFiles } from '../rules/reader/read-rule-files.ts';
import {
  anchorsOf,
  commandBlocks,
  documentPaths,
  linksOf,
  projectRoot,
  readDocument,
  resolveLink,
} from './support/documents.ts';
import { fencedBlocks, withoutFencedBlocks } from './support/fenced-blocks.ts';

const documents = documentPaths();

/** The other tests, by path. */
const tests = readdirSync(join(projectRoot, 'test'), { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.test.ts') && path !== 'documents.test.ts')
  .map((path) => ({ path, text: readFileSync(join(projectRoot, 'test', path), 'utf8') }));

/** A test that runs the commands of a document takes its `sh` blocks, and fails for one that it does not know. */
function testsThatRun(document: string): string[] {
  const taken = `commandsToRun('${document}')`;
  const named = `${document}'`;
  return tests
    .filter(({ text }) => text.includes(taken) || (text.includes(named) && text.includes('```sh')))
    .map(({ path }) => path);
}

describe('the commands in the documents', () => {
  const blocks = documents.flatMap(commandBlocks);

  it('are run, or say why not', () => {
    const unaccounted = blocks
      .filter(({ document, notRun }) => notRun === undefined && testsThatRun(document).length === 0)
      .map(({ document, line, text }) => `${document}:${line} ${text.split('\n')[0]}`);
    expect(unaccounted).toEqual([]);
  });

  // The names of these tests are the list.
  it.each(
    blocks
      .filter(({ notRun }) => notRun !== undefined)
      .map(({ document, line, text, notRun }) => ({
        place: `${document}:${line}`,
        command: text.trim().split('\n')[0],
        notRun,
      })),
  )('$place `$command` is not run: $notRun', ({ notRun }) => {
    expect(notRun?.split(' ').length).toBeGreaterThanOrEqual(3);
  });

  it('that are not run name tests that there are', () => {
    const named = blocks.flatMap(({ notRun = '' }) =>
      [...notRun.matchAll(/\b(?:test|cli|limiter)\/[\w./-]*\w/g)].map(([path]) => path),
    );
    expect(named.length).toBeGreaterThan(0);
    expect(named.filter((path) => !existsSync(join(projectRoot, path)))).toEqual([]);
  });

  it('set values that the chart has', () => {
    const values: unknown = parse(readDocument('charts/weir/values.yaml'));
    const names = blocks.flatMap(({ text }) =>
      [...text.matchAll(/--set(?:-string|-json)? ([\w.]+)=/g)].map(([, name]) => name as string),
    );
    const has = (name: string): boolean => {
      let found = values;
      for (const key of name.split('.')) {
        if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return false;
        found = (found as Record<string, unknown>)[key];
      }
      return true;
    };
    expect(names.length).toBeGreaterThan(0);
    expect(names.filter((name) => !has(name))).toEqual([]);
  });

  it('stand in blocks that say so', () => {
    const command =
      /^(\$ |([A-Z_]+=\S* )*(npm|npx|weir|kubectl|curl|helm|docker|kind|envoy|node|git|openssl|echo) )/m;
    const unlabeled = documents
      .flatMap((document) => fencedBlocks(readDocument(document)).map((block) => ({ document, ...block })))
      .filter(
        ({ language, text }) =>
          /^(bash|shell|console)$/.test(language) || (language === '' && command.test(text)),
      )
      .map(({ document, line, text }) => `${document}:${line} ${text.split('\n')[0]}`);
    expect(unlabeled).toEqual([]);
  });
});

/** A document's sentences and lists, without headings, tables, code, pictures, comments, and links to other pages than the glossary. */
function runningText(markdown: string): string {
  return withoutFencedBlocks(markdown)
    .replace(/<!--.*?-->/gs, '')
    .replace(/^(?:#|\s*\||<).*$/gm, '')
    .replace(/!\[[^\]]*\]\([^)]*\)/g, '')
    .replace(/`[^`\n]*`/g, '')
    .replace(/\[[^\]]*\]\((?!(?:docs\/)?glossary\.md)[^)]*\)/g, '');
}

/** A term as a noun of its own: not the verb `to limit`, and not in "memory limit", "over limit" or the name of a file. */
function firstUse(term: string): RegExp {
  const other = term === 'limit' ? String.raw`(?<!\b(?:memory|rate|time|over|over the|not|Weir|rule)\s)` : '';
  const capital = term.charAt(0).toUpperCase() + term.slice(1);
  // "Windows" may be the system.
  const word = term === 'window' ? `windows?|${capital}(?!s)` : `(?:${term}|${capital})s?`;
  return new RegExp(String.raw`${other}(?<![\w/.-])(?:${word})(?![\w/-])`);
}

describe('the pages', () => {
  /** Made of tables, or long by their nature: looked up, not read. */
  const references =
    /^(CHANGELOG|charts\/weir\/VALUES|docs\/(settings|settings-control-plane|custom-resources))\.md$/;
  const maxLines = 250;

  it('can be read at one sitting', () => {
    const long = documents
      .filter((document) => !references.test(document))
      .map((document) => ({ document, lines: readDocument(document).trimEnd().split('\n').length }))
      .filter(({ lines }) => lines > maxLines);
    expect(long).toEqual([]);
  });

  it('of the design records are a page each', () => {
    const long = documents
      .filter((document) => /^docs\/design\/\d/.test(document))
      .map((document) => ({ document, lines: readDocument(document).trimEnd().split('\n').length }))
      .filter(({ lines }) => lines > 60);
    expect(long).toEqual([]);
  });

  it('link a term of the glossary if they use one', () => {
    const terms = [
      ...readDocument('docs/glossary.md').matchAll(/^\| <a id="[\w-]+"><\/a>([a-z][a-z ]*\w) \|/gm),
    ].map(([, term]) => term);
    expect(terms.length).toBeGreaterThan(30);
    const anyTerm = new RegExp(`\\b(?:${terms.join('|')})s?\\b`);
    const pages = documents.filter((document) => /^docs\/(?!glossary|README)[\w-]+\.md$/.test(document));
    const withTerms = pages.filter((document) => anyTerm.test(withoutFencedBlocks(readDocument(document))));
    expect(withTerms.length).toBeGreaterThan(50);
    const isLinked = (document: string) =>
      linksOf(readDocument(document)).some(({ target }) => target.startsWith('glossary.md#'));
    expect(withTerms.filter((document) => !isLinked(document))).toEqual([]);
  });

  const mostRead = [
    'README',
    ...['start', 'rules', 'http-api', 'envoy', 'kubernetes', 'budgets', 'running', 'troubleshooting'],
    ...['migrating', 'security', 'settings', 'comparison'],
  ].map((name) => (name === 'README' ? `${name}.md` : `docs/${name}.md`));

  it.each(mostRead)('link the terms of rules where %s first uses them', (document) => {
    const text = runningText(readDocument(document));
    const unlinked = ['descriptor', 'rule', 'limit', 'counter', 'window', 'domain'].flatMap((term) => {
      const at = text.search(firstUse(term));
      if (at < 0) return [];
      const isLinked = new RegExp(`^\\[\\w+\\]\\((?:docs/)?glossary\\.md#${term}\\)`).test(
        text.slice(at - 1),
      );
      return isLinked ? [] : [text.slice(Math.max(0, at - 40), at + 20)];
    });
    expect(unlinked).toEqual([]);
  });
});

it('docs/design/README.md lists every record', () => {
  const records = documents
    .filter((document) => /^docs\/design\/\d/.test(document))
    .map((path) => basename(path));
  const listed = linksOf(readDocument('docs/design/README.md')).map(({ target }) => target);
  expect(records.length).toBeGreaterThan(0);
  expect(records.filter((name) => !listed.includes(name))).toEqual([]);
});

describe('the rules in the documents', () => {
  const blocks = documents.flatMap((document) =>
    fencedBlocks(readDocument(document))
      .filter(({ language }) => language === 'yaml')
      .map(({ text, line }) => ({ text, place: `${document}:${line}` })),
  );

  const files = blocks.filter(({ text }) => /^domain:/m.test(text));

  it.each(files.filter(({ text }) => looksLikeOverrides(text)))(
    'override others as in $place',
    ({ text, place }) => {
      const { errors } = readOverrideFile(place, text, { nowMs: Date.now(), maxSeconds: 2_592_000 });
      expect(errors).toEqual([]);
    },
  );

  it.each(files.filter(({ text }) => !looksLikeOverrides(text)))('load as in $place', ({ text, place }) => {
    const { errors, warnings, sources } = readRuleFiles([{ name: place, text }], { mergeDomains: false });
    expect([errors, warnings, sources.length]).toEqual([[], [], 1]);
  });

  it.each(blocks.filter(({ text }) => /^kind: RateLimitConfig/m.test(text)))(
    'are accepted as in $place',
    ({ text, place }) => {
      const { manifests, errors } = readManifests(text, place);
      expect([errors, manifests.length > 0]).toEqual([[], true]);
      for (const { spec } of manifests) expect(readSpec(spec, place)).toMatchObject({ ok: true });
    },
  );
});

it('docs/callers.md has a file of callers that can be used', () => {
  const blocks = fencedBlocks(readDocument('docs/callers.md')).filter(({ text }) => /^callers:/.test(text));
  expect(blocks.map(({ text }) => readCallersFile(text).problems)).toEqual([undefined]);
});

describe('README.md', () => {
  const readme = readDocument('README.md');

  it('is short', () => {
    expect(readme.trimEnd().split('\n').length).toBeLessThan(150);
  });

  it.each([
    ['198,773 decisions per second', 'docs/performance.md', /Weir, Redis \| 8 x 50 \| 198,773 \|/],
    ['345,552 with counters in memory', 'docs/performance.md', /Weir, memory \| 8 x 50 \| 345,552 \|/],
    ['71 µs', 'docs/performance.md', /5,000\/s, each alone \| 71\.0 \| 1\.20/],
    ['1.2 times', 'docs/performance.md', /5,000\/s, each alone \| 71\.0 \| 1\.20/],
    ['65,000 decisions per second', 'docs/sizing.md', /65,000 decisions per second on each core/],
    ['within 16 ms', 'docs/performance.md', /p50 16 ms and\s+p99 68 ms/],
    ['99% within 68 ms', 'docs/performance.md', /p50 16 ms and\s+p99 68 ms/],
    [
      '56 ms',
      'docs/reliability.md',
      /`redis-killed` \|(?: [\d,]+ \|){3} 56 \|(?: [\d.]+ \|){2} 0 \| 0 \| 0 \|/,
    ],
  ])('repeats a figure: %s, of %s', (words, document, source) => {
    expect(readme.replaceAll(/\s+/g, ' ')).toContain(words);
    expect(readDocument(document)).toMatch(source);
  });
});

it('docs/gitops.md has the health check of Argo CD for RateLimitConfigs', () => {
  const blocks = fencedBlocks(readDocument('docs/gitops.md')).filter(({ text }) => /argocd-cm/.test(text));
  const { data } = parse(blocks[0]?.text ?? '') as { data: Record<string, string> };
  expect(Object.keys(data)).toEqual([`resource.customizations.health.${group}_${kind}`]);
  const [lua = ''] = Object.values(data);
  const opened = lua.match(/\b(?:then|do)\b/g)?.length;
  expect(lua.match(/\bend\b/g)).toHaveLength(opened ?? 0);
});

it('docs/security.md names every secret setting', () => {
  const secrets = ['docs/settings.md', 'docs/settings-control-plane.md'].flatMap((document) =>
    [...readDocument(document).matchAll(/^\| `([A-Z_]+)`.* \(secret\) \|/gm)].map(
      ([, name]) => name as string,
    ),
  );
  expect(secrets.length).toBeGreaterThanOrEqual(10);
  const text = readDocument('docs/security.md');
  const own = secrets.map((name) => name.replace('REDIS_PERSECOND_', 'REDIS_'));
  expect(own.filter((name) => !text.includes(`\`${name}\``))).toEqual([]);
});

// "weir" of npm is somebody else's: in a clone it is bin/weir, elsewhere the file of "npm pack" is installed.
it('nothing names a package of npm that is not ours', () => {
  const pattern = '(npx|npm (install|i|add|exec))( -[^ ]+)* weir([^-/a-z]|$)';
  const grep = ['grep', '--line-number', '-I', '-E', pattern];
  const { status, stdout } = spawnSync('git', grep, { cwd: projectRoot, encoding: 'utf8' });
  expect([status, stdout]).toEqual([1, '']);
});

describe('the links in the documents', () => {
  it.each(documents)('of %s lead somewhere', (document) => {
    const broken = linksOf(readDocument(document))
      .filter(({ target }) => !/^(https?|mailto):/.test(target))
      .filter(({ target }) => !leadsSomewhere(document, target))
      .map(({ line, target }) => `${document}:${line} ${target}`);
    expect(broken).toEqual([]);
  });

  it('use https', () => {
    const plain = documents.flatMap((document) =>
      linksOf(readDocument(document))
        .filter(({ target }) => target.startsWith('http:') && !target.startsWith('http://localhost'))
        .map(({ line, target }) => `${document}:${line} ${target}`),
    );
    expect(plain).toEqual([]);
  });

  it('reach every document from the README', () => {
    const reached = new Set(['README.md']);
    // A Set's iteration also visits what is added during it.
    for (const document of reached)
      for (const { target } of linksOf(readDocument(document))) {
        if (/^https?:/.test(target)) continue;
        const { path } = resolveLink(document, target);
        const readme = join(path, 'README.md');
        if (documents.includes(path)) reached.add(path);
        else if (documents.includes(readme)) reached.add(readme);
      }
    expect(documents.filter((document) => !reached.has(document))).toEqual([]);
  });
});

function leadsSomewhere(document: string, target: string): boolean {
  const { path, anchor } = resolveLink(document, target);
  const file = join(projectRoot, path);
  if (path.startsWith('..') || !existsSync(file)) return false;
  if (anchor === undefined) return true;
  return statSync(file).isFile() && path.endsWith('.md') && anchorsOf(readDocument(path)).has(anchor);
}
