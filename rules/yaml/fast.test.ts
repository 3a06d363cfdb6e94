import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readComplete } from './complete.ts';
import { readFast } from './fast.ts';
import { NodeKind, YamlTape } from './tape.ts';

/** A node as nested arrays, so that two tapes can be compared whatever their numbering. */
type Tree = ['map' | 'list', number, Tree[]] | ['scalar', number, string, boolean] | ['alias', Tree];

function treeOf(tape: YamlTape, node = 0): Tree {
  const kind = tape.kind(node);
  if (kind === NodeKind.ALIAS) return ['alias', treeOf(tape, tape.resolve(node))];
  if (kind === NodeKind.SCALAR) {
    const text = tape.text(node);
    // Where nothing is written, there is no place to agree on.
    return ['scalar', text === '' ? -1 : tape.start(node), text, tape.isPlain(node)];
  }
  const children: Tree[] = [];
  for (let child = node + 1; child < tape.next(node); child = tape.next(child))
    children.push(treeOf(tape, child));
  return [kind === NodeKind.MAP ? 'map' : 'list', tape.start(node), children];
}

const accepted = {
  'an empty text': '',
  'comments only': '# a\n\n  # b\n',
  'a map': 'a: b\nc: d\n',
  'no line break at the end': 'a: b',
  'Windows line breaks': 'a: b\r\nc:\r\n  - d\r\n',
  'a document start': '# x\n---\na: b\n',
  'a second document': 'a: b\n---\n"broken\n',
  'a document end': 'a: b\n...\n: :\n',
  'an indented list': 'a:\n  - b\n  - c\n',
  'a list at the indentation of its key': 'a:\n- b: c\n- d\ne: f\n',
  'a list as the document': '- a: b\n- c\n',
  'items on lines of their own': 'a:\n  -\n    b: c\n  -\n  - d\n',
  'empty values': 'a:\nb:\n  c:\nd: # nothing\n',
  'comments behind values': 'a: b # c\nd: "e" # f\ng: [h] # i\nj: k#l\n',
  'plain scalars with indicators inside': 'a: b-c*d&e!f|g>h\'i"j%k@l`m,n[o]p{q}r:s#t?u\n',
  'a plain scalar that begins with a dash': 'a: -b\nc: -1\n- d: e\n'.replace('- d', '-d'),
  'plain scalars with spaces and tabs inside': 'a: b  c\td\t \n',
  'quoted scalars': `a: 'it''s'\nb: "c\\"\\\\\\/\\n\\t\\rd"\ne: ''\nf: ""\n`,
  'quoted scalars of several lines': `a: "b\n  c\n\n  c\n\n\n  d  \n \te"\nf: 'g\n  h'\n`,
  'quoted keys': `"a b": c\n'd': e\n"f" : g\n`,
  'unusual keys': 'a.b-c/d: e\n<<: f\n5: g\n~: h\na b: c\n',
  'flow collections': 'a: {b: c, "d":e, f: , g: [h, "i", {j: k}, []], l: {}}\n',
  'flow collections of several lines': 'a: {\n  b: c, # d\n  e: [\n   f,\n   g,\n  ],\n  }\n',
  'a JSON document': '{"a": {"b": [1, true, null, "c\\n"]},\n "d":[]}\n',
  'anchors and aliases':
    'a: &x b\nc: *x\nd: &y\n  e: f\ng: *y\nh: [*x, *y]\ni:\n- &z\n  j: k\n- *z\n- &w {l: m}\n',
  'characters outside ASCII': 'é: 日本\n😀: "😀"\n',
};

const left: Record<string, string> = {
  'a tab in the indentation': 'a:\n\tb: c\n',
  'a lonely carriage return': 'a: b\rc: d\n',
  'a line break of YAML 1.1 only': 'a: b\u2028c\n',
  'a block scalar': 'a: |\n  b\n',
  'a tag': 'a: !!str 5\n',
  'a plain scalar of several lines': 'a: b\n  c\n',
  'a key with a question mark': '? a\n: b\n',
  'a directive': '%YAML 1.1\n---\na: b\n',
  'content behind the document start': '--- a\n',
  'an alias as key': '- &a b\n- *a : c\n',
  'an anchor before a key': '- &a b: c\n',
  'an escape with digits': 'a: "\\x41"\n',
  'an unknown anchor': 'a: *b\n',
  'an alias inside its anchor': 'a: &b [*b]\n',
  'a pair in brackets': 'a: [b: c]\n',
  'a list in a list': '- - a\n',
};

describe('readFast', () => {
  it.each(Object.entries(accepted))('reads %s as the complete parser does', (_, text) => {
    const fast = readFast(text).tape;
    const complete = readComplete(text);
    expect(complete).toBeInstanceOf(YamlTape);
    expect(fast && treeOf(fast)).toEqual(treeOf(complete as YamlTape));
  });

  it.each(Object.entries(left))('leaves %s to the complete parser', (_, text) => {
    expect(readFast(text)).toEqual({ tape: undefined, problem: undefined });
  });

  it('leaves deep documents to the complete parser', () => {
    expect(readFast(`${'['.repeat(201)}${']'.repeat(201)}`).tape).toBeUndefined();
  });

  it('reads brackets that close at the indentation of their key, which the complete parser refuses', () => {
    const text = 'a: [\n  b\n]\nc: "d\ne"\n';
    const fast = readFast(text).tape;
    expect(fast && treeOf(fast)).toMatchObject([
      'map',
      0,
      [{}, ['list', 3, [{}]], {}, ['scalar', 15, 'd e', false]],
    ]);
    expect(readComplete(text)).toMatchObject({ text: 'deficient indentation' });
  });

  it('never reads anything else than the complete parser', () => {
    const pieces = [
      'a',
      'b: ',
      'c:',
      ' ',
      '  ',
      '\n',
      '\n  ',
      '\n- ',
      '- ',
      '"',
      "'",
      '[',
      ']',
      '{',
      '}',
      ', ',
      ',',
    ];
    const rarePieces = [
      '#',
      ' # x',
      '&x ',
      '*x',
      '~',
      '5',
      ':',
      '<<: ',
      '\t',
      '\r\n',
      '|',
      '?',
      '---\n',
      '...\n',
      '\\n',
    ];
    const soup = fc.array(fc.constantFrom(...pieces, ...pieces, ...rarePieces), { maxLength: 14 });
    const counts = { read: 0, all: 0 };
    fc.assert(
      fc.property(soup, (parts) => {
        const text = parts.join('');
        counts.all++;
        const fast = readFast(text).tape;
        if (fast === undefined) return;
        counts.read++;
        const complete = readComplete(text);
        if (complete instanceof YamlTape) expect(treeOf(fast)).toEqual(treeOf(complete));
        else expect(complete.text).toMatch(/^(?:deficient indentation|found unexpected end of stream)$/);
      }),
      { numRuns: 20_000 },
    );
    expect(counts.read / counts.all).toBeGreaterThan(0.03);
  });

  it('says what is wrong only of what the complete parser refuses too', () => {
    const pieces = [
      'a',
      'b: ',
      'c: d',
      ' ',
      '\n',
      '\n  ',
      '\n    ',
      '\n- ',
      '- ',
      '"',
      '[',
      ']',
      '{',
      '}',
      ',',
      '@',
      '# ',
    ];
    // In a list no deeper than its key js-yaml takes `- []b: ` for an item and the next key, which libyaml refuses.
    const keyBehindItem = /^- .*["\]}].*: /m;
    const counts = { told: 0 };
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...pieces), { maxLength: 10 }), (parts) => {
        const text = parts.join('');
        const fast = readFast(text);
        if (fast.tape !== undefined || fast.problem === undefined) return;
        if (keyBehindItem.test(text)) return;
        counts.told++;
        expect(readComplete(text)).not.toBeInstanceOf(YamlTape);
      }),
      { numRuns: 10_000 },
    );
    expect(counts.told).toBeGreaterThan(500);
  });
});
