/** How large regular expressions may be, so that no text keeps a process busy. docs/forward-auth.md has them for people. */

/** All texts of a request together: its headers have as much at most (`mostHeadBytes` in `process/http/http-connection.ts`). */
export const mostTextBytes = 32_768;
/**
 * What all expressions of a profile may cost together on the largest request, in units of about a nanosecond. Less than
 * half of the 10 ms that a request may hold up others, because machines differ.
 */
const mostCost = 4_000_000;

/** Of an expression: the characters that it names, counted repetitions written out. */
export const mostStates = 1_000;
/** Of an expression: everything that it names, also assertions, groups and loops, counted repetitions written out. */
export const mostParts = 10_000;
/** Of an expression, in characters. */
export const mostLength = 4_096;

/** What expressions that are matched with the same text may cost together, as they are read one after another. */
export interface CostBudget {
  /** For each byte of a text: the sum of their `stepCost`. */
  readonly most: number;
  spent: number;
}

/** The longer the text, the less each of its bytes may cost. */
export function newCostBudget(longestText: number = mostTextBytes): CostBudget {
  return { most: Math.floor(mostCost / longestText), spent: 0 };
}
