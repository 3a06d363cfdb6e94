import { describe, expect, it } from 'vitest';
import type { Override } from '../../rules/override.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { OverridesInForce } from './overrides-in-force.ts';

const turns = async (): Promise<void> => {
  for (let i = 0; i < 5; i += 1) await new Promise((resolve) => setImmediate(resolve));
};

function override(id: string, traits: Partial<Override> = {}): Override {
  return {
    ...{ id, source: 'api', name: id, domain: 'd', match: [{ key: 'k', value: 'v' }], limit: '' },
    ...{ effect: { kind: 'block' }, createdMs: 1, endsMs: undefined, reason: 'r', by: '', ...traits },
  };
}

function world() {
  const clock = new ManualClock(1_000);
  const timers = new ManualTimers();
  const orders: string[][] = [];
  const inForce = new OverridesInForce({
    publish: async (overrides) => void orders.push(overrides.map(({ id }) => id)),
    rules: () => undefined,
    clock,
    timers,
  });
  const advance = async (ms: number): Promise<void> => {
    clock.ms += ms;
    timers.advance(ms);
    await turns();
  };
  return { inForce, orders, timers, advance };
}

describe('OverridesInForce', () => {
  it('lets the older of two hold, whatever they came by, and the younger follow when it ends', async () => {
    const { inForce, orders, timers, advance } = world();
    const younger = override('younger', { createdMs: 20 });
    await inForce.use('api', [younger]);
    const older = override('older', { source: 'object', createdMs: 10, endsMs: 6_000 });
    await inForce.use('object', [older]);
    expect(orders).toEqual([['younger'], ['older']]);
    expect([inForce.stateOf(older).state, inForce.stateOf(younger).state]).toEqual(['InForce', 'Conflicted']);
    expect(inForce.stateOf(younger).message).toBe('object older has the same match and is older: blocked');
    expect([inForce.count, inForce.conflicted]).toEqual([1, 1]);
    await advance(5_000);
    expect(orders.at(-1)).toEqual(['younger']);
    expect([inForce.stateOf(older).state, inForce.stateOf(younger).state]).toEqual(['Ended', 'InForce']);
    inForce.close();
    expect(timers.size).toBe(0);
  });

  it('shows the threads nothing of ends, which they know, and all changes of a moment at once', async () => {
    const { inForce, orders, advance } = world();
    const many = Array.from({ length: 50 }, (_, n) =>
      override(`o${n}`, { match: [{ key: 'k', value: `v${n}` }], endsMs: 1_100 + n }),
    );
    await Promise.all(many.map((_, n) => inForce.use('api', many.slice(0, n + 1))));
    expect(orders).toHaveLength(1);
    expect(orders[0]).toHaveLength(50);
    await advance(10_000);
    expect(orders).toHaveLength(1);
    expect(inForce.count).toBe(0);
    await inForce.use('file', []);
    expect(orders).toHaveLength(1);
  });

  it('reports to the threads at most ten times a second what no caller waits for, and the first at once', async () => {
    const { inForce, orders, advance } = world();
    const many = Array.from({ length: 50 }, (_, n) =>
      override(`o${n}`, { match: [{ key: 'k', value: `v${n}` }] }),
    );
    for (const n of many.keys()) {
      inForce.useSoon('api', many.slice(0, n + 1));
      await turns();
    }
    expect(orders).toEqual([['o0']]);
    await advance(100);
    expect(orders.map((ids) => ids.length)).toEqual([1, 50]);
    inForce.useSoon('api', []);
    await inForce.use('file', []);
    expect(orders.at(-1)).toEqual([]);
    await advance(1_000);
    expect(orders).toHaveLength(3);
  });

  it('keeps grants beside others of the same match, and beside each other', async () => {
    const { inForce, orders } = world();
    const grant = { effect: { kind: 'grant', hits: 1 } } as const;
    await inForce.use('api', [override('block'), override('g1', grant), override('g2', grant)]);
    expect(orders).toEqual([['block', 'g1', 'g2']]);
    expect(inForce.find('d', [{ key: 'k', value: 'v' }])).toMatchObject({
      overrides: [{ id: 'block' }],
      grants: [{ id: 'g1' }, { id: 'g2' }],
    });
  });
});
