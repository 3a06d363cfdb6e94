/** Regular expressions that people write in files and settings: read within bounds, ready to be matched. */
import { RE2JS } from 're2js';
import { Automaton } from './automaton.ts';
import {
  type CostBudget,
  mostLength,
  mostParts,
  mostStates,
  type WrittenSize,
  writtenSize,
} from './bounds.ts';

/** An expression that is no expression of RE2, or is larger than the bounds. */
export class ExpressionError extends Error {
  override readonly name = 'ExpressionError';
}

/** Throws an `ExpressionError`. */
export function compiledExpression(text: string): RE2JS {
  if (text.length > mostLength) {
    const problem = `the expression has ${grouped(text.length)} characters`;
    throw new ExpressionError(`${problem}, and at most ${grouped(mostLength)} are allowed`);
  }
  // Before it is compiled: a few characters may stand for very many states.
  const written = writtenSize(text);
  if (written.states > mostStates) throw tooManyStates(written.states, written);
  if (written.parts > mostParts) {
    const problem = `the expression has ${grouped(written.parts)} parts with its repetitions written out`;
    throw new ExpressionError(`${problem}, and at most ${grouped(mostParts)} are allowed`);
  }
  try {
    return RE2JS.compile(text);
  } catch (error) {
    throw new ExpressionError(error instanceof Error ? error.message : String(error));
  }
}

/** Chosen: as many as a large file of profiles has. The one used longest ago is forgotten first. */
const mostKnown = 512;
const known = new Map<string, Automaton>();

/** Matches whole texts. Equal expressions share an automaton. Throws an `ExpressionError`. */
export function automatonOf(text: string): Automaton {
  const automaton = known.get(text) ?? newAutomaton(text);
  known.delete(text);
  known.set(text, automaton);
  if (known.size > mostKnown) known.delete(known.keys().next().value!);
  return automaton;
}

/** Takes what an expression costs from the budget. Throws an `ExpressionError` where the budget does not suffice. */
export function spend(budget: CostBudget, text: string, stepCost: number): void {
  budget.spent += stepCost;
  if (budget.spent <= budget.most) return;
  const sum =
    budget.spent === stepCost
      ? `the expression costs ${grouped(stepCost)} for each byte of a text`
      : `the expressions up to here cost ${grouped(budget.spent)} for each byte of a text, this one ${grouped(stepCost)}`;
  const { largest } = writtenSize(text);
  throw new ExpressionError(
    `${sum}, and at most ${grouped(budget.most)} are allowed together${placeOf(largest)}`,
  );
}

function newAutomaton(text: string): Automaton {
  const automaton = new Automaton(compiledExpression(text));
  if (automaton.stateCount > mostStates) throw tooManyStates(automaton.stateCount, writtenSize(text));
  return automaton;
}

function tooManyStates(states: number, { largest }: WrittenSize): ExpressionError {
  const problem = `the expression needs ${grouped(states)} states`;
  return new ExpressionError(`${problem}, and at most ${grouped(mostStates)} are allowed${placeOf(largest)}`);
}

function placeOf(largest: WrittenSize['largest']): string {
  if (largest === undefined) return '';
  const { text, position, states } = largest;
  return `; ${text} at character ${grouped(position)} accounts for ${grouped(states)} states`;
}

function grouped(number: number): string {
  return number.toLocaleString('en-US');
}
