import { describe, expect, it } from 'vitest';
import { parseYaml } from './parse.ts';
import { scalarValue } from './scalars.ts';
import { YamlTape } from './tape.ts';

type Value = string | number | boolean | null | Value[] | { [key: string]: Value };

function documentOf(tape: YamlTape, given = 0): Value {
  const node = tape.resolve(given);
  if (tape.kind(node) === 2) return scalarValue(tape, node);
  const children: number[] = [];
  for (let child = node + 1; child < tape.next(node); child = tape.next(child)) children.push(child);
  if (tape.kind(node) === 1) return children.map((child) => documentOf(tape, child));
  const pairs = children.flatMap((key, i) =>
    i % 2 === 0 ? [[String(documentOf(tape, key)), documentOf(tape, children[i + 1])] as const] : [],
  );
  return Object.fromEntries(pairs);
}

function read(text: string): Value {
  const tape = parseYaml(text);
  if (!(tape instanceof YamlTape)) throw new Error(`${tape.text} at ${tape.offset}`);
  return documentOf(tape);
}

/** The text at the position of the last scalar. */
function lastWord(text: string): string {
  const tape = parseYaml(text) as YamlTape;
  return text.slice(tape.place(tape.size - 1));
}

const limit = { unit: 'day', requests_per_unit: 5 };

/** Layouts that YAML 1.1 allows and 1.2 does not. */
const layouts: [what: string, text: string, value: Value[]][] = [
  [
    'a brace that closes at the column of its key',
    'descriptors:\n  - key: k\n    rate_limit: {\n      unit: day,\n      requests_per_unit: 5\n    }\n',
    [{ key: 'k', rate_limit: limit }],
  ],
  [
    'a brace that closes before the column of its key',
    'descriptors:\n  - key: k\n    rate_limit: {\nunit: day,\nrequests_per_unit: 5\n}\n',
    [{ key: 'k', rate_limit: limit }],
  ],
  ['a bracket that closes at column 0', 'descriptors: [\n  {key: k}\n]\n', [{ key: 'k' }]],
  [
    'everything in brackets at column 0',
    'descriptors: [\n{key: k},\n{key: l}\n]\n',
    [{ key: 'k' }, { key: 'l' }],
  ],
  [
    'a quoted text with an escape that goes on at the column of its key',
    'descriptors:\n- key: "caf\\u00e9\n  x"\n- key: \'y\nz\'\n',
    [{ key: 'café x' }, { key: 'y z' }],
  ],
];

const additions: [what: string, text: string, value: Value][] = [
  ['nothing', '', null],
  ['an escape', 'more: "caf\\u00e9"\n', 'café'],
  ['a folded text', 'more: >-\n  a\n  b\n', 'a b'],
  ['a literal text', 'more: |\n  a\n   b\n', 'a\n b\n'],
  ['a tag', 'more: !!str 5\n', '5'],
  ['a text of two lines', 'more: a\n  b\n', 'a b'],
  ['an explicit key', '? more\n: a\n', 'a'],
  ['a full tag', 'more: !<tag:yaml.org,2002:str> 5\n', '5'],
  ['a pair in brackets', 'more: [a: b]\n', [{ a: 'b' }]],
  ['lines that begin with brackets in a text', '? x\n: y\nmore: |\n  a\n  ]\n  }\n', 'a\n]\n}\n'],
  ['lines that begin with brackets in a plain text', '? x\n: y\nmore: a\n  ]\n  }\n', 'a ] }'],
];

describe('parseYaml', () => {
  describe.each(layouts)('reads %s', (_, text, descriptors) => {
    it.each(additions)('with %s elsewhere in the file', (_, addition, more) => {
      const added = addition === '' ? {} : { more };
      expect(read(text + addition)).toMatchObject({ descriptors, ...added });
      expect(read(addition + text)).toMatchObject({ descriptors, ...added });
    });
  });

  it('shows the places of the text as written if lines were not deep enough', () => {
    expect(lastWord('a: [\n]\n? b\n: {\nc: "d\ne", f:\n\t"g"}\n')).toBe('"g"}\n');
    expect(lastWord('a: [\nb\n]\n? c\n: |\n  d\n')).toBe('|\n  d\n');
  });

  it('reads 3,000 lines that begin with closing brackets in a file with rare YAML', () => {
    const text = `${Array.from({ length: 3000 }, (_, i) => `a${i}: {\n  b: c\n}\n`).join('')}? d\n: e\n`;
    expect(read(text)).toMatchObject({ a0: { b: 'c' }, a2999: { b: 'c' }, d: 'e' });
  });

  const wrong: [what: string, text: string, words: string, offset: number][] = [
    [
      'an open brace before the next item',
      'a:\n  - b: {\n      c: d,\n      e: 5\n  - key: x\n',
      "did not find expected ',' or '}'",
      42,
    ],
    ['an open brace behind a comma', 'a:\n- b: {c: d,\n- key: x\n', 'did not find expected node content', 15],
    ['an open bracket before the next key', 'a: [b\nc: d\n', "did not find expected ',' or ']'", 7],
    ['an open quote behind an escape', 'a: "\\x41\nb: c\n', 'found unexpected end of stream', 3],
    ['half a pair of surrogates', 'a: "\\ud83d\\u0041"\n', 'found invalid Unicode character escape code', 4],
    ['the second half alone', 'a: "\\ude00"\n', 'found invalid Unicode character escape code', 4],
    ['the last half alone', 'a: "\\udfff"\n', 'found invalid Unicode character escape code', 4],
    [
      'an unknown anchor behind a line that was not deep enough',
      'a: [\n]\n? b\n: *c\n',
      "unknown anchor 'c' referenced",
      14,
    ],
    ['no character', 'a: "\\U00110000"\n', 'found invalid Unicode character escape code', 4],
    [
      'no character behind an explicit key',
      '? a\n: "\\U00110000"\n',
      'found invalid Unicode character escape code',
      7,
    ],
    ['too few digits', 'a: "\\x4"\n', 'did not find expected hexdecimal number', 4],
    ['an escape that is none', 'a: "\\q"\n', 'found unknown escape character', 5],
  ];
  it.each(wrong)('rejects %s', (_, text, words, offset) => {
    expect(parseYaml(text)).toMatchObject({ text: words, offset });
  });

  it('reads any number of lines in brackets, however little they are indented', () => {
    const lines = 'b,\n'.repeat(20_000);
    const text = `a:\n  - [\n${lines}]\n  - ? ${'c'.repeat(100_000)}\n    : e\n`;
    expect(read(text)).toEqual({ a: [new Array(20_000).fill('b'), { ['c'.repeat(100_000)]: 'e' }] });
  });
});
