import { describe, expect, it } from 'vitest';
import { kubectlScalars } from '../../test/support/kubectl-scalars.ts';
import { readManifestDocument } from './read-manifests.ts';

describe('readManifestDocument', () => {
  it.each(kubectlScalars)('reads %j as kubectl does', (scalar, value) => {
    expect(readManifestDocument(`v: ${scalar}`)).toMatchObject({ ok: true, value: { v: value } });
  });

  it.each([
    ['.inf', Number.POSITIVE_INFINITY],
    ['-.Inf', Number.NEGATIVE_INFINITY],
    ['.NaN', Number.NaN],
  ])('reads %s, which JSON has no form for', (scalar, value) => {
    expect(readManifestDocument(`v: ${scalar}`)).toMatchObject({ ok: true, value: { v: value } });
  });

  it('merges maps', () => {
    expect(readManifestDocument('a: &a {x: 1, z: 2}\nb: {<<: *a, z: 3}')).toMatchObject({
      value: { b: { x: 1, z: 3 } },
    });
  });

  it('reads JSON indented by tabs, with its escapes', () => {
    expect(readManifestDocument('{\n\t"a": "\\ud83d\\ude00\\/",\n\t"b": [1, null]\n}')).toMatchObject({
      ok: true,
      value: { a: '😀/', b: [1, null] },
    });
  });

  it.each(['', '# nothing', '---\n# nothing\n', '--- # nothing\n\n...\n', 'null', '\uFEFF'])(
    'finds nothing in %j',
    (text) => {
      expect(readManifestDocument(text)).toEqual({ ok: false, empty: true });
    },
  );

  it.each([
    ['a: 1\na: 2', 'yaml: duplicated mapping key', 2, 1],
    ['a: *b', "yaml: unknown anchor 'b' referenced", 1, 5],
    ['a: !!python/object x', 'yaml: unknown tag !!python/object', 1, 20],
    ['a: 1\n...\nb: 2', "documents must be separated by a line of '---'", 1, 1],
    ['a: &a [*a]', "yaml: anchor 'a' value contains itself", 1, 9],
    ['a: !!int x', 'yaml: cannot decode !!str `x` as a !!int', 1, 10],
    ['{<<: 5}', 'yaml: map merge requires map or sequence of maps as the value', 1, 6],
    ['[a]: b', 'yaml: invalid map key: [a]', 1, 1],
  ])('rejects %j', (text, message, line, column) => {
    expect(readManifestDocument(text)).toEqual({ ok: false, empty: false, text: message, line, column });
  });

  it('rejects aliases that multiply', () => {
    const names = [...'abcdefghij'];
    const lists = names.map((name, n) => {
      const element = n === 0 ? '1' : `*${names[n - 1]}`;
      return `${name}: &${name} [${Array(10).fill(element)}]\n`;
    });
    expect(readManifestDocument(lists.join(''))).toMatchObject({
      text: 'yaml: aliases make the document more than ten times as large as its text',
    });
  });
});
