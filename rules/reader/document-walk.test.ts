import { describe, expect, it } from 'vitest';
import { parseYaml } from '../yaml/parse.ts';
import { YamlTape } from '../yaml/tape.ts';
import { DocumentWalk } from './document-walk.ts';
import { type Field, Place } from './value-reader.ts';

const places = Place.DESCRIPTOR;
const manyFields = new Map(
  Array.from({ length: 70 }, (_, index): [string, Field] => {
    const name = `field_${index}`;
    return [name, { name, places, isOwn: true, index }];
  }),
);

/** The names that a map of these keys is read as, and the warnings. */
function walked(names: readonly string[]): { read: string[]; warnings: string[] } {
  const tape = parseYaml(names.map((name) => `${name}: 1\n`).join(''));
  if (!(tape instanceof YamlTape)) throw new Error(tape.text);
  const walk = new DocumentWalk(tape, manyFields);
  const read: string[] = [];
  walk.eachField(0, places, (name) => read.push(name));
  return { read, warnings: walk.log.warnings.map(({ text }) => text) };
}

describe('DocumentWalk with 70 fields', () => {
  const names = [...manyFields.keys()];

  it('reports no repetition where each field occurs once', () => {
    expect(walked(names)).toEqual({ read: names, warnings: [] });
  });

  it.each(names)('reports that %s is repeated, and no other field', (name) => {
    expect(walked([...names, name])).toEqual({
      read: [...names, name],
      warnings: [`config warning, key '${name}' is repeated, the last one counts`],
    });
  });
});
