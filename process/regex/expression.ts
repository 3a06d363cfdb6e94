/**
 * Regular expressions that people write in files and settings. They are read within bounds and ready to match. Their size is
 * bounded so that no text keeps a process busy. The text of an expression alone determines its size, with counted repetitions
 * written out, before it is compiled. docs/forward-auth.md has the bounds for people.
 */
import { RE2JS } from 're2js';
import { Automaton } from './automaton.ts';

/**
 * The maximum size of all texts of a request together. Its headers are bounded by the same size (`maxHeadBytes` in
 * `process/http/http-connection.ts`).
 */
export const maxTextBytes = 32_768;
/**
 * The largest cost of all expressions of a profile on the largest request, in units of about a nanosecond. It is less than half
 * of the 10 ms for which a request may hold up others, because machines differ.
 */
const maxCost = 4_000_000;

/** The most characters that an expression may name, counted repetitions written out. */
export const maxStates = 1_000;
/** The most parts that an expression may name, also assertions, groups and loops, counted repetitions written out. */
export const maxParts = 10_000;
/** The largest length of an expression, in characters. */
export const maxLength = 4_096;

/** The largest cost of expressions that are matched with the same text, added up in the order of reading. */
export interface CostBudget {
  /** For each byte of a text: the sum of their `stepCost`. */
  readonly max: number;
  spent: number;
}

/** The longer the text, the less each of its bytes may cost. */
export function newCostBudget(longestText: number = maxTextBytes): CostBudget {
  return { max: Math.floor(maxCost / longestText), spent: 0 };
}

/** A repetition such as `{2,64}`. */
export interface Repetition {
  text: string;
  /** The position of its brace in the expression, in characters from 1. */
  position: number;
  /** The number of states of the repeated part, written out. */
  states: number;
}

export interface WrittenSize {
  /** The number of states, never fewer than in the compiled expression. A text that is not an expression is the exception. */
  states: number;
  /** The number of all written parts, including those that read no character, such as assertions and empty groups. */
  parts: number;
  /** The one that accounts for most states. */
  largest: Repetition | undefined;
}

interface Size {
  states: number;
  parts: number;
}

interface Group extends Size {
  /** The size of the part that a repetition would repeat. */
  last: Size;
}

function newGroup(): Group {
  return { states: 0, parts: 0, last: { states: 0, parts: 0 } };
}

/** One part of an expression. The order of the alternatives matters. The groups have the names of what `size` does with them. */
const part = new RegExp(
  [
    '(?<quote>\\\\Q[^]*?(?:\\\\E|$))',
    '(?<empty>\\\\[AbBz]|[\\^$|]|\\(\\?[a-zA-Z-]+\\))',
    '(?<escape>\\\\(?:x\\{[^}]*\\}|x[0-9a-fA-F]{2}|[pP]\\{[^}]*\\}|[pP].|[0-7]{1,3}|[^]))',
    '(?<set>\\[\\^?\\]?(?:\\[:[^:\\]]*:\\]|\\\\[^]|[^\\]\\\\])*\\])',
    '(?<open>\\((?:\\?(?:P?<[^>]*>|[a-zA-Z-]*:))?)',
    '(?<close>\\))',
    '(?<times>\\{(?<min>\\d{1,9})(?<more>,(?<max>\\d{0,9}))?\\})',
    '(?<loop>[*+?])',
    '(?<character>[^])',
  ].join('|'),
  'uy',
);

export function writtenSize(expression: string): WrittenSize {
  const groups: Group[] = [newGroup()];
  let largest: Repetition | undefined;
  const add = (last: Size): void => {
    const group = groups.at(-1)!;
    group.states += last.states;
    group.parts += last.parts;
    group.last = last;
  };
  part.lastIndex = 0;
  for (let at = 0; at < expression.length; at = part.lastIndex) {
    part.lastIndex = at;
    const { 0: text, groups: found = {} } = part.exec(expression)!;
    if (found['quote'] !== undefined) {
      const states = Math.max(0, [...text].length - 2);
      add({ states, parts: states });
    } else if (found['open'] !== undefined) groups.push(newGroup());
    else if (found['close'] !== undefined) {
      if (groups.length === 1) continue;
      const { states, parts } = groups.pop()!;
      add({ states, parts: parts + 1 });
    } else if (found['times'] !== undefined) {
      const { last } = groups.at(-1)!;
      const times = timesOf(found);
      const states = last.states * times;
      add({ states: states - last.states, parts: (last.parts + 1) * times - last.parts });
      groups.at(-1)!.last = { states, parts: (last.parts + 1) * times };
      if (states > (largest?.states ?? 0))
        largest = { text, position: [...expression.slice(0, at)].length + 1, states };
    } else if (found['loop'] !== undefined) {
      // A repetition and the part that it repeats count as one part.
      const group = groups.at(-1)!;
      group.parts += 1;
      group.last = { states: group.last.states, parts: group.last.parts + 1 };
    } else add({ states: found['empty'] === undefined ? 1 : 0, parts: 1 });
  }
  const sum = (of: keyof Size): number => groups.reduce((all, group) => all + group[of], 0);
  return { states: sum('states'), parts: sum('parts'), largest };
}

/** Without an upper bound, the last copy repeats itself. */
function timesOf({ min, more, max }: Record<string, string | undefined>): number {
  if (more === undefined) return Number(min);
  return max === '' ? Math.max(1, Number(min)) : Number(max);
}

/** An expression that is no expression of RE2, or is larger than the bounds. */
export class ExpressionError extends Error {
  override readonly name = 'ExpressionError';
}

/** Throws an `ExpressionError`. */
export function compiledExpression(text: string): RE2JS {
  if (text.length > maxLength) {
    const problem = `the expression has ${grouped(text.length)} characters`;
    throw new ExpressionError(`${problem}, and at most ${grouped(maxLength)} are allowed`);
  }
  // Checked before the expression is compiled, because a few characters can expand to very many states.
  const written = writtenSize(text);
  if (written.states > maxStates) throw tooManyStates(written.states, written);
  if (written.parts > maxParts) {
    const problem = `the expression has ${grouped(written.parts)} parts with its repetitions written out`;
    throw new ExpressionError(`${problem}, and at most ${grouped(maxParts)} are allowed`);
  }
  try {
    return RE2JS.compile(text);
  } catch (error) {
    throw new ExpressionError(error instanceof Error ? error.message : String(error));
  }
}

/** Chosen: a large file of profiles has this many expressions. The least recently used one is removed first. */
const maxKnown = 512;
const known = new Map<string, Automaton>();

/** Returns an automaton that matches whole texts. Equal expressions share it. Throws an `ExpressionError`. */
export function automatonOf(text: string): Automaton {
  const automaton = known.get(text) ?? newAutomaton(text);
  known.delete(text);
  known.set(text, automaton);
  if (known.size > maxKnown) known.delete(known.keys().next().value!);
  return automaton;
}

/** Takes the cost of an expression from the budget. Throws an `ExpressionError` if the budget is too small. */
export function spend(budget: CostBudget, text: string, stepCost: number): void {
  budget.spent += stepCost;
  if (budget.spent <= budget.max) return;
  const sum =
    budget.spent === stepCost
      ? `the expression costs ${grouped(stepCost)} for each byte of a text`
      : `the expressions up to here cost ${grouped(budget.spent)} for each byte of a text, this one ${grouped(stepCost)}`;
  const { largest } = writtenSize(text);
  throw new ExpressionError(
    `${sum}, and at most ${grouped(budget.max)} are allowed together${placeOf(largest)}`,
  );
}

/** Returns why an expression cannot be matched, or undefined if it can. Takes its cost from the budget. */
export function expressionProblem(text: string, budget: CostBudget): string | undefined {
  try {
    spend(budget, text, automatonOf(text).stepCost);
    return undefined;
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    return error.message;
  }
}

function newAutomaton(text: string): Automaton {
  const automaton = new Automaton(compiledExpression(text));
  if (automaton.stateCount > maxStates) throw tooManyStates(automaton.stateCount, writtenSize(text));
  return automaton;
}

function tooManyStates(states: number, { largest }: WrittenSize): ExpressionError {
  const problem = `the expression needs ${grouped(states)} states`;
  return new ExpressionError(`${problem}, and at most ${grouped(maxStates)} are allowed${placeOf(largest)}`);
}

function placeOf(largest: WrittenSize['largest']): string {
  if (largest === undefined) return '';
  const { text, position, states } = largest;
  return `; ${text} at character ${grouped(position)} accounts for ${grouped(states)} states`;
}

function grouped(number: number): string {
  return number.toLocaleString('en-US');
}
