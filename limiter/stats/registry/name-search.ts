/**
 * Finds the first match of an expression in a name, with what its groups matched. Whether there is a match is decided in
 * bounded time, first. What the groups matched takes an engine whose time is that of the program times the name: a name
 * for which this would take too long matches all the same, and its groups are empty.
 */
import { Automaton } from '../../../rules/regex/automaton.ts';
import { compiledExpression } from '../../../rules/regex/expression.ts';

/** Instructions times characters. Chosen: what takes about 5 ms. */
export const mostGroupSteps = 200_000;
/** In units of `stepCost`, measured. */
const groupStepCost = 25;

/** What a group matched, by its number; undefined for a group that matched nothing. */
export type Groups = (group: number) => string | undefined;

const noGroups: Groups = () => undefined;

export class NameSearch {
  readonly groupCount: number;
  readonly namedGroups: Readonly<Record<string, number>>;
  /** What all calls of `find` cost so far, about in nanoseconds. */
  cost = 0;
  readonly #expression: ReturnType<typeof compiledExpression>;
  readonly #automaton: Automaton;

  /** Throws an `ExpressionError`. */
  constructor(text: string) {
    this.#expression = compiledExpression(text);
    this.#automaton = new Automaton(this.#expression, { isAnywhere: true });
    this.groupCount = this.#expression.groupCount();
    this.namedGroups = this.#expression.namedGroups();
  }

  /** What each byte of a name costs. */
  get stepCost(): number {
    return this.#automaton.stepCost;
  }

  find(name: string): Groups | undefined {
    this.cost += this.stepCost * name.length;
    if (!this.#automaton.matches(name)) return undefined;
    const steps = this.#expression.programSize() * name.length;
    if (steps > mostGroupSteps) return noGroups;
    this.cost += groupStepCost * steps;
    const matcher = this.#expression.matcher(name);
    if (!matcher.find()) return undefined;
    return (group) => (group > this.groupCount ? undefined : (matcher.group(group) ?? undefined));
  }
}
