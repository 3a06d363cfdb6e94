import { describe, expect, it } from 'vitest';
import { kubectlScalars } from '../../test/support/kubectl-scalars.ts';
import { readYamlDocument } from './read-manifests.ts';

describe('readYamlDocument', () => {
  it.each(kubectlScalars)('reads %j as kubectl does', (scalar, value) => {
    expect(readYamlDocument(`v: ${scalar}`)).toEqual({ ok: true, value: { v: value } });
  });

  it.each([
    ['.inf', Number.POSITIVE_INFINITY],
    ['-.Inf', Number.NEGATIVE_INFINITY],
    ['.NaN', Number.NaN],
  ])('reads %s, which JSON has no form for', (scalar, value) => {
    expect(readYamlDocument(`v: ${scalar}`)).toEqual({ ok: true, value: { v: value } });
  });

  it('merges maps', () => {
    expect(readYamlDocument('a: &a {x: 1, z: 2}\nb: {<<: *a, z: 3}')).toMatchObject({
      value: { b: { x: 1, z: 3 } },
    });
  });

  it('reads JSON indented by tabs, with its escapes', () => {
    expect(readYamlDocument('{\n\t"a": "\\ud83d\\ude00\\/",\n\t"b": [1, null]\n}')).toEqual({
      ok: true,
      value: { a: '😀/', b: [1, null] },
    });
  });

  it.each(['', '# nothing', '---\n# nothing\n', '--- # nothing\n\n...\n', 'null', '\uFEFF'])(
    'finds nothing in %j',
    (text) => {
      expect(readYamlDocument(text)).toEqual({ ok: false, empty: true });
    },
  );

  it.each([
    ['a: 1\na: 2', 'yaml: duplicated mapping key', 2, 1],
    ['a: *b', 'yaml: unidentified alias "b"', 1, 5],
    ['a: !!python/object x', 'yaml: unknown scalar tag !<tag:yaml.org,2002:python/object>', 1, 4],
    ['a: 1\n...\nb: 2', "documents must be separated by a line of '---'", 1, 1],
    ['a: &a [*a]', 'aliases make the document more than ten times as large as it is written', 1, 1],
  ])('refuses %j', (text, message, line, column) => {
    expect(readYamlDocument(text)).toEqual({ ok: false, empty: false, text: message, line, column });
  });

  it('refuses aliases that multiply', () => {
    const names = [...'abcdefghij'];
    const lists = names.map((name, n) => {
      const element = n === 0 ? '1' : `*${names[n - 1]}`;
      return `${name}: &${name} [${Array(10).fill(element)}]\n`;
    });
    expect(readYamlDocument(lists.join(''))).toMatchObject({
      text: 'aliases make the document more than ten times as large as it is written',
    });
  });
});
