import { describe, expect, it } from 'vitest';
import { parseRedisAddress } from './redis-address.ts';

const tcp = (url: string, auth = '') => parseRedisAddress({ socketType: 'tcp', url, auth });
const host = { host: 'host', port: 6379 };
const noLogin = { username: undefined, password: undefined };

describe('parseRedisAddress', () => {
  it.each([
    { url: 'host:6379', endpoint: host },
    { url: '[::1]:6380', endpoint: { host: '::1', port: 6380 } },
    { url: 'redis://host', endpoint: host },
    { url: 'redis://[::1]:6380', endpoint: { host: '::1', port: 6380 } },
    { url: 'redis://host:6379/5', endpoint: host, db: 5 },
    { url: 'redis://host:6379?db=6', endpoint: host, db: 6 },
    { url: 'redis://host:6379/5?db=6', endpoint: host, db: 5 },
    { url: 'redis://:pass@host', endpoint: host, password: 'pass' },
    { url: 'redis://user:pass@host', endpoint: host, username: 'user', password: 'pass' },
    { url: 'redis://us%3Aer:p%40ss%25@host', endpoint: host, username: 'us:er', password: 'p@ss%' },
    { url: 'redis://host?username=user&password=pass', endpoint: host, username: 'user', password: 'pass' },
    { url: 'redis://user:pass@host?password=other', endpoint: host, username: 'user', password: 'pass' },
    { url: 'redis://user:pass@host', auth: 'secret', endpoint: host, password: 'secret' },
    { url: 'redis://user@host', auth: 'secret', endpoint: host, password: 'secret' },
    { url: 'host:6379', auth: 'me:sec:ret', endpoint: host, username: 'me', password: 'sec:ret' },
  ])('reads $url with auth "$auth"', ({ url, auth = '', ...expected }) => {
    const { label, ...read } = tcp(url, auth);
    expect(read).toEqual({ ...noLogin, db: 0, ...expected });
    expect(label).not.toContain('pass@');
  });

  it('takes the path of a unix socket unchanged', () => {
    expect(parseRedisAddress({ socketType: 'unix', url: '/run/redis.sock', auth: 'pw' })).toEqual({
      endpoint: { path: '/run/redis.sock' },
      username: undefined,
      password: 'pw',
      db: 0,
      label: '/run/redis.sock',
    });
  });

  it.each([
    ['', 'Redis URL is empty'],
    ['host', 'Redis URL "host" is not host:port'],
    ['host:', 'Redis URL "host:" is not host:port'],
    ['host:70000', 'Redis URL "host:70000" has a port outside 1..65535'],
    ['redis://host:0', 'Redis URL "redis://host:0" has a port outside 1..65535'],
    ['a:1,b:2', 'Redis URL "a:1,b:2" is not host:port'],
    ['user:secret@host:6379', 'Redis URL "*****@host:6379" is not host:port'],
    [
      'rediss://u:secret@host',
      'Redis URL "rediss://*****@host" has a scheme other than redis://; for TLS set REDIS_TLS=true',
    ],
    ['redis://u:secret@', 'Redis URL "redis://*****@" is not redis://[user:password@]host:port[/db]'],
    [
      'redis://u:secret@host:6379/x',
      'Redis URL "redis://*****@host:6379/*****" has a database that is not a number',
    ],
    ['redis://u:%zz@host', 'Redis URL "redis://*****@host" has credentials with a "%" that is not an escape'],
    ['redis://user@host', 'Redis URL "redis://*****@host" has a user without a password'],
  ])('rejects %s', (url, message) => {
    expect(() => tcp(url)).toThrow(new Error(message));
  });

  it('rejects a URL where a socket path belongs', () => {
    expect(() => parseRedisAddress({ socketType: 'unix', url: 'redis://u:secret@host', auth: '' })).toThrow(
      new Error('Redis URL "redis://*****@host" needs the socket type tcp, not unix'),
    );
  });
});

describe('what to do about a rejected REDIS_URL', () => {
  const refusal = (url: string) => {
    try {
      parseRedisAddress({ socketType: 'tcp', url, auth: '' });
      return 'taken';
    } catch (error) {
      return (error as Error).message;
    }
  };
  const advice = '; "#", "/" and "?" in a password must be percent-encoded, or set REDIS_AUTH';

  it.each([
    'redis://u:p#x@h:1',
    'redis://u:12#x@h:1',
    'redis://:p/x@h:1',
    'redis://u:12/x@h:1',
    'redis://u:p?x@h:1',
  ])('is to escape the password of %s', (url) => {
    const text = refusal(url);
    expect(text.endsWith(advice)).toBe(true);
    expect(text).toContain('Redis URL "redis://*****@h:1" is not ');
  });

  it('is REDIS_TLS for rediss://', () => {
    expect(refusal('rediss://h:1')).toBe(
      'Redis URL "rediss://h:1" has a scheme other than redis://; for TLS set REDIS_TLS=true',
    );
  });
});
