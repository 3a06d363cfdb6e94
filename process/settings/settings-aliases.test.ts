import { describe, expect, it } from 'vitest';
import { type AliasTable, aliasesOf, canonicalName } from './settings-unknown.ts';

const aliases: AliasTable = {
  prefixes: [
    ['KVS_', 'REDIS_'],
    ['USE_PUSH', 'USE_STATSD'],
  ],
  names: { CacheSize: 'CACHE_SIZE', KVS_ODD: 'EVEN' },
};

describe('canonicalName', () => {
  const cases: [name: string, canonical: string | undefined][] = [
    ['KVS_URL', 'REDIS_URL'],
    ['KVS_PERSECOND_URL', 'REDIS_PERSECOND_URL'],
    ['USE_PUSH', 'USE_STATSD'],
    ['CacheSize', 'CACHE_SIZE'],
    ['KVS_ODD', 'EVEN'],
    ['REDIS_URL', undefined],
    ['MY_KVS_URL', undefined],
    ['constructor', undefined],
  ];
  for (const [name, canonical] of cases) {
    it(`takes ${name} for ${canonical ?? 'no alias'}`, () =>
      expect(canonicalName(aliases, name)).toBe(canonical));
  }
});

describe('aliasesOf', () => {
  it('lists listed names and prefixes, and none that means something else', () => {
    expect(aliasesOf(aliases, 'REDIS_URL')).toEqual(['KVS_URL']);
    expect(aliasesOf(aliases, 'CACHE_SIZE')).toEqual(['CacheSize']);
    expect(aliasesOf(aliases, 'REDIS_ODD')).toEqual([]);
    expect(aliasesOf(aliases, 'PORT')).toEqual([]);
  });
});
