import { describe, expect, it } from 'vitest';
import { FieldPlace, fieldTable } from '../language/tables.ts';
import { parseYaml } from '../yaml/parse.ts';
import { YamlTape } from '../yaml/tape.ts';
import { DocumentWalk } from './document-walk.ts';

const names = Array.from({ length: 70 }, (_, index) => `field_${index}`);
const row = { kind: 'text', description: 'x', example: 'x' } as const;
const table = fieldTable(FieldPlace.DESCRIPTOR, Object.fromEntries(names.map((name) => [name, row])));

/** The names that a map of these keys is read as, and the warnings. */
function walked(written: readonly string[]): { read: string[]; warnings: string[] } {
  const tape = parseYaml(written.map((name) => `${name}: 1\n`).join(''));
  if (!(tape instanceof YamlTape)) throw new Error(tape.text);
  const walk = new DocumentWalk(tape);
  const read: string[] = [];
  walk.eachField(0, table, (name) => read.push(name));
  return { read, warnings: walk.log.warnings.map(({ text }) => text) };
}

describe('DocumentWalk with 70 fields', () => {
  it('reports no repetition if each field occurs once', () => {
    expect(walked(names)).toEqual({ read: names, warnings: [] });
  });

  it.each(names)('reports that %s is repeated, and no other field', (name) => {
    expect(walked([...names, name])).toEqual({
      read: [...names, name],
      warnings: [`config warning, key '${name}' is repeated, the last one counts`],
    });
  });
});
