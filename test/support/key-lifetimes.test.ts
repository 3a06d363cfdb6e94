import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { describeWithServer } from './describe-with-server.ts';
import { redisProgram } from './find-server.ts';
import { type KeyLifetimes, longestLifeSeconds } from './key-lifetimes.ts';
import { startRedis } from './redis-server.ts';

describe('longestLifeSeconds', () => {
  it.each<[key: string, seconds: number | undefined, given?: KeyLifetimes]>([
    ['bank_ip_192.0.2.7_1700000040', 60 + 300],
    ['bank_ip_192.0.2.7_1700000040', 60, { jitterSeconds: 0 }],
    ['bank_ip_192.0.2.7_1700000001', 1 + 300],
    ['1{bank;ip=192.0.2.7}90:1700000040', 90 + 300],
    ['1{bank;ip=192.0.2.7}90:sliding', 180 + 300],
    ['1{bank}month@Europe/Zurich@15:1773529200', 31 * 86_400 + 3_600 + 300],
    ['weir:lease:1{bank}90:1700000040', 90 + 300],
    ['weir:lease:{bank_ip_1700000040}', 60 + 300],
    ['weir:claim:1{bank}90:1700000040', 90 + 60],
    ['weir:reserve:1{bank}90:', 1.125 * 87_000 + 60],
    ['weir:reserve-due:1{bank}90:', 1.125 * (86_400 + 60) + 60, { recordSeconds: 60 }],
    ['weir:reserve-note:id', 87_000],
    ['weir:reserve-tally:d:hash', 1.125 * 87_000 + 2],
    ['weir:{}:limiters', undefined],
    ['weir:{prod:}:overrides', undefined],
  ])('of %s is %s', (key, seconds, given) => {
    expect(longestLifeSeconds(key, given)).toBe(seconds);
  });
});

describeWithServer('a server at its end', redisProgram, (path) => {
  it.each<[what: string, command: string, lifetimes: KeyLifetimes, outcome: string | undefined]>([
    ['fails for a key that never ends', 'SET a_1700000040 1', {}, '"a_1700000040" (PTTL -1)'],
    ['fails for one that lives too long', 'SET a_1700000040 1 PX 400000', {}, '"a_1700000040" (PTTL 3'],
    ['passes one that ends in time', 'SET a_1700000040 1 PX 300000', {}, undefined],
    ['passes keys that the test names', 'SET own:a 1', { own: ['own:'] }, undefined],
    ['passes records of operators', 'HSET weir:{a}:limiters a b', { endsEmpty: true }, undefined],
    ['waits until nothing is left', 'SET a_1700000040 1 PX 300', { endsEmpty: true }, undefined],
  ])('%s', async (_, command, lifetimes, outcome) => {
    const server = await startRedis({ path, lifetimes });
    const client = new Redis(server.port, '127.0.0.1');
    const [name = '', ...args] = command.split(' ');
    await client.call(name, ...args);
    client.disconnect();
    const failure = await server.stop().then(
      () => undefined,
      (error: Error) => error.message,
    );
    if (outcome === undefined) expect(failure).toBeUndefined();
    else expect(failure).toContain(`keys that live too long: ${outcome}`);
    expect(server.pid === undefined || isGone(server.pid)).toBe(true);
  });
});

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch {
    return true;
  }
}
