import { describe, expect, it } from 'vitest';
import { editDistance, unknownVariables } from './settings-unknown.ts';

const known = {
  table: {
    url: { name: 'REDIS_URL' },
    host: { name: 'HOST' },
    grpcPort: { name: 'GRPC_PORT' },
    cache: { name: 'LOCAL_CACHE_SIZE_IN_BYTES' },
  },
  aliases: { prefixes: [['KVS_', 'REDIS_']], names: { LocalCacheSizeInBytes: 'LOCAL_CACHE_SIZE_IN_BYTES' } },
  ownPrefixes: ['REDIS_'],
} as const;

describe('unknownVariables', () => {
  const cases: [variable: string, value: string, warning: string | undefined][] = [
    ['REDIS_URL', 'x', undefined],
    ['KVS_URL', 'x', undefined],
    ['LocalCacheSizeInBytes', '1', undefined],
    ['REDIS_ULR', 'x', '; did you mean REDIS_URL?'],
    ['REDIS_URI', 'x', '; did you mean REDIS_URL?'],
    ['KVS_URLS', 'x', '; did you mean KVS_URL?'],
    ['REDISURL', 'x', '; did you mean REDIS_URL?'],
    ['grpc_port', '1', '; did you mean GRPC_PORT?'],
    ['LOCALCACHESIZEINBYTES', '1', '; did you mean LOCAL_CACHE_SIZE_IN_BYTES?'],
    ['LOCAL_CACHE_SIZE_BYTES', '1', undefined],
    ['HOME', '/root', undefined],
    ['HOSTS', 'x', undefined],
    ['GRPC_VERBOSITY', 'DEBUG', undefined],
    ['REDIS_SERVICE_HOST', '10.0.0.1', undefined],
    ['REDIS_SERVICE_PORT', '6379', undefined],
    ['REDIS_SERVICE_PORT_CLIENT', '6379', undefined],
    ['REDIS_PORT', 'tcp://10.0.0.1:6379', undefined],
    ['REDIS_PORT_6379_TCP', 'tcp://10.0.0.1:6379', undefined],
    ['REDIS_PORT_6379_TCP_ADDR', '10.0.0.1', undefined],
    ['REDIS_MASTER_PORT_6379_TCP_PROTO', 'tcp', undefined],
  ];
  it.each([
    ['REDIS_POOL_SIZE', '1'],
    ['KVS_POOL_SIZE', '1'],
    ['REDIS_PORT', '6379'],
  ])('says that %s=%s belongs to another version', (variable, value) => {
    expect(unknownVariables(known, { [variable]: value })).toEqual([
      `${variable} is a setting that this version does not have; it is ignored`,
    ]);
  });

  it.each(['', 'false', '0'])('does not mention one that is off ("%s")', (value) => {
    expect(unknownVariables(known, { REDIS_TLS: value })).toEqual([]);
  });

  for (const [variable, value, rest] of cases) {
    it(`says ${rest === undefined ? 'nothing' : `"ignored${rest}"`} of ${variable}=${value}`, () => {
      expect(unknownVariables(known, { [variable]: value })).toEqual(
        rest === undefined ? [] : [`${variable} is unknown to this version and ignored${rest}`],
      );
    });
  }
});

describe('editDistance', () => {
  const cases: [string, string, number][] = [
    ['', '', 0],
    ['', 'abc', 3],
    ['abc', '', 3],
    ['kitten', 'sitting', 3],
    ['PORT', 'PORT', 0],
    ['PORT', 'PRT', 1],
    ['PORT', 'PROT', 1],
  ];
  for (const [a, b, distance] of cases) {
    it(`from "${a}" to "${b}" is ${distance}`, () => {
      expect(editDistance(a, b, distance)).toBe(distance);
      expect([distance, Number.POSITIVE_INFINITY]).toContain(editDistance(a, b, distance - 1));
    });
  }
});
