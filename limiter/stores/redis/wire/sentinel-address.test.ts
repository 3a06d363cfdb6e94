import { describe, expect, it } from 'vitest';
import { parseSentinelAddress } from './redis-address.ts';

const parse = (url: string, auth = '', sentinelAuth = '') =>
  parseSentinelAddress({ url, auth, sentinelAuth });
const sentinels = [
  { host: 's1', port: 26379 },
  { host: 's2', port: 26380 },
];
const noLogin = { username: undefined, password: undefined };

describe('parseSentinelAddress', () => {
  it.each([
    { url: 'mymaster,s1:26379,s2:26380' },
    { url: 'mymaster, s1:26379, s2:26380' },
    { url: 'mymaster,s1:26379,s2:26380', auth: 'pw', password: 'pw' },
    { url: 'mymaster,s1:26379,s2:26380', auth: 'me:p:w', username: 'me', password: 'p:w' },
    {
      url: 'mymaster,redis://u:p@s1:26379,redis://other:no@s2:26380',
      sentinelAuth: { username: 'u', password: 'p' },
    },
    {
      url: 'mymaster,redis://u:p@s1:26379,s2:26380',
      forSentinels: 'secret',
      sentinelAuth: { username: undefined, password: 'secret' },
    },
  ])('reads $url with auth "$auth" and sentinel auth "$forSentinels"', (given) => {
    const { url, auth, forSentinels, ...expected } = given as typeof given & {
      auth?: string;
      forSentinels?: string;
    };
    const { label, ...read } = parse(url, auth, forSentinels);
    expect(read).toEqual({
      masterName: 'mymaster',
      sentinels,
      sentinelAuth: noLogin,
      ...noLogin,
      db: 0,
      ...expected,
    });
    expect(label).not.toContain('p@');
  });

  const format =
    'Expected master name and a list of urls for the sentinels, in the format: <redis master name>,<sentinel1>,...,<sentineln>; it is ';
  it.each([
    ['mymaster', `${format}"mymaster"`],
    ['', `${format}""`],
    ['mymaster,', `${format}"mymaster,"`],
    ['mymaster,s1:1,', `${format}"mymaster,s1:1,"`],
    ['redis://u:secret@s1:1,s2:2', `${format}"redis://*****@s1:1,s2:2"`],
    [
      'mymaster,redis://s1:1/3',
      'Redis URL "redis://s1:1/3" has a database, which sentinels do not support; the master counts in database 0',
    ],
    ['mymaster,s1', 'Redis URL "s1" is not host:port'],
    [
      'mymaster,rediss://u:secret@s1:1',
      'Redis URL "rediss://*****@s1:1" has a scheme other than redis://; for TLS set REDIS_TLS=true',
    ],
  ])('rejects %s', (url, message) => {
    expect(() => parse(url)).toThrow(new Error(message));
  });
});
