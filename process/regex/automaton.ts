/**
 * Decides whether a text matches an expression, in a time that no text can raise. It caches nothing between characters or texts,
 * so there is no cache that a text could thrash. A character takes `stepCost` at most.
 *
 * The states that the automaton may be in are bits of a few words, and each character takes all of them one step. Most states are
 * followed by the next one, so a step is a shift. The other followers are links: from a set of states to the set of states that
 * follow each of them. If only few sets of states can occur at all, a table of them replaces this.
 */
import type { RE2JS } from 're2js';
import { CharacterClasses, SetTable } from './character-classes.ts';
import { holdingBetween, inText, Kind, kindCount, type Program, programOf } from './program.ts';

const bitsOfWord = 32;

/** The transition of a character from the states before it. */
interface Step {
  /** The states that the next one follows. */
  shifted: Int32Array;
  /**
   * For each link: the number of words of its states, the number of words of its followers, and then these words, each after its
   * place. It is one array, because a step reads it from start to end.
   */
  links: Int32Array;
}

// Approximate nanoseconds, measured on the machine of docs/performance.md with texts that defeat its branch prediction.
const minStepCost = 4;
const wordCost = 3;
const linkCost = 4;
const linkWordCost = 1;

export class Automaton {
  readonly stateCount: number;
  /** The largest cost of one byte of a text, in units of `maxCost` in `expression.ts`. */
  readonly stepCost: number;
  readonly #words: number;
  readonly #classes: CharacterClasses;
  /** The states that read each class. */
  readonly #readers: Int32Array;
  /** Steps by the kinds of the characters before and after. All steps are the same if no assertion depends on both. */
  readonly #steps: readonly Step[];
  readonly #hasAssertions: boolean;
  /** The states that may read the first character, by its kind. */
  readonly #first: readonly Int32Array[];
  /** The states that may read the last character, by its kind. */
  readonly #last: readonly Int32Array[];
  readonly #matchesNothing: boolean;
  readonly #table: SetTable | undefined;

  /** With `isAnywhere`, a part of the text may match. Otherwise the whole text must match. */
  constructor(expression: RE2JS, { isAnywhere = false }: { isAnywhere?: boolean } = {}) {
    const program = programOf(expression, { isAnywhere });
    const words = Math.max(1, Math.ceil(program.stateCount / bitsOfWord));
    this.stateCount = program.stateCount;
    this.#words = words;
    this.#classes = new CharacterClasses([...new Set(program.ranges)]);
    this.#readers = readersOf(program.ranges, this.#classes, words);
    this.#hasAssertions = (program.assertions & inText) !== 0;
    this.#steps = stepsOf(program, words);
    const kinds = Array.from({ length: kindCount }, (_, kind) => kind);
    this.#first = kinds.map((kind) => bitsOf(program.first(holdingBetween(Kind.none, kind)).states, words));
    this.#last = kinds.map((kind) => lastOf(program, holdingBetween(kind, Kind.none), words));
    this.#matchesNothing = program.first(holdingBetween(Kind.none, Kind.none)).isMatch;
    this.#table = this.#hasAssertions ? undefined : this.#setTable();
    const setCost = wordCost * words + Math.max(...this.#steps.map(costOfLinks));
    this.stepCost = minStepCost + this.#classes.comparisons + (this.#table === undefined ? setCost : 0);
  }

  matches(text: string): boolean {
    if (text.length === 0) return this.#matchesNothing;
    return this.#table?.matches(text) ?? this.#matchesBySteps(text);
  }

  #matchesBySteps(text: string): boolean {
    const classes = this.#classes;
    const { ofAscii } = classes;
    const steps = this.#steps;
    const states = new Int32Array(this.#words);
    const next = new Int32Array(this.#words);
    let step = steps[0]!;
    let before: number = Kind.none;
    for (let i = 0; i < text.length; i++) {
      let code = text.charCodeAt(i);
      let read = 0;
      if (code < 128) {
        read = ofAscii[code]!;
      } else {
        code = text.codePointAt(i)!;
        if (code > 0xffff) i++;
        read = classes.of(code);
      }
      if (before === Kind.none) {
        before = kindOf(code);
        next.set(this.#first[before]!);
      } else {
        if (this.#hasAssertions) {
          const after = kindOf(code);
          step = steps[before * kindCount + after]!;
          before = after;
        }
        follow(step, states, next);
      }
      if (!keep(next, this.#readers, read, states)) return false;
    }
    const last = this.#last[before]!;
    return states.some((word, place) => (word & last[place]!) !== 0);
  }

  #setTable(): SetTable | undefined {
    const step = this.#steps[0]!;
    const next = new Int32Array(this.#words);
    return SetTable.of(this.#classes, {
      first: this.#first[Kind.other]!,
      last: this.#last[Kind.other]!,
      after: (states) => {
        follow(step, states, next);
        return next;
      },
      readers: this.#readers,
    });
  }
}

function follow({ shifted, links }: Step, states: Int32Array, next: Int32Array): void {
  let carry = 0;
  for (let word = 0; word < states.length; word++) {
    const bits = states[word]! & shifted[word]!;
    next[word] = (bits << 1) | carry;
    carry = bits >>> 31;
  }
  for (let at = 0; at < links.length; ) {
    const followersAt = at + 2 + 2 * links[at]!;
    const end = followersAt + 2 * links[at + 1]!;
    let hit = 0;
    for (at += 2; at < followersAt; at += 2) hit |= states[links[at]!]! & links[at + 1]!;
    if (hit !== 0) for (; at < end; at += 2) next[links[at]!]! |= links[at + 1]!;
    at = end;
  }
}

/** Keeps the states in `next` that read the class. Returns whether there is one. */
export function keep(next: Int32Array, readers: Int32Array, read: number, states: Int32Array): boolean {
  const from = read * states.length;
  let any = 0;
  for (let word = 0; word < states.length; word++) {
    const bits = next[word]! & readers[from + word]!;
    states[word] = bits;
    any |= bits;
  }
  return any !== 0;
}

function kindOf(code: number): number {
  if (code === 10) return Kind.newline;
  const isWord =
    (code >= 48 && code <= 57) || (code >= 65 && code <= 90) || code === 95 || (code >= 97 && code <= 122);
  return isWord ? Kind.word : Kind.other;
}

function bitsOf(states: Iterable<number>, words: number): Int32Array {
  const bits = new Int32Array(words);
  for (const state of states) bits[state >>> 5]! |= 1 << (state & 31);
  return bits;
}

function lastOf(program: Program, holding: number, words: number): Int32Array {
  const last: number[] = [];
  for (let state = 0; state < program.stateCount; state += 1) {
    if (program.after(state, holding).isMatch) last.push(state);
  }
  return bitsOf(last, words);
}

function readersOf(ranges: readonly Int32Array[], classes: CharacterClasses, words: number): Int32Array {
  const readers = new Int32Array(classes.count * words);
  for (const [state, one] of ranges.entries()) {
    for (const read of classes.within(one)) readers[read * words + (state >>> 5)]! |= 1 << (state & 31);
  }
  return readers;
}

function stepsOf(program: Program, words: number): Step[] {
  const byHolding = new Map<number, Step>();
  return Array.from({ length: kindCount ** 2 }, (_, pair) => {
    // Between two characters: neither kind is `none`.
    const [before, after] = [Math.floor(pair / kindCount), pair % kindCount].map(
      (kind) => kind || Kind.other,
    );
    const holding = holdingBetween(before!, after!) & program.assertions;
    const step = byHolding.get(holding) ?? stepOf(program, holding, words);
    byHolding.set(holding, step);
    return step;
  });
}

function stepOf(program: Program, holding: number, words: number): Step {
  const shifted: number[] = [];
  /** Links by their followers. */
  const linked = new Map<string, { from: number[]; to: readonly number[] }>();
  for (let state = 0; state < program.stateCount; state += 1) {
    const { states } = program.after(state, holding);
    if (states.includes(state + 1)) shifted.push(state);
    const to = states.filter((other) => other !== state + 1).sort((a, b) => a - b);
    if (to.length === 0) continue;
    const link = linked.get(to.join());
    if (link === undefined) linked.set(to.join(), { from: [state], to });
    else link.from.push(state);
  }
  const links = [...linked.values()].flatMap(({ from, to }) => {
    const [sources, followers] = [placed(bitsOf(from, words)), placed(bitsOf(to, words))];
    return [sources.length / 2, followers.length / 2, ...sources, ...followers];
  });
  return { shifted: bitsOf(shifted, words), links: Int32Array.from(links) };
}

/** The words that are not empty, each behind its place. */
function placed(bits: Int32Array): number[] {
  return [...bits].flatMap((word, place) => (word === 0 ? [] : [place, word]));
}

function costOfLinks({ links }: Step): number {
  let cost = 0;
  for (let at = 0; at < links.length; ) {
    const wordCount = links[at]! + links[at + 1]!;
    cost += linkCost + linkWordCost * wordCount;
    at += 2 + 2 * wordCount;
  }
  return cost;
}
