import { describe, expect, it } from 'vitest';
import { StoreError } from './store-error.ts';

describe('what a caller is shown of a failing store', () => {
  it.each([
    [
      'Redis is not connected: connect ECONNREFUSED 10.1.2.3:6379',
      'Redis is not connected: connect ECONNREFUSED',
    ],
    [
      'Redis is not connected: getaddrinfo ENOTFOUND redis.internal',
      'Redis is not connected: getaddrinfo ENOTFOUND',
    ],
    [
      'Redis is not connected: sentinel redis-0:26379 knows no master "main"',
      'Redis is not connected: sentinel (address) knows no master "main"',
    ],
    [
      'the limiter does not ask the store until it answers again: Redis is not connected: connect ENOENT /run/redis.sock',
      'the limiter does not ask the store until it answers again: Redis is not connected: connect ENOENT',
    ],
    [
      'node [fd00::7]:7000 is not connected: connect ETIMEDOUT fd00::7:7000',
      'node (address) is not connected: connect ETIMEDOUT',
    ],
    ['node redis-0.cache:7000 did not answer in time', 'node (address) did not answer in time'],
    [
      'node fd00::7:7000 does not get calls until it answers again',
      'node (address) does not get calls until it answers again',
    ],
    ['connect ECONNREFUSED 10.1.2.3:6379', 'connect ECONNREFUSED'],
    ['getaddrinfo EAI_AGAIN redis.internal', 'getaddrinfo EAI_AGAIN'],
    ['querySrv ENOTFOUND _memcache._tcp.internal', 'querySrv ENOTFOUND'],
    ['connect EACCES /run/redis/redis.sock', 'connect EACCES'],
    ['failed to read file: /etc/weir/ca.pem', 'failed to read file: (path)'],
    ['Redis answered: MOVED 3999 10.1.2.3:6381', 'Redis answered: MOVED 3999 (address)'],
    [
      'Redis answered: ERR upstream cache-3.internal:6379 at 10.1.2.3 is down',
      'Redis answered: ERR upstream (address) at (address) is down',
    ],
    [
      "Hostname/IP does not match certificate's altnames: Host: redis.internal. is not in the cert's altnames: DNS:a",
      "Hostname/IP does not match certificate's altnames",
    ],
  ])('%s', (message, shown) => {
    const error = new StoreError(message, { transient: true });
    expect([error.textForCallers, error.marked(true).textForCallers]).toEqual([shown, shown]);
  });

  it.each([
    ['Redis did not answer within 20 ms'],
    ["Redis answered: OOM command not allowed when used memory > 'maxmemory'."],
    ['Redis answered: WRONGTYPE Operation against a key holding the wrong kind of value'],
    ['memcached answered: SERVER_ERROR out of memory storing object'],
    ['too many calls to Redis were open within 20 ms (REDIS_POOL_SIZE)'],
    ['20 requests wait for the store, and STORE_BREAKER_MAX_WAITING allows no more'],
  ])('%s is shown unchanged', (message) => {
    expect(new StoreError(message, { transient: true }).textForCallers).toBe(message);
  });
});
