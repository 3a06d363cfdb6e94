/**
 * Finds the first match of an expression in a name, with the contents of its groups. Whether there is a match is decided first, in
 * bounded time. The groups need an engine whose time is the size of the program times that of the name. If this would take too long, the
 * name matches with empty groups.
 */
import { Automaton } from '../../../process/regex/automaton.ts';
import { compiledExpression } from '../../../process/regex/expression.ts';

/** Instructions times characters. Chosen: this takes about 5 ms. */
export const maxGroupSteps = 200_000;
/** The measured cost, in units of `stepCost`. */
const groupStepCost = 25;

/** Returns the text of a group by its number; undefined for a group that matched nothing. */
export type Groups = (group: number) => string | undefined;

const noGroups: Groups = () => undefined;

export class NameSearch {
  readonly groupCount: number;
  readonly namedGroups: Readonly<Record<string, number>>;
  /** The cost of all calls of `find` so far, roughly in nanoseconds. */
  cost = 0;
  readonly #expression: ReturnType<typeof compiledExpression>;
  readonly #automaton: Automaton;

  /** @throws ExpressionError */
  constructor(text: string) {
    this.#expression = compiledExpression(text);
    this.#automaton = new Automaton(this.#expression, { isAnywhere: true });
    this.groupCount = this.#expression.groupCount();
    this.namedGroups = this.#expression.namedGroups();
  }

  /** The cost of each byte of a name. */
  get stepCost(): number {
    return this.#automaton.stepCost;
  }

  find(name: string): Groups | undefined {
    this.cost += this.stepCost * name.length;
    if (!this.#automaton.matches(name)) return undefined;
    const steps = this.#expression.programSize() * name.length;
    if (steps > maxGroupSteps) return noGroups;
    this.cost += groupStepCost * steps;
    const matcher = this.#expression.matcher(name);
    if (!matcher.find()) return undefined;
    return (group) => (group > this.groupCount ? undefined : (matcher.group(group) ?? undefined));
  }
}
