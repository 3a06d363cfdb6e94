import { describe, expect, it } from 'vitest';
import type { Override } from '../../rules/override.ts';
import { type OverrideParts, overrideRoutes } from './override-routes.ts';

function routesOf(overrides: readonly Override[], kind: 'redis' | 'memcache' = 'redis') {
  const asked: string[] = [];
  const parts = {
    storeAdmin: { kind },
    clock: { nowMs: () => 1_000 },
    stored: { read: () => Promise.resolve() },
    inForce: {
      all: () => overrides,
      stateOf: ({ id }: Override) => {
        asked.push(id);
        return { state: 'InForce', message: '' };
      },
    },
  };
  const [list, , , remove] = overrideRoutes(parts as unknown as OverrideParts);
  const actor = {
    ...{ name: 'x', address: '', claims: '' },
    ...{ mayRead: (domain: string) => domain !== 'other', mayChange: (domain: string) => domain === 'shop' },
  };
  return {
    asked,
    list: (query = '') => list!.answer({ query: new URLSearchParams(query), body: undefined, actor }),
    remove: (query: string) => remove!.answer({ query: new URLSearchParams(query), body: undefined, actor }),
  };
}

function override(id: string, traits: Partial<Override> = {}): Override {
  return {
    ...{ id, source: 'api', name: id, domain: 'shop', match: [{ key: 'k', value: id }], limit: '' },
    ...{ effect: { kind: 'block' }, createdMs: 1, endsMs: undefined, reason: 'r', by: '', ...traits },
  };
}

describe('GET /v1/overrides', () => {
  it('makes each into text when its line is read, not all at once', async () => {
    const { list, asked } = routesOf([override('a'), override('b'), override('c', { domain: 'other' })]);
    const { lines } = await list();
    const reader = lines![Symbol.iterator]();
    reader.next();
    reader.next();
    expect(asked).toEqual(['a']);
    const text = [...(await list()).lines!].join('\n');
    expect(JSON.parse(text)).toMatchObject({ overrides: [{ id: 'a' }, { id: 'b' }], notes: [] });
  });

  it('is whole JSON without any, and with a note', async () => {
    const { list } = routesOf([override('a')], 'memcache');
    const { overrides, notes } = JSON.parse([...(await list('entry=k=other')).lines!].join('\n'));
    expect([overrides, notes.length]).toEqual([[], 1]);
  });
});

describe('DELETE /v1/overrides', () => {
  it('names the object to change, by the id and by the name that the list shows', async () => {
    const { remove } = routesOf([override('uid', { source: 'object', name: 'override/shops/sale' })]);
    for (const id of ['uid', 'override/shops/sale'])
      await expect(remove(`id=${id}`)).rejects.toThrow(/: change the RateLimitOverride shops\/sale$/);
    await expect(remove('id=sale')).rejects.toThrow(/^there is no such override/);
  });
});
