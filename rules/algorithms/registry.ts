/** Every algorithm of the rule language. To add one: its file here and in `limiter/algorithms/`, and a line in both registries. */
import type { RuleAlgorithm } from './algorithm.ts';
import { fixedWindow } from './fixed-window.ts';
import { slidingWindow } from './sliding-window.ts';
import { tokenBucket } from './token-bucket.ts';

/** The algorithm that counts the hits of a limit. The numbers are those of the enum in resources, from 0 without gaps. */
export const Algorithm = { FIXED_WINDOW: 0, SLIDING_WINDOW: 1, TOKEN_BUCKET: 2 } as const;
export type AlgorithmKey = keyof typeof Algorithm;
export type Algorithm = (typeof Algorithm)[AlgorithmKey];

const algorithms: { readonly [key in AlgorithmKey]: RuleAlgorithm } = {
  FIXED_WINDOW: fixedWindow,
  SLIDING_WINDOW: slidingWindow,
  TOKEN_BUCKET: tokenBucket,
};

/** The algorithm of a limit that names none. It is the only one of the Go service. */
export const defaultAlgorithm: Algorithm = Algorithm.FIXED_WINDOW;

/** The algorithms as rule files spell them, by their numbers. */
export const algorithmNames = Object.keys(Algorithm).map((key) => key.toLowerCase());

const byNumber = inOrder(algorithms);

/** One value for each algorithm, by its number. */
export function inOrder<T>(values: { readonly [key in AlgorithmKey]: T }): readonly T[] {
  return Object.entries(Algorithm)
    .sort(([, a], [, b]) => a - b)
    .map(([key]) => values[key as AlgorithmKey]);
}

/** Returns whether an algorithm has the number. A message may have any number. */
export function isAlgorithm(number: number): number is Algorithm {
  return byNumber[number] !== undefined;
}

/** Throws if no algorithm has the number, so that such a limit is never counted in another way. */
export function algorithmOf({ algorithm }: { readonly algorithm: number }): RuleAlgorithm {
  return known(byNumber[algorithm], algorithm);
}

/** Throws if a registry has no entry for the number. */
export function known<T>(found: T | undefined, number: number): T {
  if (found === undefined) throw new RangeError(`there is no algorithm with the number ${number}`);
  return found;
}

/** Returns whether a limit counts in windows that are aligned to the epoch or a calendar. False for an unknown algorithm. */
export function hasWindows({ algorithm }: { readonly algorithm: number }): boolean {
  const found = byNumber[algorithm];
  return found !== undefined && found.steady === undefined;
}

/**
 * Finds the algorithm by the end of a counter key, which is the start of a window or the word of an algorithm. Undefined for
 * other endings.
 */
export function algorithmOfKeyEnd(end: string): Algorithm | undefined {
  if (/^\d+$/.test(end)) return defaultAlgorithm;
  return Object.values(Algorithm).find((number) => byNumber[number]?.steady?.keyWord === end);
}

/** The names of the algorithms that have a property, as rule files spell them. */
export function algorithmsWith(has: (algorithm: RuleAlgorithm) => boolean): string[] {
  return algorithmNames.filter((_, number) => has(byNumber[number]!));
}

/** Returns the name for people, such as `token bucket`. */
export function algorithmTitle({ algorithm }: { readonly algorithm: number }): string {
  return known(algorithmNames[algorithm], algorithm).replaceAll('_', ' ');
}
