import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { maskRedisUrl } from './redis-address.ts';

describe('maskRedisUrl', () => {
  it.each([
    ['localhost:6379', 'localhost:6379'],
    ['/var/run/redis.sock', '/var/run/redis.sock'],
    ['redis://host:6379/2', 'redis://host:6379/2'],
    ['redis://user:secret@host:6379', 'redis://*****@host:6379'],
    ['redis://:secret@host', 'redis://*****@host'],
    ['rediss://user:secret@host', 'rediss://*****@host'],
    ['REDIS://user:secret@host', 'REDIS://*****@host'],
    ['redis://user:p@ss@host', 'redis://*****@host'],
    ['user:secret@host:6379', '*****@host:6379'],
    [
      'mymaster,redis://u:secret@s1:1,redis://u:sec,ret@s2:2',
      'mymaster,redis://*****@s1:1,redis://*****@s2:2',
    ],
    ['redis://host?username=u&password=secret&db=3', 'redis://host?username=*****&password=*****&db=3'],
    ['redis://:secret', 'redis://*****'],
    ['redis://user:secret', 'redis://*****'],
    ['redis://:secretx://y@h:1', 'redis://*****@h:1'],
    ['redis://h:1?p%61ssword=secret', 'redis://h:1?p%61ssword=*****'],
    ['redis://h:1/S3cret', 'redis://h:1/*****'],
    ['redis://h:1/0;password=S3cret', 'redis://h:1/*****'],
    ['redis://u:p@h:1/S3cret?db=1', 'redis://*****@h:1/*****?db=1'],
    ['m,redis://a:1/2,redis://u:p@b:2/3', 'm,redis://a:1/2,redis://*****@b:2/3'],
    ['redis://[::1]:6379/1', 'redis://[::1]:6379/1'],
    ['redis://a:1,redis://b:2', 'redis://a:1,redis://b:2'],
    ['redis://host?db=3&PASSWORD=secret', 'redis://host?db=3&PASSWORD=*****'],
  ])('shows %s as %s', (url, masked) => {
    expect(maskRedisUrl(url)).toBe(masked);
  });

  it('never shows a password, whatever characters it has', () => {
    const password = fc.string({ minLength: 1, unit: 'binary-ascii' }).map((text) => `S3${text}ECRET`);
    fc.assert(
      fc.property(password, (secret) => {
        expect(maskRedisUrl(`redis://user:${secret}@host:6379`)).not.toContain('ECRET');
        expect(maskRedisUrl(`m,redis://a:b@h,redis://user:${secret}@host:6379`)).not.toContain('ECRET');
      }),
    );
  });
});
