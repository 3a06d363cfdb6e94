/** A sample that a seed decides, and that stays nearly the same when a few elements come or go. Pure. */
import { createHash } from 'node:crypto';

/** At most `count` elements, in their order. `nameOf` distinguishes them. */
export function sampled<T>(
  all: readonly T[],
  { count, seed, nameOf }: { count: number; seed: number; nameOf: (element: T) => string },
): T[] {
  const ranked = all
    .map((element, index) => ({ element, index, rank: rankOf(`${seed} ${nameOf(element)}`) }))
    .sort((a, b) => (a.rank < b.rank ? -1 : 1));
  return ranked
    .slice(0, count)
    .sort((a, b) => a.index - b.index)
    .map(({ element }) => element);
}

function rankOf(name: string): string {
  return createHash('sha256').update(name).digest('hex');
}
