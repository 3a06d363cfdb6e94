import { describe, expect, it } from 'vitest';
import { type Kind, kinds, type Measured } from './names.ts';
import {
  type Comparison,
  type CostRecord,
  compare,
  correctedBase,
  type Measurement,
  newlyCorrected,
  nextRecord,
  recordText,
} from './record.ts';

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
  ...nextRecord(undefined, undefined, measurement),
  ...by,
});

/** Where Git has the record as it is, unless it is said what it has. */
const comparedWith = (record: CostRecord, measurement: Measurement, committed = record): Comparison =>
  compare(record, committed, measurement);

const before = measured({ field: { hideIdentity: 4, unit: 7 }, setting: { GRPC_PORT: 2 } });
const why = 'The explanation of a rule shows the field since this version.';

describe('a measurement', () => {
  it('that equals the record has neither problems nor changes', () => {
    expect(comparedWith(recorded(before), before)).toEqual({ problems: [], changes: [] });
  });

  it('may not raise a name, and says what was added and what to do', () => {
    const { problems } = comparedWith(
      recorded(before),
      measured({ field: { hideIdentity: 5, unit: 6 }, setting: { GRPC_PORT: 2 } }),
    );
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain('field hideIdentity: 4 -> 5\n  added:\n    rules/4.ts\n');
    expect(problems[0]).toContain(
      '{ "kind": "field", "name": "hideIdentity", "before": 4, "count": 5, "why": "…" }',
    );
    expect(problems[0]).toContain('npm run cost-of-change -- --write');
  });

  it('may raise an explained name as far as the explanation says, and the sum not at all', () => {
    const explanations = [{ kind: 'field', name: 'hideIdentity', before: 4, count: 5, why }] as const;
    const record = recorded(before, { explanations });
    const settings = { GRPC_PORT: 2 };
    const level = measured({ field: { hideIdentity: 5, unit: 6 }, setting: settings });
    expect(comparedWith(record, level).problems).toEqual([]);
    const beyond = measured({ field: { hideIdentity: 6, unit: 5 }, setting: settings });
    expect(comparedWith(record, beyond).problems).toHaveLength(1);
    const sum = measured({ field: { hideIdentity: 5, unit: 7 }, setting: settings });
    expect(comparedWith(record, sum).problems).toEqual([
      expect.stringContaining('field: the sum of its names rose from 11 to 12'),
    ]);
  });

  it('is not explained by a word', () => {
    const explanations = [{ kind: 'field', name: 'unit', before: 7, count: 8, why: 'needed' }] as const;
    expect(comparedWith(recorded(before, { explanations }), before).problems).toEqual([
      'explanation of field unit: "needed" is not a sentence that says why',
    ]);
  });

  it.each([
    ['field', 6],
    ['setting', 3],
    ['reason', 3],
    ['flag', 3],
  ] as const)('may have a new %s in at most %i files', (kind, max) => {
    const record = recorded(measured({}));
    const within = comparedWith(record, measured({ [kind]: { fresh: max } }));
    expect(within).toEqual({ problems: [], changes: [`${kind} fresh is new: ${max}`] });
    const [problem] = comparedWith(record, measured({ [kind]: { fresh: max + 1 } })).problems;
    expect(problem).toContain(`${kind} fresh is new: ${max + 1} files touch it, at most ${max} may`);
  });

  it('does not count new names in the sum', () => {
    const settings = { GRPC_PORT: 2, GRPC_HOST: 3 };
    const { problems } = comparedWith(
      recorded(before),
      measured({ field: { hideIdentity: 4, unit: 7 }, setting: settings }),
    );
    expect(problems).toEqual([]);
  });

  it('compares a renamed name with the old one', () => {
    const after = measured({ field: { isHidden: 4, window: 7 }, setting: { GRPC_PORT: 2 } });
    const [problem] = comparedWith(recorded(before), after).problems;
    expect(problem).toContain('{ "kind": "field", "from": "<the old name>", "to": "window" }');
    const renames = [
      { kind: 'field', from: 'hideIdentity', to: 'isHidden' },
      { kind: 'field', from: 'unit', to: 'window' },
    ] as const;
    const record = recorded(before, { renames });
    expect(comparedWith(record, after)).toEqual({
      problems: [],
      changes: ['field isHidden: 4 -> 4', 'field window: 7 -> 7'],
    });
    expect(nextRecord(record, record, after).renames).toEqual(renames);
    expect(nextRecord(record, recorded(after), after).renames).toEqual([]);
    // Recorded already, and not yet committed.
    expect(comparedWith(recorded(after, { renames }), after, recorded(before))).toEqual({
      problems: [],
      changes: [],
    });
    const higher = measured({ field: { isHidden: 4, window: 8 }, setting: { GRPC_PORT: 2 } });
    expect(comparedWith(record, higher).problems[0]).toContain('field window: 7 -> 8');
  });

  it('does not take a name for another one that still exists', () => {
    const renames = [{ kind: 'field', from: 'unit', to: 'window' }] as const;
    const record = recorded(before, { renames });
    const both = measured({ field: { hideIdentity: 4, unit: 1, window: 7 }, setting: { GRPC_PORT: 2 } });
    expect(comparedWith(record, both).problems).toContain(
      'rename of field unit to window: 1 files touch unit',
    );
    // A name of another kind may be the same.
    const other = measured({ field: { hideIdentity: 4, window: 7 }, setting: { GRPC_PORT: 2, unit: 1 } });
    expect(comparedWith(record, other).problems).toEqual([]);
  });

  it('does not take two names for the same old one', () => {
    const renames = [
      { kind: 'field', from: 'unit', to: 'window' },
      { kind: 'field', from: 'unit', to: 'period' },
    ] as const;
    const after = measured({ field: { window: 4, period: 7 }, setting: { GRPC_PORT: 2 } });
    expect(comparedWith(recorded(before, { renames }), after).problems).toEqual([
      'rename of field unit to period: window replaces unit already',
    ]);
  });

  it.each([
    ['unit', 1, '"before" is 1, but Git has 7'],
    ['unit', 6, '"before" is 6, but Git has 7'],
    ['fresh', 1, '"before" is 1, but Git does not have this name'],
  ])('is not explained by a number of files before that Git does not have: %s %i', (name, files, text) => {
    const explanations = [{ kind: 'field', name, before: files, count: 22, why }] as const;
    const committed = recorded(before);
    expect(comparedWith(recorded(before, { explanations }), before, committed).problems).toEqual([
      `explanation of field ${name}: ${text}`,
    ]);
  });

  it('is explained by the number of files that Git has, and still is when Git has the explanation', () => {
    const explanations = [{ kind: 'field', name: 'unit', before: 7, count: 8, why }] as const;
    const after = measured({ field: { hideIdentity: 3, unit: 8 }, setting: { GRPC_PORT: 2 } });
    const record = recorded(after, { explanations });
    expect(comparedWith(record, after, recorded(before)).problems).toEqual([]);
    expect(comparedWith(record, after, record).problems).toEqual([]);
    expect(comparedWith(record, after, recorded(after)).problems).toEqual([
      'explanation of field unit: "before" is 7, but Git has 8',
    ]);
  });

  it('needs a new sentence and the number of files in Git for each further rise', () => {
    const settings = (CALLERS_FILE: number) =>
      measured({ setting: { CALLERS_FILE, BACKEND_TYPE: 16 - CALLERS_FILE } });
    const earlier = { kind: 'setting', name: 'CALLERS_FILE', before: 2, count: 3, why } as const;
    const committed = recorded(settings(3), { explanations: [earlier] });
    const problemsWith = (explanation: CostRecord['explanations'][number]) =>
      comparedWith(recorded(settings(9), { explanations: [explanation] }), settings(9), committed).problems;
    const title = 'explanation of setting CALLERS_FILE:';
    const falseBefore = `${title} "before" is 2, but Git has 3`;
    const oldSentence = `${title} Git has this sentence for fewer files: say why 9 files touch it now`;
    const newWhy = 'Each capability now reads the list of callers itself.';
    expect(problemsWith({ ...earlier, count: 9 })).toEqual([falseBefore, oldSentence]);
    expect(problemsWith({ ...earlier, count: 9, why: newWhy })).toEqual([falseBefore]);
    expect(problemsWith({ ...earlier, before: 3, count: 9 })).toEqual([oldSentence]);
    expect(problemsWith({ ...earlier, before: 3, count: 9, why: newWhy })).toEqual([]);
  });

  it('of a renamed name is explained by the number of files that Git has of the old one', () => {
    const explanations = [{ kind: 'field', name: 'window', before: 7, count: 8, why }] as const;
    const renames = [{ kind: 'field', from: 'unit', to: 'window' }] as const;
    const after = measured({ field: { hideIdentity: 3, window: 8 }, setting: { GRPC_PORT: 2 } });
    const record = recorded(after, { explanations, renames });
    expect(comparedWith(record, after, recorded(before)).problems).toEqual([]);
  });

  it('may be higher by what is counted in another way since, and by nothing else', () => {
    const correction = {
      kind: 'field',
      why: 'Fields that a type declares itself are counted, too.',
    } as const;
    const corrected = { corrections: [correction] };
    const committed = recorded(before);
    const record = recorded(before, corrected);
    expect(newlyCorrected(record, committed)).toEqual(['field']);
    expect(newlyCorrected(record, record)).toEqual([]);
    // The sources in Git, counted anew. The new name of this kind and the other kind do not count.
    const anew = measured({ field: { hideIdentity: 9, unit: 6, fresh: 9 }, setting: { GRPC_PORT: 5 } });
    const base = correctedBase(committed, ['field'], anew.touched);
    const problemsOf = (hideIdentity: number, unit: number, GRPC_PORT: number) =>
      comparedWith(record, measured({ field: { hideIdentity, unit }, setting: { GRPC_PORT } }), base)
        .problems;
    expect(problemsOf(9, 6, 2)).toEqual([]);
    expect(problemsOf(10, 5, 2)).toEqual([expect.stringContaining('field hideIdentity: 9 -> 10')]);
    expect(problemsOf(8, 7, 2)).toEqual([expect.stringContaining('field unit: 6 -> 7')]);
    expect(problemsOf(9, 6, 3)[0]).toContain('setting GRPC_PORT: 2 -> 3');
    expect(nextRecord(record, committed, anew).corrections).toEqual([correction]);
    const vague = recorded(before, { corrections: [{ kind: 'field', why: 'measured' }] });
    expect(comparedWith(vague, before).problems).toEqual([
      'correction of field: "measured" is not a sentence that says why',
    ]);
  });

  it('that is lower, or lacks a name, is a change to record', () => {
    expect(
      comparedWith(recorded(before), measured({ field: { unit: 6 }, setting: { GRPC_PORT: 2 } })),
    ).toEqual({
      problems: [],
      changes: ['field unit: 7 -> 6', 'field hideIdentity is gone'],
    });
  });

  it('may not add imports to cycles, and names them', () => {
    const record = recorded(measured({}, ['a.ts -> b.ts', 'b.ts -> a.ts']));
    const more = measured({}, ['a.ts -> b.ts', 'b.ts -> a.ts', 'b.ts -> c.ts', 'c.ts -> b.ts']);
    expect(comparedWith(record, more).problems).toEqual([
      expect.stringContaining(
        'imports in cycles: 2 -> 4\n  added:\n    b.ts -> c.ts\n    c.ts -> b.ts\n  To do: move what both',
      ),
    ]);
    expect(comparedWith(record, measured({}))).toEqual({
      problems: [],
      changes: ['import cycles: 1 -> 0', 'imports in cycles: 2 -> 0'],
    });
  });
});

describe('the record', () => {
  const explanations = [{ kind: 'field', name: 'hideIdentity', before: 4, count: 6, why }] as const;
  const counting = (hideIdentity: number) =>
    measured({ field: { hideIdentity, unit: 7 }, setting: { GRPC_PORT: 2 } });

  it('keeps an explanation while its name is in more files than before, and lowers its count', () => {
    const record = recorded(counting(6), { explanations });
    const lower = [{ ...explanations[0], count: 5 }];
    expect(nextRecord(record, record, counting(5)).explanations).toEqual(lower);
    expect(comparedWith(record, counting(5)).changes).toEqual([
      'field hideIdentity: 6 -> 5',
      'explanation of field hideIdentity: 6 -> 5',
    ]);
    // Its sentence permits no second rise.
    expect(comparedWith(recorded(counting(5), { explanations: lower }), counting(6)).problems).toHaveLength(
      2,
    );
  });

  it('drops an explanation when its name is in as few files as before, or gone', () => {
    const record = recorded(counting(6), { explanations });
    for (const after of [counting(4), measured({ field: { unit: 7 }, setting: { GRPC_PORT: 2 } })]) {
      expect(nextRecord(record, record, after).explanations).toEqual([]);
      expect(comparedWith(record, after).changes).toContain(
        'explanation of field hideIdentity no longer applies',
      );
    }
  });

  it('hides no rise when it is rewritten: what Git has counts', () => {
    const risen = measured({ field: { hideIdentity: 5, unit: 7 }, setting: { GRPC_PORT: 2 } }, [
      'a.ts -> b.ts',
    ]);
    expect(comparedWith(recorded(risen), risen, recorded(before)).problems).toEqual([
      expect.stringContaining('field hideIdentity: 4 -> 5'),
      expect.stringContaining('field: the sum of its names rose from 11 to 12'),
      expect.stringContaining('import cycles: 0 -> 1'),
      expect.stringContaining('imports in cycles: 0 -> 1'),
    ]);
    const fresh = measured({ field: { hideIdentity: 4, unit: 7, fresh: 7 }, setting: { GRPC_PORT: 2 } });
    expect(comparedWith(recorded(fresh), fresh, recorded(before)).problems).toEqual([
      expect.stringContaining('field fresh is new: 7 files touch it, at most 6 may'),
    ]);
  });

  it('is JSON with a line for each name', () => {
    const record = recorded(measured({ field: { unit: 2 } }, ['a.ts -> b.ts']), {
      explanations: [{ kind: 'field', name: 'unit', before: 1, count: 2, why }],
    });
    const text = recordText(record);
    expect(JSON.parse(text)).toEqual(record);
    expect(text).toContain('\n    "unit": ["rules/0.ts","rules/1.ts"]\n');
    expect(JSON.parse(recordText(recorded(measured({}))))).toEqual(recorded(measured({})));
  });
});
