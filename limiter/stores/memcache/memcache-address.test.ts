import { describe, expect, it } from 'vitest';
import { parseMemcacheAddresses } from './memcache-nodes.ts';

describe('parseMemcacheAddresses', () => {
  it('keeps the order, and nodes that come twice', () => {
    const labels = parseMemcacheAddresses('b:1, a:2,b:1,/run/m.sock').map(({ label }) => label);
    expect(labels).toEqual(['b:1', 'a:2', 'b:1', '/run/m.sock']);
  });

  it.each([
    ['a:11211', { host: 'a', port: 11_211 }],
    ['[::1]:1', { host: '::1', port: 1 }],
    ['/run/m.sock', { path: '/run/m.sock' }],
  ])('reads %s', (text, endpoint) => {
    expect(parseMemcacheAddresses(text)).toEqual([{ endpoint, label: text }]);
  });

  it.each([
    ['a', 'memcached node "a" is neither host:port nor a path'],
    ['a:1,', 'memcached node "" is neither host:port nor a path'],
    ['::1:1', 'memcached node "::1:1" is neither host:port nor a path'],
    ['a:0', 'memcached node "a:0" has a port outside 1..65535'],
    ['a:65536', 'memcached node "a:65536" has a port outside 1..65535'],
  ])('rejects %j', (text, message) => {
    expect(() => parseMemcacheAddresses(text)).toThrow(new Error(message));
  });
});
