import { describe, expect, it } from 'vitest';
import { type Kind, kinds, type Measured } from './names.ts';
import { type CostRecord, compare, type Measurement, nextRecord, recordText } from './record.ts';

const files = (count: number): string[] => Array.from({ length: count }, (_, index) => `rules/${index}.ts`);

function measured(
  counts: Partial<Record<Kind, Record<string, number>>>,
  imports: string[] = [],
): Measurement {
  const touched = Object.fromEntries(
    kinds.map((kind) => [
      kind,
      new Map(Object.entries(counts[kind] ?? {}).map(([name, count]) => [name, files(count)])),
    ]),
  ) as unknown as Measured;
  return { touched, cycles: { groups: imports.length > 0 ? [['a.ts', 'b.ts']] : [], imports } };
}

const recorded = (measurement: Measurement, by: Partial<CostRecord> = {}): CostRecord => ({
  ...nextRecord(undefined, measurement),
  ...by,
});

const before = measured({ field: { hideIdentity: 4, unit: 7 }, setting: { GRPC_PORT: 2 } });
const why = 'The explanation of a rule shows the field since this version.';

describe('a measurement', () => {
  it('that equals the record has neither problems nor changes', () => {
    expect(compare(recorded(before), before)).toEqual({ problems: [], changes: [] });
  });

  it('may not raise a name, and says what was added and what to do', () => {
    const { problems } = compare(
      recorded(before),
      measured({ field: { hideIdentity: 5, unit: 6 }, setting: { GRPC_PORT: 2 } }),
    );
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain('field hideIdentity: 4 -> 5\n  added:\n    rules/4.ts\n');
    expect(problems[0]).toContain('{ "kind": "field", "name": "hideIdentity", "count": 5, "why": "…" }');
    expect(problems[0]).toContain('npm run cost-of-change -- --write');
  });

  it('may raise an explained name as far as the explanation says, and the sum not at all', () => {
    const explanations = [{ kind: 'field', name: 'hideIdentity', count: 5, why }] as const;
    const record = recorded(before, { explanations });
    const settings = { GRPC_PORT: 2 };
    const level = measured({ field: { hideIdentity: 5, unit: 6 }, setting: settings });
    expect(compare(record, level).problems).toEqual([]);
    const beyond = measured({ field: { hideIdentity: 6, unit: 5 }, setting: settings });
    expect(compare(record, beyond).problems).toHaveLength(1);
    const sum = measured({ field: { hideIdentity: 5, unit: 7 }, setting: settings });
    expect(compare(record, sum).problems).toEqual([
      expect.stringContaining('field: the sum of its names rose from 11 to 12'),
    ]);
  });

  it('is not explained by a word', () => {
    const explanations = [{ kind: 'field', name: 'unit', count: 8, why: 'needed' }] as const;
    expect(compare(recorded(before, { explanations }), before).problems).toEqual([
      'explanation of field unit: "needed" is not a sentence that says why',
    ]);
  });

  it.each([
    ['field', 6],
    ['setting', 3],
    ['reason', 3],
    ['flag', 3],
  ] as const)('may have a new %s in at most %i files', (kind, most) => {
    const record = recorded(measured({}));
    const within = compare(record, measured({ [kind]: { fresh: most } }));
    expect(within).toEqual({ problems: [], changes: [`${kind} fresh is new: ${most}`] });
    const [problem] = compare(record, measured({ [kind]: { fresh: most + 1 } })).problems;
    expect(problem).toContain(`${kind} fresh is new: ${most + 1} files touch it, at most ${most} may`);
  });

  it('does not count new names in the sum', () => {
    const settings = { GRPC_PORT: 2, GRPC_HOST: 3 };
    const { problems } = compare(
      recorded(before),
      measured({ field: { hideIdentity: 4, unit: 7 }, setting: settings }),
    );
    expect(problems).toEqual([]);
  });

  it('compares a renamed name with the old one', () => {
    const after = measured({ field: { isHidden: 4, window: 7 }, setting: { GRPC_PORT: 2 } });
    const [problem] = compare(recorded(before), after).problems;
    expect(problem).toContain('{ "kind": "field", "from": "<the old name>", "to": "window" }');
    const renames = [
      { kind: 'field', from: 'hideIdentity', to: 'isHidden' },
      { kind: 'field', from: 'unit', to: 'window' },
    ] as const;
    const record = recorded(before, { renames });
    expect(compare(record, after)).toEqual({
      problems: [],
      changes: ['field isHidden: 4 -> 4', 'field window: 7 -> 7'],
    });
    expect(nextRecord(record, after).renames).toEqual([]);
    const higher = measured({ field: { isHidden: 4, window: 8 }, setting: { GRPC_PORT: 2 } });
    expect(compare(record, higher).problems[0]).toContain('field window: 7 -> 8');
  });

  it('that is lower, or lacks a name, is a change to record', () => {
    expect(compare(recorded(before), measured({ field: { unit: 6 }, setting: { GRPC_PORT: 2 } }))).toEqual({
      problems: [],
      changes: ['field unit: 7 -> 6', 'field hideIdentity is gone'],
    });
  });

  it('may not add imports to cycles, and names them', () => {
    const record = recorded(measured({}, ['a.ts -> b.ts', 'b.ts -> a.ts']));
    const more = measured({}, ['a.ts -> b.ts', 'b.ts -> a.ts', 'b.ts -> c.ts', 'c.ts -> b.ts']);
    expect(compare(record, more).problems).toEqual([
      expect.stringContaining(
        'imports in cycles: 2 -> 4\n  added:\n    b.ts -> c.ts\n    c.ts -> b.ts\n  To do: move what both',
      ),
    ]);
    expect(compare(record, measured({}))).toEqual({
      problems: [],
      changes: ['import cycles: 1 -> 0', 'imports in cycles: 2 -> 0'],
    });
  });
});

describe('the record', () => {
  it('drops explanations of counts that are no longer reached', () => {
    const explanations = [
      { kind: 'field', name: 'hideIdentity', count: 5, why },
      { kind: 'field', name: 'unit', count: 7, why },
    ] as const;
    expect(nextRecord(recorded(before, { explanations }), before).explanations).toEqual([explanations[1]]);
  });

  it('is JSON with a line for each name', () => {
    const record = recorded(measured({ field: { unit: 2 } }, ['a.ts -> b.ts']), {
      explanations: [{ kind: 'field', name: 'unit', count: 2, why }],
    });
    const text = recordText(record);
    expect(JSON.parse(text)).toEqual(record);
    expect(text).toContain('\n    "unit": ["rules/0.ts","rules/1.ts"]\n');
    expect(JSON.parse(recordText(recorded(measured({}))))).toEqual(recorded(measured({})));
  });
});
