import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../test/support/property-cases.ts';
import { readComplete } from './complete.ts';
import { readFast } from './fast.ts';
import { NodeKind, YamlTape } from './tape.ts';

/** A node as nested arrays, so that two tapes can be compared whatever their numbering. */
type Tree =
  | ['map' | 'list', number, Tree[], string | undefined]
  | ['scalar', number, string, boolean, string | undefined]
  | ['alias', Tree];

function treeOf(tape: YamlTape, node = 0): Tree {
  const kind = tape.kind(node);
  if (kind === NodeKind.ALIAS) return ['alias', treeOf(tape, tape.resolve(node))];
  if (kind === NodeKind.SCALAR) {
    const text = tape.text(node);
    // Where nothing is written, there is no place to agree on.
    return ['scalar', text === '' ? -1 : tape.start(node), text, tape.isPlain(node), tape.tag(node)];
  }
  const children: Tree[] = [];
  for (let child = node + 1; child < tape.next(node); child = tape.next(child))
    children.push(treeOf(tape, child));
  return [kind === NodeKind.MAP ? 'map' : 'list', tape.start(node), children, tape.tag(node)];
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
  'all escapes':
    'a: "\\0\\a\\b\\t\\n\\v\\f\\r\\e\\ \\"\\/\\\\\\N\\_\\L\\P\\x41\\u00e9\\U0001F600\\ud83d\\ude00"\n',
  'escaped line breaks': 'a: "b \\\n  c\\\n  \\ d\\\r\n e"\n',
  'escapes in keys': '"caf\\u00e9": b\n"\\x41": {"\\t": c}\n',
  'quotes that go on at the column of their key': 'a: "b\\t\nc"\nd:\n  e: \'f\n  g\'\n',
  'plain scalars of several lines':
    'a: b\n  c # d\ne:\n  f g\n  h\n\n\n   - i "j" [k]\nl:\n- m\n  n\n- o: p\n   q\n- r\n',
  'plain scalars of several lines in brackets':
    'a: [b\n c,d\n\n\n e f ,g\n]\nh: {i: j\nk, l: http://m\n - n}\n',
  'scalars on a line of their own': 'a:\n  "b"\nc:\n  [d]\ne:\n - \n  f\ng: &x\n  h\ni:\n  *x\n',
  'literal scalars': 'a: |\n  b\n   c\n\n  # d\n\ne: |-\n f\n\n\ng:\n- |+\n h\n\n- | # i\n  j\n',
  'folded scalars':
    'a: >\n  b\n  c\n\n  d\n   e\n\n   f\n  g\n\n\n  h\ni: >-\n\n j\n k\nl: >+\n\n m\n\n\n# n\n',
  'indentation indicators': 'a: |1\n  b\nc: >2-\n   d\n  e\nf:\n  g: |-3\n      h\n     i\n',
  'empty block scalars': 'a: |\nb: >-\n\n\nc: |+\n\nd:\n  - >\n  - |\n\n# e\n',
  'block scalars with Windows line breaks': 'a: |\r\n  b\r\n\r\n  c\r\nd: >-\r\n  e\r\n  f\r\n',
  'a block scalar without a last line break': 'a: |\n  b\n  c',
  'a kept block scalar without a last line break': 'a: >+\n  b',
  tags: 'a: !!str 5\nb: ! 5\nc: !!int "5"\nd: !x y\ne: !!map\n  f: g\nh: !!seq [!!null ~, {i: !!bool y}]\nj: !!str |\n  k\n',
  'tags and anchors together': 'a: &x !!str 5\nb: !!float &y 5\nc: [*x, *y]\n- d\n'.replace('- d\n', ''),
  'lists in lists': '- - a\n  - b: c\n    d: e\n- - - f\n',
  'tabs behind a colon and in brackets': 'a:\tb\nc: \t[\td,\te\t]\t# f\n',
  'brackets that close at the column of their key':
    'a: [\n  b\n]\nc:\n  d: {\n    e: f\n  }\ng: [\n{h: i},\n{j: k}\n]\n',
  'characters outside ASCII': 'é: 日本\n😀: "😀"\n',
};

const left: Record<string, string> = {
  'a tab in the indentation': 'a:\n\tb: c\n',
  'a lonely carriage return': 'a: b\rc: d\n',
  'a line break of YAML 1.1 only': 'a: b\u2028c\n',
  'a block scalar as the document': '|\n  b\n',
  'a block scalar whose first empty line is the deepest': 'a: |\n    \n  b\n',
  'a block scalar that ends in spaces': 'a: |\n  b\n  ',
  'a tab in the indentation of a block scalar': 'a: |\n \tb\n',
  'a tag in full': 'a: !<tag:yaml.org,2002:str> 5\n',
  'a tag without a value': 'a: !!str\nb: c\n',
  'a tag before a key': '- !!str a: b\n',
  'a key of several lines in brackets': '{a\n b: c}\n',
  'a key with a question mark': '? a\n: b\n',
  'a directive': '%YAML 1.1\n---\na: b\n',
  'content behind the document start': '--- a\n',
  'an alias as key': '- &a b\n- *a : c\n',
  'an anchor before a key': '- &a b: c\n',
  'an unknown anchor': 'a: *b\n',
  'an alias inside its anchor': 'a: &b [*b]\n',
  'a pair in brackets': 'a: [b: c]\n',
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

  it.each([
    ['an escaped single quote', 'a: "b\\\'c"\n', "b'c"],
    ['empty lines behind an escaped line break', 'a: "b\\\n\n\n  c"\n', 'b\n\nc'],
  ])('reads %s as the Go service does and the complete parser does not', (_, text, value) => {
    const fast = readFast(text).tape;
    expect(fast?.text(2)).toBe(value);
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
      '\\x41',
      '\\u00e9',
      '\\ud83d\\ude00',
      '\\\n',
      '\\ ',
      '!!str ',
      '! ',
      '|\n  ',
      '|-\n   ',
      '>\n  ',
      '>+\n ',
      '|2\n  ',
      '\n\n  ',
      '- - ',
      ']\n',
      '}\n',
    ];
    const soup = fc.array(fc.constantFrom(...pieces, ...pieces, ...rarePieces), { maxLength: 14 });
    const counts = { read: 0, all: 0 };
    fc.assert(
      fc.property(soup, (parts) => {
        const text = parts.join('');
        counts.all++;
        const fast = readFast(text).tape;
        if (fast === undefined || /\\\r?\n\s*?\n/.test(text)) return;
        counts.read++;
        const complete = readComplete(text);
        expect(complete).toBeInstanceOf(YamlTape);
        expect(treeOf(fast)).toEqual(treeOf(complete as YamlTape));
      }),
      { numRuns: caseCount(20_000) },
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
      { numRuns: caseCount(10_000) },
    );
    expect(counts.told).toBeGreaterThan(500);
  });
});
