import { describe, expect, it } from 'vitest';
import { AutomatonCompiler } from './compile-wildcards.ts';
import { State } from './rule-table-format.ts';
import { childState, Occurrences } from './wildcard-index.ts';

function occurrences(literals: string[], text: string): Record<string, number[]> {
  const automata = new AutomatonCompiler();
  const root = automata.add(literals.map((literal, id) => ({ text: literal, id })));
  const found = new Occurrences({
    states: automata.states.toWords(),
    labels: automata.labels.toUnits(),
    literals: Int32Array.from(literals, (literal) => literal.length),
  });
  found.scan(root, text, { from: 0, to: text.length });
  return Object.fromEntries(
    literals.map((literal, id) => {
      const starts: number[] = [];
      for (let at = found.firstFrom(id, 0); at >= 0; at = found.firstFrom(id, at + 1)) starts.push(at);
      return [literal, starts];
    }),
  );
}

describe('the automaton of a level', () => {
  it('finds literals that lie in one another and over one another', () => {
    expect(occurrences(['he', 'she', 'hers', 'his', 's'], 'ushers his')).toEqual({
      he: [2],
      she: [1],
      hers: [2],
      his: [7],
      s: [1, 5, 9],
    });
    expect(occurrences(['a', 'aa', 'aaa'], 'aaaa')).toEqual({ a: [0, 1, 2, 3], aa: [0, 1, 2], aaa: [0, 1] });
    expect(occurrences(['abcd', 'bc'], 'abce')).toEqual({ abcd: [], bc: [1] });
  });

  it('shares its lists with others without a way from one into the next', () => {
    const automata = new AutomatonCompiler();
    const first = automata.add([{ text: 'x', id: 0 }]);
    const second = automata.add([{ text: '\0', id: 1 }]);
    const states = automata.states.toWords();
    const labels = automata.labels.toUnits();
    const x = childState(states, labels, first, 0x78);
    expect(states[x * State.words + State.literal]).toBe(0);
    for (const unit of [0, 0x78]) expect(childState(states, labels, x, unit)).toBe(-1);
    const zero = childState(states, labels, second, 0);
    expect(states[zero * State.words + State.literal]).toBe(1);
    expect(childState(states, labels, zero, 0)).toBe(-1);
  });
});
