import { describe, expect, it } from 'vitest';
import { defaultExplaining } from '../../limiter/operate/explain.ts';
import { clusterRules, overridesInForce, rulesInForce } from '../operate/cluster-rules.ts';
import { factsWith } from './descriptor-facts.ts';

const accepted = { type: 'Accepted', status: 'True', reason: 'Valid', message: '' };
const ready = { type: 'Ready', status: 'True', reason: 'Ready', message: '' };
const pending = { type: 'Ready', status: 'False', reason: 'Pending', message: 'waiting for lim-0' };

function object(name: string, spec: object, conditions: object[] = [accepted, ready]): unknown {
  return {
    metadata: { namespace: 'shop', name, generation: 1, creationTimestamp: '2026-11-01T00:00:00Z' },
    spec,
    status: { observedGeneration: 1, conditions },
  };
}

function override(name: string, effect: object, conditions?: object[]): unknown {
  const match = [{ key: 'tenant', value: 'a' }];
  return object(name, { domain: 'shop', match, reason: 'sale', permanent: true, ...effect }, conditions);
}

const rules = object('rules', {
  domain: 'shop',
  descriptors: [{ key: 'tenant', rateLimit: { unit: 'minute', requestsPerUnit: 5 } }],
});
const { sources } = rulesInForce([clusterRules(rules)], 'shop', { className: undefined, fleet: undefined });
const served = { className: 'weir', fleet: 'default' };
const request = {
  ...defaultExplaining,
  domain: 'shop',
  descriptors: [[{ key: 'tenant', value: 'a' }], [{ key: 'tenant', value: 'b' }]],
  nowSeconds: Date.UTC(2026, 10, 2) / 1000,
};

function explained(...objects: unknown[]): ReturnType<typeof factsWith> {
  return factsWith(overridesInForce(objects, 'shop', served).overrides, sources, request);
}

describe('an override of the cluster', () => {
  it('changes the limit of the requests that it matches, and of no others', () => {
    expect(explained(override('more', { requestsPerUnit: 100 }))).toEqual([
      {
        overrides: ['override: 100 per window, for "sale" (object shop/more)'],
        counters: [expect.stringContaining('shop_tenant_a_')],
        inForce: { effect: 'limited', limits: ['100 per minute'] },
      },
      {
        overrides: [],
        counters: [expect.stringContaining('shop_tenant_b_')],
        inForce: { effect: 'limited', limits: ['5 per minute'] },
      },
    ]);
  });

  it.each([
    [{ block: true }, 'limited', ['blocked']],
    [{ unlimited: true }, 'unlimited', ['unlimited']],
    [{ shadow: true }, 'limited', ['5 per minute, counted but never over limit']],
  ])('may be %j', (effect, how, limits) => {
    expect(explained(override('o', effect))[0]!.inForce).toEqual({ effect: how, limits });
  });

  it('has no effect after its end', () => {
    const ended = { block: true, permanent: undefined, expiresAt: '2026-11-01T12:00:00Z' };
    expect(explained(override('o', ended))[0]).toMatchObject({ overrides: [] });
  });

  it.each([
    ['of another class', override('o', { block: true, className: 'other' }), []],
    ['of another fleet', override('o', { block: true, fleet: 'other' }), []],
    ['of another domain', override('o', { block: true, domain: 'other' }), []],
    [
      'that is not accepted',
      override('o', { block: true }, [
        { ...accepted, status: 'False', reason: 'Conflicted', message: 'an older one' },
      ]),
      ['override shop/o is not used: Conflicted, an older one'],
    ],
    [
      'that has ended',
      override('o', { block: true }, [
        { ...accepted, status: 'False', reason: 'Expired' },
        { ...ready, status: 'False', reason: 'Expired' },
      ]),
      [],
    ],
  ])('is left out if it is one %s', (_, one, notes) => {
    expect(overridesInForce([one], 'shop', served)).toEqual({ overrides: [], notes });
  });

  it('counts, with a note, before all limiters apply it', () => {
    const found = overridesInForce([override('o', { block: true }, [accepted, pending])], 'shop', served);
    expect(found.overrides).toHaveLength(1);
    expect(found.notes).toEqual(['override shop/o is not in force everywhere: Pending, waiting for lim-0']);
  });
});
