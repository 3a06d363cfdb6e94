import { describe, expect, it } from 'vitest';
import { FairQueue } from './fair-queue.ts';

describe('FairQueue', () => {
  it('sheds the first of the largest group', () => {
    const line = new FairQueue<{ group: string; id: number }>();
    const all = ['a', 'b', 'b', 'a', 'b'].map((group, id) => ({ group, id }));
    for (const one of all) line.add(one);
    expect([line.shed()?.id, line.shed()?.id, line.size]).toEqual([1, 0, 3]);
    expect([line.shed()?.id, line.shed()?.id, line.shed()?.id, line.shed()]).toEqual([2, 3, 4, undefined]);
  });
});
