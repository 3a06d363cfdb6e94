/**
 * A sample that a seed decides, and that stays nearly the same when a few elements come or go. The first elements of a sample are a smaller
 * sample. Pure.
 */
import { createHash } from 'node:crypto';

/** At most `count` elements, in random order. `nameOf` distinguishes them. */
export function sampled<T>(
  all: readonly T[],
  { count, seed, nameOf }: { count: number; seed: number; nameOf: (element: T) => string },
): T[] {
  return all
    .map((element) => ({ element, rank: rankOf(`${seed} ${nameOf(element)}`) }))
    .sort((a, b) => (a.rank < b.rank ? -1 : 1))
    .slice(0, count)
    .map(({ element }) => element);
}

function rankOf(name: string): string {
  return createHash('sha256').update(name).digest('hex');
}
