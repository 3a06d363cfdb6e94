import { describe, expect, it } from 'vitest';
import { parseClusterAddress } from './redis-address.ts';

const parse = (url: string, auth = '') => parseClusterAddress({ url, auth });
const seeds = [
  { host: 'a', port: 7000 },
  { host: 'b', port: 7001 },
];

describe('parseClusterAddress', () => {
  it.each([
    ['a:7000,b:7001', '', { seeds, username: undefined, password: undefined, label: 'a:7000,b:7001' }],
    ['a:7000, b:7001,', 'pw', { seeds, username: undefined, password: 'pw', label: 'a:7000, b:7001,' }],
    ['a:7000,b:7001', 'me:pw', { seeds, username: 'me', password: 'pw', label: 'a:7000,b:7001' }],
    [
      'redis://me:p,w@a:7000,redis://b:7001',
      '',
      { seeds, username: 'me', password: 'p,w', label: 'redis://*****@a:7000,redis://b:7001' },
    ],
    [
      'redis://me:pw@a:7000,b:7001',
      'other',
      { seeds, username: undefined, password: 'other', label: 'redis://*****@a:7000,b:7001' },
    ],
  ])('reads %j with REDIS_AUTH %j', (url, auth, expected) => {
    expect(parse(url, auth)).toEqual(expected);
  });

  it.each([
    ['', 'Redis URL is empty'],
    [',', 'Redis URL is empty'],
    ['a:7000,b', 'Redis URL "b" is not host:port'],
    ['redis://a:7000/2', 'Redis URL "redis://a:7000/2" names a database, but a cluster has only database 0'],
  ])('rejects %j', (url, message) => {
    expect(() => parse(url)).toThrow(message);
  });
});
