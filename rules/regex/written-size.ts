/** How large an expression is with its counted repetitions written out, from its text alone: before it is compiled. */

/** `{2,64}` and its like. */
export interface Repetition {
  text: string;
  /** Of its brace in the expression, in characters from 1. */
  position: number;
  /** States of what it repeats, written out. */
  states: number;
}

export interface WrittenSize {
  /** Never fewer than the compiled expression has, but for text that is no expression. */
  states: number;
  /** The one that accounts for most states. */
  largest: Repetition | undefined;
}

interface Group {
  states: number;
  /** Of the part that a repetition would repeat. */
  last: number;
}

/** One part of an expression; order matters. Named by what `size` does with it. */
const part = new RegExp(
  [
    '(?<quote>\\\\Q[^]*?(?:\\\\E|$))',
    '(?<empty>\\\\[AbBz]|[\\^$|]|\\(\\?[a-zA-Z-]+\\))',
    '(?<escape>\\\\(?:x\\{[^}]*\\}|x[0-9a-fA-F]{2}|[pP]\\{[^}]*\\}|[pP].|[0-7]{1,3}|[^]))',
    '(?<set>\\[\\^?\\]?(?:\\[:[^:\\]]*:\\]|\\\\[^]|[^\\]\\\\])*\\])',
    '(?<open>\\((?:\\?(?:P?<[^>]*>|[a-zA-Z-]*:))?)',
    '(?<close>\\))',
    '(?<times>\\{(?<least>\\d{1,9})(?<more>,(?<most>\\d{0,9}))?\\})',
    '(?<loop>[*+?])',
    '(?<character>[^])',
  ].join('|'),
  'uy',
);

export function writtenSize(expression: string): WrittenSize {
  const groups: Group[] = [{ states: 0, last: 0 }];
  let largest: Repetition | undefined;
  const add = (states: number): void => {
    const group = groups.at(-1)!;
    group.states += states;
    group.last = states;
  };
  part.lastIndex = 0;
  for (let at = 0; at < expression.length; at = part.lastIndex) {
    part.lastIndex = at;
    const { 0: text, groups: found = {} } = part.exec(expression)!;
    if (found['quote'] !== undefined) add(Math.max(0, [...text].length - 2));
    else if (found['open'] !== undefined) groups.push({ states: 0, last: 0 });
    else if (found['close'] !== undefined) {
      if (groups.length > 1) add(groups.pop()!.states);
    } else if (found['times'] !== undefined) {
      const group = groups.at(-1)!;
      const states = group.last * timesOf(found);
      group.states += states - group.last;
      group.last = states;
      if (states > (largest?.states ?? 0))
        largest = { text, position: [...expression.slice(0, at)].length + 1, states };
    } else if (found['empty'] === undefined && found['loop'] === undefined) add(1);
  }
  return { states: groups.reduce((sum, { states }) => sum + states, 0), largest };
}

/** Without an upper bound the last copy repeats itself. */
function timesOf({ least, more, most }: Record<string, string | undefined>): number {
  if (more === undefined) return Number(least);
  return most === '' ? Math.max(1, Number(least)) : Number(most);
}
