import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readWithJsYaml } from '../../test/support/js-yaml-tape.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { parseYaml } from './parse.ts';
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

const rare: Record<string, string> = {
  'a lonely carriage return': 'a: b\rc: d\n',
  'a line break of YAML 1.1 only': 'a: b\u2028c\n',
  'a block scalar as the document': '|\n  b\n',
  'a block scalar that ends in spaces': 'a: |\n  b\n  ',
  'a block scalar that ends in more spaces': 'a: |\n  b\n    ',
  'a tag in full': 'a: !<tag:yaml.org,2002:str> 5\n',
  'a tag without a value': 'a: !!str\nb: c\n',
  'a tag before a key': '- !!str a: b\n',
  'properties above a key in brackets':
    'a:\n  !!map\n  {b: c}: d\ne: &f\n  [g]: h\ni: *f\nj:\n- !!map\n  [&k l]: *k\n',
  'a key of several lines in brackets': '{a\n b: c}\n',
  'keys with question marks':
    '? a\n: b\n? c\n? - d\n  - e\n: - f\n? |\n  g\n: h: i\n  j: k\n? {l: m}\n:\n- n\n',
  'a tab behind a key in brackets': '{}\t: a\n[b]\t: c\n{d:\te}: f\n',
  'keys without text': ': a\nb: {: c, ? : d, ? e}\n',
  directives: '%YAML 1.1 # x\n%TAG !e! tag:e.org:\n# y\n---\na: !e!x b\n',
  'content behind the document start': '--- a\n b\n',
  'a block scalar behind the document start': '--- |\n a\n  b\n',
  'an alias as key': '- &a b\n- *a : c\n- {*a : d}\n',
  'an anchor before a key': '- &a b: c\n- &d\n  &e !!str f: *a\n- [*d, *e]\n',
  'an anchor before nothing': 'a: &b\nc: [&d , &e !!str ]\nf: [*b, *d, *e]\n',
  'properties on lines of their own': 'a:\n  &b\n  !!map\n  c: d\ne: !!str\n  &f\n  g\nh: [*b, *f]\n',
  'pairs in brackets': 'a: [b: c, ? d : e, ? f, : g, "h":i, [j]: k, {l: m}: n, &o p: q, *o : r, s]\n',
  'keys in brackets': '[a, {b: &c d}]: e\n{f: *c}: [g]\n- h\n'.replace('- h\n', ''),
  'an item that begins with a key in brackets': '- [a]: b\n  c: d\n- e\n',
  'a map that begins with a tab behind a dash': '-\ta\n- \tb\n',
  'a tab before what goes on': 'a: b\n \tc\nd:\n \t"e"\n \t\nf: g\n',
};

const refused: Record<string, string> = {
  'a tab in the indentation': 'a:\n\tb: c\n',
  'a tab before a key': '-\ta: b\n',
  'a block scalar whose first empty line is the deepest': 'a: |\n    \n  b\n',
  'a tab in the indentation of a block scalar': 'a: |\n\tb\n',
  'a header of a block scalar that is none': 'a: |x\n  b\n',
  'an indentation of zero': 'a: |0\n  b\n',
  'an unknown anchor': 'a: *b\n',
  'an alias inside its anchor': 'a: &b [*b]\n',
  'an alias with a tag': 'a: &b c\nd: !!str *b\n',
  'two anchors': 'a: &b &c d\n',
  'a tag handle nobody declared': 'a: !e!b c\n',
  'a directive without document': '%YAML 1.1\na: b\n',
  'a directive of another version': '%YAML 2.0\n---\na: b\n',
  'a map behind the document start': '--- a: b\n',
  'a map in a value': 'a: b: c\n',
  'a list in a value': 'a: - b\n',
  'a key of several lines': 'a\nb: c\n',
  'a bracket of the other kind': 'a: [b}\n',
  'a pair of several lines': '[a\n: b]\n',
};

function readText(text: string): string[] {
  const tape = parseYaml(text);
  if (!(tape instanceof YamlTape)) throw new Error(tape.text);
  return Array.from({ length: tape.size }, (_, node) => tape.text(node));
}

/** What js-yaml reads otherwise than libyaml and the Go service do, or not at all. */
const differences: Record<string, RegExp> = {
  'empty lines behind an escaped line break': /\\\r?\n\s*?\n/,
  'an escaped single quote': /\\'/,
  'how deep the first content is':
    /^(?:%[^\n]*\n|[ \t]*(?:---[ \t]*)?(?:#[^\n]*)?\r?\n)*(?:---)?[ \t]+[^ \t\r\n#]/,
  'a map on the line of its key, behind properties': /:[ \t]+[&!].*:/,
  'a tab behind properties': /[&!]\S* *\t/,
  'a question mark behind properties': /[&!]\S*[ \t]+\?/,
  'two properties on a line': /[&!]\S*[ \t]+[&!]/,
  'a key in brackets behind properties': /[&!]\S*[ \t]+[[{].*[\]}][ \t]*:/,
  'a tab before a key in brackets': /^[ \t?:-]*\t[ \t]*[[{].*[\]}][ \t]*:/m,
  'a tab behind an explicit key': /\?[\s\S]*\t/,
  'text behind a quote or bracket of an item': /- .*["'\]}](?=[ \t]*[^\s,:\]}"'#])/,
  'a line break behind properties in brackets': /[[{,][\s\S]*[!&]\S*[ \t]*(?:#.*)?\r?\n/,
};
const differs = new RegExp(
  Object.values(differences)
    .map(({ source }) => source)
    .join('|'),
);

describe('parseYaml', () => {
  it.each(Object.entries({ ...accepted, ...rare }))('reads %s as js-yaml does', (_, text) => {
    const tape = parseYaml(text);
    const complete = readWithJsYaml(text);
    expect(complete).toBeInstanceOf(YamlTape);
    expect(tape).toBeInstanceOf(YamlTape);
    expect(treeOf(tape as YamlTape)).toEqual(treeOf(complete as YamlTape));
  });

  it.each(Object.entries(refused))('rejects %s as js-yaml does', (_, text) => {
    expect(parseYaml(text)).not.toBeInstanceOf(YamlTape);
    expect(readWithJsYaml(text)).not.toBeInstanceOf(YamlTape);
  });

  it.each([
    ['an anchor before a key in brackets', '- &a [b]: c\n', 'b'],
    ['an escaped single quote', 'a: "b\\\'c"\n', "b'c"],
    ['empty lines behind an escaped line break', 'a: "b\\\n\n\n  c"\n', 'b\n\nc'],
  ])('reads %s as the Go service does and js-yaml does not', (_, text, value) => {
    expect(readText(text)).toContain(value);
  });

  it('reads and rejects what js-yaml does', () => {
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
        const tape = parseYaml(text);
        if (differs.test(text)) return;
        const complete = readWithJsYaml(text);
        if (!(tape instanceof YamlTape)) {
          expect(complete).not.toBeInstanceOf(YamlTape);
          return;
        }
        counts.read++;
        expect(complete).toBeInstanceOf(YamlTape);
        expect(treeOf(tape)).toEqual(treeOf(complete as YamlTape));
      }),
      { numRuns: caseCount(10_000) },
    );
    expect(counts.read / counts.all).toBeGreaterThan(0.03);
  });
});
