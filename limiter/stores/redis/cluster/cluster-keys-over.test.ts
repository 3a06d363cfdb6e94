import { describe, expect, it } from 'vitest';
import { counterOp, type GivenTerms } from '../../../../test/support/counter-ops.ts';
import { FixedWindow } from '../../../algorithms/fixed-window.ts';
import { StoreError } from '../../store-error.ts';
import { ClusterKeysOver } from './cluster-keys-over.ts';

/** A cluster that answers each HLEN with `answer`. */
function setUp(answer: () => unknown = () => 0) {
  const asked: string[] = [];
  const clock = { ms: 0 };
  const keysOver = new ClusterKeysOver({
    monotonicMs: () => clock.ms,
    commands: {
      send: async (_key, name, args) => {
        asked.push([name, ...args].join(' '));
        const reply = answer();
        if (reply instanceof Error) throw reply;
        return reply;
      },
      translate: (error) => error as StoreError,
      placeOf: () => 0,
    },
  });
  /** Returns what is reported for each of the counters that a request brought to 11. */
  const note = async (...given: (GivenTerms & { key: string })[]) => {
    const ops = given.map((one) => counterOp({ limit: 10, after: 11, ...one }));
    await new Promise<void>((resolve) => keysOver.note(ops, resolve));
    return ops.map(({ hasExpired, mayReturn }) => (hasExpired ? 'expired' : mayReturn ? 'open' : 'none'));
  };
  return { asked, clock, note };
}

describe('ClusterKeysOver', () => {
  it.each<[string, unknown, string]>([
    ['no reservations', 0, 'none'],
    ['some', 2, 'expired'],
    ['no answer', new StoreError('lost', { transient: true }), 'open'],
    ['no permission', new StoreError('NOPERM', { transient: false }), 'none'],
  ])('asks once for a key that is over: %s', async (_, reply, reported) => {
    const { asked, note } = setUp(() => reply);
    expect(await note({ key: 'k_60' }, { key: 'k_60' })).toEqual([reported, reported]);
    expect(asked).toEqual(['hlen weir:reserve:k_']);
  });

  it.each<[string, GivenTerms]>([
    ['is not over', { after: 10 }],
    ['has a bound', { bound: new FixedWindow(10) }],
    ['was refunded', { negative: true }],
    ['failed', { error: new StoreError('away', { transient: true }) }],
    ['has no room ever', { limit: 0 }],
  ])('asks for no counter that %s', async (_, given) => {
    const { asked, note } = setUp(() => 1);
    expect(await note({ key: 'k_60', ...given })).toEqual(['none']);
    expect(asked).toEqual([]);
  });

  it('asks once for requests that are rejected before there is an answer', async () => {
    const { asked, note } = setUp(() => 1);
    const requests = [note({ key: 'a_60' }), note({ key: 'a_60' }, { key: 'b_60' }), note({ key: 'b_60' })];
    expect(await Promise.all(requests)).toEqual([['expired'], ['expired', 'expired'], ['expired']]);
    expect(asked).toEqual(['hlen weir:reserve:a_', 'hlen weir:reserve:b_']);
    expect(await note({ key: 'a_60' })).toEqual(['open']);
  });

  it('asks again after a second, and says until then that something may be reserved', async () => {
    const { asked, clock, note } = setUp();
    expect(await note({ key: 'a_60' })).toEqual(['none']);
    clock.ms = 999;
    expect(await note({ key: 'a_60' }, { key: 'b_60' })).toEqual(['open', 'none']);
    clock.ms = 1_000;
    expect(await note({ key: 'b_60' }, { key: 'a_60' })).toEqual(['open', 'none']);
    expect(asked).toEqual(['hlen weir:reserve:a_', 'hlen weir:reserve:b_', 'hlen weir:reserve:a_']);
  });

  it('remembers no more than 10,000 of the keys that it asked for', async () => {
    const { note } = setUp();
    for (let i = 0; i <= 10_000; i += 1) await note({ key: `${i}_` });
    expect(await note({ key: '10000_' }, { key: '1_' })).toEqual(['open', 'open']);
    expect(await note({ key: '0_' })).toEqual(['none']);
  });
});
