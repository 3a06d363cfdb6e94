import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BoundedLocalCache, cacheEntryOverheadBytes } from './local-cache.ts';

/** A cache with room for this number of keys of one character. */
function cacheFor(entries: number): BoundedLocalCache {
  return new BoundedLocalCache({ maxBytes: entries * (cacheEntryOverheadBytes + 1) });
}

describe('BoundedLocalCache', () => {
  it('knows a key until the end of its window', () => {
    const cache = cacheFor(4);
    cache.remember('a', 1000);
    expect(cache.until('a', 999)).toBeGreaterThan(0);
    expect(cache.until('a', 1000)).toBe(0);
    expect(cache.until('b', 0)).toBe(0);
    expect(cache.stats).toMatchObject({
      lookupCount: 3,
      hitCount: 1,
      missCount: 2,
      expiredCount: 1,
      entryCount: 0,
    });
  });

  it('makes room by dropping what was remembered longest ago', () => {
    const cache = cacheFor(2);
    cache.remember('a', 1000);
    cache.remember('b', 1000);
    cache.remember('a', 2000);
    cache.remember('c', 1000);
    expect(['a', 'b', 'c'].map((key) => cache.until(key, 0) > 0)).toEqual([true, false, true]);
    expect(cache.stats).toMatchObject({ evacuateCount: 1, overwriteCount: 1, entryCount: 2 });
  });

  it('takes the newest end of a window', () => {
    const cache = cacheFor(1);
    cache.remember('a', 1000);
    cache.remember('a', 2000);
    expect(cache.until('a', 1500)).toBeGreaterThan(0);
  });

  it('forgets one key, and all', () => {
    const cache = cacheFor(3);
    for (const key of ['a', 'b', 'c']) cache.remember(key, 1000);
    cache.forget('b');
    cache.forget('unknown');
    expect(['a', 'b', 'c'].map((key) => cache.until(key, 0) > 0)).toEqual([true, false, true]);
    cache.clear();
    expect(['a', 'b', 'c'].map((key) => cache.until(key, 0) > 0)).toEqual([false, false, false]);
    expect(cache.bytes).toBe(0);
    expect(cache.stats.entryCount).toBe(0);
  });

  it('does not remember a key larger than the whole cache, and keeps the others', () => {
    const cache = cacheFor(1);
    cache.remember('a', 1000);
    cache.remember('ab', 1000);
    expect([cache.until('a', 0) > 0, cache.until('ab', 0) > 0]).toEqual([true, false]);
  });

  it('counts two bytes a character beyond ASCII', () => {
    const cache = cacheFor(10);
    cache.remember('schlüssel', 1000);
    expect(cache.bytes).toBe(cacheEntryOverheadBytes + 18);
  });

  it('remembers nothing in no bytes', () => {
    const cache = new BoundedLocalCache({ maxBytes: 0 });
    cache.remember('', 1000);
    expect(cache.until('', 0)).toBe(0);
  });

  it('never exceeds its bytes and agrees with a list, whatever happens', () => {
    const key = fc.constantFrom('a', 'b', 'c', 'd', 'ee', 'ff');
    const call = fc.oneof(
      fc.record({ name: fc.constant('remember' as const), key, at: fc.nat(20) }),
      fc.record({ name: fc.constant('has' as const), key, at: fc.nat(20) }),
      fc.record({ name: fc.constant('forget' as const), key, at: fc.constant(0) }),
    );
    fc.assert(
      fc.property(fc.array(call, { maxLength: 60 }), fc.nat(5), (calls, room) => {
        const cache = cacheFor(room);
        let model: { key: string; end: number }[] = [];
        const bytes = () => model.reduce((sum, entry) => sum + entry.key.length + cacheEntryOverheadBytes, 0);
        for (const { name, key, at } of calls) {
          if (name === 'forget') {
            cache.forget(key);
            model = model.filter((entry) => entry.key !== key);
          } else if (name === 'has') {
            expect(cache.until(key, at) > 0).toBe(model.some((entry) => entry.key === key && entry.end > at));
            model = model.filter((entry) => entry.key !== key || entry.end > at);
          } else {
            cache.remember(key, at);
            model = [...model.filter((entry) => entry.key !== key), { key, end: at }];
            if (key.length + cacheEntryOverheadBytes > room * (cacheEntryOverheadBytes + 1)) model.pop();
            while (bytes() > room * (cacheEntryOverheadBytes + 1)) model.shift();
          }
          expect(cache.bytes).toBe(bytes());
          expect(cache.stats.entryCount).toBe(model.length);
        }
      }),
    );
  });
});
