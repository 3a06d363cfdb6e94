/**
 * A regular expression as a finite automaton without empty steps. RE2JS parses and compiles the expression, so syntax
 * and meaning are RE2's. Each instruction that reads a character becomes a state, and everything between two characters
 * is worked out here, before the first request.
 */
import { RE2JS } from 're2js';

/** The assertions that have to hold between two characters, as RE2 numbers them. */
const Assertion = {
  beginLine: 1,
  endLine: 2,
  beginText: 4,
  endText: 8,
  wordBoundary: 16,
  noWordBoundary: 32,
} as const;

/** The assertions that may differ between two characters of a text. */
export const inText: number =
  Assertion.beginLine | Assertion.endLine | Assertion.wordBoundary | Assertion.noWordBoundary;

/** Kinds of characters that assertions distinguish. `none` is the text's begin or end. */
export const Kind = { none: 0, newline: 1, word: 2, other: 3 } as const;
export const kindCount = 4;

/** An instruction of RE2JS, whose numbers are those of Go's `regexp/syntax`. */
interface Instruction {
  op: number;
  out: number;
  arg: number;
  runes: Int32Array;
}

const Op = {
  alternative: 1,
  alternativeMatch: 2,
  capture: 3,
  empty: 4,
  fail: 5,
  match: 6,
  nothing: 7,
  rune: 8,
  rune1: 9,
  runeAny: 10,
  runeAnyNotNewline: 11,
} as const;
const foldCase = 1;
const maxRune = 0x10ffff;

/** The targets of a step: states, and possibly the end of the expression. */
export interface Closure {
  states: readonly number[];
  isMatch: boolean;
}

export interface Program {
  stateCount: number;
  /** The characters that each state reads: lowest and highest of each range, ascending. */
  ranges: readonly Int32Array[];
  /** Bits of `Assertion` that the expression uses. 0 for most expressions. */
  assertions: number;
  /** Returns the states that may be read first, where those assertions hold. */
  first(holding: number): Closure;
  /** Returns the states that may be read after a state. */
  after(state: number, holding: number): Closure;
}

/** The assertions that hold between characters of two kinds. */
export function holdingBetween(before: number, after: number): number {
  const isBoundary = (before === Kind.word) !== (after === Kind.word);
  return (
    (before === Kind.none ? Assertion.beginText : 0) |
    (before === Kind.none || before === Kind.newline ? Assertion.beginLine : 0) |
    (after === Kind.none ? Assertion.endText : 0) |
    (after === Kind.none || after === Kind.newline ? Assertion.endLine : 0) |
    (isBoundary ? Assertion.wordBoundary : Assertion.noWordBoundary)
  );
}

/** `isAnywhere`: whether the expression may match a part of the text, rather than the whole. */
export function programOf(expression: RE2JS, { isAnywhere }: { isAnywhere: boolean }): Program {
  const { inst, start: first } = expression.re2().prog;
  const instructions = [...(inst as Instruction[])];
  const start = isAnywhere ? withAnyTextAround(instructions, first) : first;
  const reading = reachable(instructions, start).filter((at) => isReading(instructions[at]!));
  const stateOf = new Map(reading.map((at, state) => [at, state]));
  const folded = new Map<number, Int32Array>();
  const visit = (at: number, holding: number): Closure => closure(instructions, stateOf, at, holding);
  return {
    stateCount: reading.length,
    ranges: reading.map((at) => rangesOf(instructions[at]!, folded)),
    assertions: instructions.reduce((bits, { op, arg }) => (op === Op.empty ? bits | arg : bits), 0),
    first: (holding) => visit(start, holding),
    after: (state, holding) => visit(instructions[reading[state]!]!.out, holding),
  };
}

/** Makes the program read any text before and after the expression. Returns the instruction to start from. */
function withAnyTextAround(instructions: Instruction[], first: number): number {
  const runes = Int32Array.of(0, maxRune);
  const add = (op: number, out: number, arg: number): number =>
    instructions.push({ op, out, arg, runes }) - 1;
  const end = add(Op.match, 0, 0);
  const behind = add(Op.alternative, end, 0);
  instructions[behind]!.arg = add(Op.runeAny, behind, 0);
  const start = add(Op.alternative, first, 0);
  instructions[start]!.arg = add(Op.runeAny, start, 0);
  for (const [at, one] of instructions.entries()) {
    if (one.op === Op.match && at !== end) instructions[at] = { op: Op.nothing, out: behind, arg: 0, runes };
  }
  return start;
}

function isReading({ op }: Instruction): boolean {
  return op >= Op.rune;
}

/** Returns instructions in the order of the program, so that states that follow each other are close together. */
function reachable(instructions: readonly Instruction[], start: number): number[] {
  const seen = new Set<number>();
  const pending = [start];
  while (pending.length > 0) {
    const at = pending.pop()!;
    if (seen.has(at)) continue;
    seen.add(at);
    const { op, out, arg } = instructions[at]!;
    if (op === Op.alternative || op === Op.alternativeMatch) pending.push(out, arg);
    else if (op !== Op.match && op !== Op.fail) pending.push(out);
  }
  return [...seen].sort((a, b) => a - b);
}

function closure(
  instructions: readonly Instruction[],
  stateOf: ReadonlyMap<number, number>,
  from: number,
  holding: number,
): Closure {
  const seen = new Set<number>();
  const states: number[] = [];
  let isMatch = false;
  const pending = [from];
  while (pending.length > 0) {
    const at = pending.pop()!;
    if (seen.has(at)) continue;
    seen.add(at);
    const { op, out, arg } = instructions[at]!;
    if (op >= Op.rune) states.push(stateOf.get(at)!);
    else if (op === Op.match) isMatch = true;
    else if (op === Op.alternative || op === Op.alternativeMatch) pending.push(out, arg);
    else if (op === Op.empty && (arg & ~holding) !== 0) continue;
    else if (op !== Op.fail) pending.push(out);
  }
  return { states, isMatch };
}

function rangesOf({ op, arg, runes }: Instruction, folded: Map<number, Int32Array>): Int32Array {
  if (op === Op.runeAny) return Int32Array.of(0, maxRune);
  if (op === Op.runeAnyNotNewline) return Int32Array.of(0, 9, 11, maxRune);
  if (runes.length !== 1) return runes;
  const rune = runes[0]!;
  if ((arg & foldCase) === 0) return Int32Array.of(rune, rune);
  let ranges = folded.get(rune);
  if (ranges === undefined) {
    ranges = foldedRanges(rune);
    folded.set(rune, ranges);
  }
  return ranges;
}

/** Returns all spellings of a letter. RE2JS lists them in a class with another character, but not for a letter alone. */
function foldedRanges(rune: number): Int32Array {
  const other = 0;
  const { inst } = RE2JS.compile(`(?i)[\\x{${rune.toString(16)}}\\x{${other}}]`).re2().prog;
  const { runes } = (inst as Instruction[]).find(isReading)!;
  return runes.subarray(2);
}
