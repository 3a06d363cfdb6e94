import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { KnownEntriesCache } from './wire-reader.ts';

describe('KnownEntriesCache', () => {
  it('gives what was added for the same bytes, or nothing when another took its slot', () => {
    const bytes = fc.uint8Array({ maxLength: 3 });
    fc.assert(
      fc.property(fc.array(bytes, { minLength: 1, maxLength: 200 }), (all) => {
        const cache = new KnownEntriesCache();
        const added = new Map<string, unknown>();
        for (const one of all) {
          const padded = Uint8Array.from([7, ...one, 7]);
          const known = cache.get(padded, 1, 1 + one.length);
          if (known !== undefined) expect(known).toBe(added.get(one.join()));
          else added.set(one.join(), cache.add(padded, 1, 1 + one.length, []));
          expect(cache.get(padded, 1, 1 + one.length)).toBe(added.get(one.join()));
        }
      }),
    );
  });
});
