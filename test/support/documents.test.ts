import { describe, expect, it } from 'vitest';

import { anchorsOf, linksOf, resolveLink } from './documents.ts';
import { fencedBlocks, withoutFencedBlocks } from './fenced-blocks.ts';

describe('fencedBlocks', () => {
  it('gives language, text, line and the comment before', () => {
    const markdown = 'a\n\n<!-- not run: why\nnot -->\n\n```sh x y\none\n\ntwo\n```\n```\nplain\n```\n';
    expect(fencedBlocks(markdown)).toEqual([
      { language: 'sh', info: 'x y', text: 'one\n\ntwo', line: 6, comment: 'not run: why not' },
      { language: '', info: '', text: 'plain', line: 11, comment: undefined },
    ]);
  });

  it('takes the indentation of a list off', () => {
    expect(fencedBlocks('- a\n\n  ```sh\n  one\n    two\n  ```\n')[0]?.text).toBe('one\n  two');
  });

  it('rejects a block without an end', () => {
    expect(() => fencedBlocks('\n```sh\none\n')).toThrow('the block that begins in line 2 has no end');
  });

  it('are what withoutFencedBlocks leaves out', () => {
    expect(withoutFencedBlocks('a\n```\nb\n```\nc')).toBe('a\n\n\n\nc');
  });
});

describe('anchorsOf', () => {
  it.each([
    ['# One thing', 'one-thing'],
    ['## `weir check`, and more', 'weir-check-and-more'],
    ['## What [links](x.md) say', 'what-links-say'],
    ['## TLS 1.2 & 1.3', 'tls-12--13'],
  ])('makes of "%s" #%s', (heading, anchor) => {
    expect([...anchorsOf(heading)]).toEqual([anchor]);
  });

  it('numbers headings that come again', () => {
    expect([...anchorsOf('# A\n## B\n## B\n```\n# C\n```\n')]).toEqual(['a', 'b', 'b-1']);
  });
});

describe('linksOf', () => {
  it('finds links and pictures outside of code', () => {
    const markdown = '[a](b.md#c) `[no](x)`\n![p](d.svg "t")\n```\n[no](y)\n```\n<img src="e.svg">[`f`](g)';
    expect(linksOf(markdown)).toEqual([
      { line: 1, target: 'b.md#c' },
      { line: 2, target: 'd.svg' },
      { line: 6, target: 'g' },
      { line: 6, target: 'e.svg' },
    ]);
  });
});

describe('resolveLink', () => {
  it.each([
    ['docs/a.md', 'b.md', { path: 'docs/b.md', anchor: undefined }],
    ['docs/a.md', '../README.md#x', { path: 'README.md', anchor: 'x' }],
    ['docs/a.md', '#x', { path: 'docs/a.md', anchor: 'x' }],
  ])('takes %s, %s for %o', (document, target, resolved) => {
    expect(resolveLink(document, target)).toEqual(resolved);
  });
});
