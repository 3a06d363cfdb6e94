import { expect, it } from 'vitest';
import { WildcardCompiler } from './compile-wildcards.ts';
import { StringPool } from './pair-index.ts';
import { Bucket } from './rule-table-format.ts';

/** The length of the literal that each bucket is found by. */
function bucketLiterals(...composites: string[]): number[] {
  const compiler = new WildcardCompiler(new StringPool());
  compiler.addLevel(composites.map((composite, node) => ({ composite, node })));
  const { buckets, literals } = compiler.finish();
  return Array.from(
    { length: buckets.length / Bucket.words },
    (_, n) => literals[buckets[n * Bucket.words + Bucket.literal]!]!,
  );
}

it('finds patterns of one prefix and suffix by the literal that fewest have, the longer of equally rare ones', () => {
  expect(bucketLiterals('p*a*bb*s')).toEqual([2]);
  expect(bucketLiterals('p*bb*a*s')).toEqual([2]);
  expect(bucketLiterals('p*a*bb*s', 'p*bb*ccc*s')).toEqual([1, 3]);
  expect(bucketLiterals('p*bb*a*s', 'p*ccc*bb*s')).toEqual([1, 3]);
  // Twice in one pattern is no more than once.
  expect(bucketLiterals('p*a*a*a*s', 'p*bb*ccc*s', 'p*bb*s')).toEqual([1, 3, 2]);
});
