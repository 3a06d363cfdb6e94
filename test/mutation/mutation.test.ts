import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { algorithmsLua } from '../../limiter/algorithms/registry.ts';
import { projectRoot } from '../../scripts/commands.ts';
import { chosenLua, luaMutants, withLuaMutants } from './lua-mutants.ts';
import { sampled } from './sample.ts';
import { lineOf, scoreLines, shortfall, survivorsIn } from './score.ts';

describe('mutants of Lua', () => {
  const changes = (lua: string): string[] => {
    const source = `const script = \`local x\n${lua}\`;\n`;
    const mutants = luaMutants(source);
    const changed = withLuaMutants(
      source,
      mutants.map((mutant, index) => [index, mutant]),
    );
    const texts = (chosen: number | undefined): string =>
      /`local x\n(.*)`/s.exec(chosenLua(changed, chosen))![1]!;
    expect(texts(undefined)).toBe(lua);
    return mutants.map((_, index) => texts(index));
  };

  it('change operators, comparisons and constants, one at a time', () => {
    expect(changes('if not a and b <= 1 then return true end')).toEqual([
      'if  a and b <= 1 then return true end',
      'if not a or b <= 1 then return true end',
      'if not a and b < 1 then return true end',
      'if not a and b <= 2 then return true end',
      'if not a and b <= 1 then return false end',
    ]);
    expect(changes('a = b + c % d ~= e')).toEqual([
      'a = b - c % d ~= e',
      'a = b + c * d ~= e',
      'a = b + c % d == e',
    ]);
  });

  it('report a sign from a difference', () => {
    expect(changes('f(-a, b - c)')).toEqual(['f(a, b - c)', 'f(-a, b + c)']);
    expect(changes('return -a')).toEqual(['return a']);
  });

  it('leave comments, texts, joined texts and names alone', () => {
    expect(changes(`-- a + 1 and true\nf('a + 1', "not", a..b, a2, order)`)).toEqual([]);
  });

  it('stand where the file has Lua, with what is around it', () => {
    const source = [
      'const plain = `1 + 2`;',
      'const lua = `local a = 1',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a program.
      'local b = ${max + 1} * 3',
      '`;',
    ].join('\n');
    const found = luaMutants(source).map(({ line, text, replacement }) => [line, text, replacement]);
    expect(found).toEqual([
      [2, '1', '2'],
      [3, '*', '/'],
      [3, '3', '4'],
    ]);
  });

  it('stand in every string of a property named lua, in each once', () => {
    const source = [
      "const other = { take: 'return a + 1' };",
      'const algorithm = {',
      "  text: 'a + 1',",
      '  lua: {',
      "    kind: 'fixed',",
      "    room: 'return a - hits',",
      '    take: `return a * hits`,',
      '    back: `local b = a % hits`,',
      '  },',
      '};',
    ].join('\n');
    const mutants = luaMutants(source);
    expect(mutants.map(({ line, text, replacement }) => [line, text, replacement])).toEqual([
      [6, '-', '+'],
      [7, '*', '/'],
      [8, '%', '*'],
    ]);
    const changed = withLuaMutants(source, [...mutants.entries()]);
    expect(chosenLua(changed, undefined)).toBe(source);
    expect(chosenLua(changed, 0)).toBe(source.replace('a - hits', 'a + hits'));
  });

  it('stand in each formula of the algorithms that computes', () => {
    const formulas = { fixed: 'fixed-window', sliding: 'sliding-window', bucket: 'token-bucket' };
    for (const { kind, helpers: _, ...lua } of algorithmsLua) {
      const file = `limiter/algorithms/${formulas[kind as keyof typeof formulas]}.ts`;
      const source = readFileSync(join(projectRoot, file), 'utf8');
      const changed = withLuaMutants(source, [...luaMutants(source).entries()]);
      for (const [name, formula] of Object.entries(lua)) {
        const isOnlyACall = /^return \w+\([\w, ]+\)$/.test(formula);
        expect([file, name, changed.includes(formula)]).toEqual([file, name, isOnlyACall]);
      }
    }
  });
});

describe('a score', () => {
  const killed = { place: 'a.ts:1:2', change: 'x', is: 'killed' } as const;
  const survived = { ...killed, is: 'survived' } as const;

  it('is reached by enough killed mutants', () => {
    expect(shortfall('a', [killed, survived], 50)).toBeUndefined();
    expect(shortfall('a', [killed, survived], 51)).toBe('a: 50.0% is below the least score of 51%');
    expect(shortfall('a', [survived], 0)).toBeUndefined();
  });

  it('is not reached by a sample without mutants', () => {
    expect(shortfall('a', [], 1)).toBe('a: the sample has no mutants, so it has no score');
    expect(shortfall('a', [], 0)).toBeUndefined();
  });
});

describe('a sample', () => {
  const all = Array.from({ length: 100 }, (_, index) => `m${index}`);
  const take = (elements: readonly string[], seed = 1): string[] =>
    sampled(elements, { count: 20, seed, nameOf: (name) => name });

  it('is the same for a seed, and another for another seed', () => {
    expect(take(all)).toEqual(take(all));
    expect(new Set(take(all)).size).toBe(20);
    expect(take(all, 2)).not.toEqual(take(all));
    expect(take(all.slice(0, 5)).sort()).toEqual(all.slice(0, 5));
  });

  it('begins with each smaller sample, so that an interrupted run reports as much as a smaller one', () => {
    const smaller = sampled(all, { count: 7, seed: 1, nameOf: (name) => name });
    expect(take(all).slice(0, 7)).toEqual(smaller);
    expect(smaller).not.toEqual([...smaller].sort());
  });

  it('changes by one if one is gone', () => {
    const [gone] = take(all);
    const rest = take(all.filter((name) => name !== gone));
    expect(rest.filter((name) => !take(all).includes(name))).toHaveLength(1);
  });
});

it('names survivors and the share of the killed', () => {
  const report = { place: 'a.ts:1:2', change: 'x\n  y' };
  expect(
    scoreLines('a', [
      { ...report, is: 'survived' },
      { ...report, is: 'killed' },
    ]),
  ).toEqual(['survived: a.ts:1:2  x y', 'a: 1 of 2 mutants killed, 50.0%']);
});

it('finds the survivors in the output of a run, also of one that was interrupted', () => {
  const survivor = { place: 'a.ts:1:2', change: 'x\n  y', is: 'survived' } as const;
  const killed = { place: 'a.ts:2:2', change: 'z: survived', is: 'killed' } as const;
  const tested = [survivor, killed].map((report, at) => `${1 - at} left, ${lineOf(report)}: ${report.is}`);
  const summed = scoreLines('a', [survivor, killed]);
  expect(survivorsIn(tested.join('\n'))).toEqual(['a.ts:1:2  x y']);
  expect(survivorsIn([...tested, ...summed].join('\n'))).toEqual(['a.ts:1:2  x y']);
});
