import { describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../../../test/support/eventually.ts';
import { resp, startFakeRedis } from '../../../../test/support/fake-redis.ts';
import { parseSentinelAddress } from './redis-address.ts';
import { RedisConnection } from './redis-connection.ts';
import { Sentinels } from './sentinels.ts';

const noLogin = { username: undefined, password: undefined };

/** The questions to sentinels, each of which gives one of the replies to the question for its master, and then to a watch. */
async function sentinelsThat(answers: readonly string[], watched = '') {
  const fakes = await Promise.all(
    answers.map((answer) => startFakeRedis(([name]) => (name === 'subscribe' ? watched : answer))),
  );
  const sentinels = new Sentinels({
    address: {
      sentinels: fakes.map(({ port }) => ({ host: '127.0.0.1', port })),
      masterName: 'main',
      sentinelAuth: noLogin,
      ...{ ...noLogin, db: 0, label: 'main' },
    },
    timeoutMs: 5_000,
    tls: undefined,
  });
  onTestFinished(async () => {
    sentinels.close();
    for (const fake of fakes) await fake.close();
  });
  return { sentinels, ports: fakes.map(({ port }) => port) };
}

describe('Sentinels', () => {
  it.each([
    ['a host and a port', resp(['redis-1', '6379']), { host: 'redis-1', port: 6379 }],
    ['the last port', resp(['redis-1', '65535']), { host: 'redis-1', port: 65_535 }],
    ['a port beyond the last', resp(['redis-1', '65536']), undefined],
    ['port 0', resp(['redis-1', '0']), undefined],
    ['no number', resp(['redis-1', '6379x']), undefined],
    ['no host', resp(['', '6379']), undefined],
    ['a host alone', resp(['redis-1']), undefined],
    ['more than that', resp(['redis-1', '6379', '1']), undefined],
    ['a status', '+OK\r\n', undefined],
  ])('name the master by %s', async (_, answer, master) => {
    const { sentinels, ports } = await sentinelsThat([answer]);
    const asked = await sentinels.master().catch((error: Error) => error.message);
    const problem = `sentinel 127.0.0.1:${ports[0]}: Redis gave an answer of an unexpected form to SENTINEL: `;
    if (master === undefined) expect(asked).toContain(problem);
    else expect(asked).toEqual(master);
  });

  it.each([
    ['knows no such master', resp(null), ' knows no master "main"'],
    ['refuses', '-ERR not yet\r\n', ': Redis answered: ERR not yet'],
  ])('report the first of them that %s, if no other names one', async (_, answer, problem) => {
    const { sentinels, ports } = await sentinelsThat([answer, resp(null)]);
    await expect(sentinels.master()).rejects.toThrow(`sentinel 127.0.0.1:${ports[0]}${problem}`);
    const { sentinels: others } = await sentinelsThat([answer, resp(['redis-1', '6379'])]);
    expect(await others.master()).toEqual({ host: 'redis-1', port: 6379 });
  });

  it('report each switch of this master to a place', async () => {
    const message = (text: string) => resp(['message', '+switch-master', text]);
    const watched = [
      resp(['subscribe', '+switch-master', 1]),
      message('other old 1 new 2'),
      message('main old 1'),
      message('main old 1 new x'),
      message('main old 1 new 2'),
    ].join('');
    const { sentinels } = await sentinelsThat([resp(null), resp(null)], watched);
    const masters: unknown[] = [];
    sentinels.watch((master) => masters.push(master));
    await eventually(() => expect(masters).toHaveLength(2));
    expect(masters).toEqual(Array(2).fill({ host: 'new', port: 2 }));
  });
});

describe('a connection behind sentinels', () => {
  it.each([
    ['opens to a master', resp(['master']), undefined],
    [
      'opens to a server that does not permit the question',
      '-NOPERM no permission to run role\r\n',
      undefined,
    ],
    ['rejects a replica', resp(['slave']), 'the server that the sentinels name is a replica'],
    [
      'rejects a server that answers otherwise',
      '+OK\r\n',
      'an answer of an unexpected form to ROLE: a status',
    ],
  ])('%s', async (_, role, problem) => {
    const server = await startFakeRedis(() => resp(null), { role });
    const sentinel = await startFakeRedis(([name]) =>
      name === 'subscribe' ? '' : resp(['127.0.0.1', String(server.port)]),
    );
    const connection = new RedisConnection({
      address: parseSentinelAddress({ url: `main,127.0.0.1:${sentinel.port}`, auth: '', sentinelAuth: '' }),
      timeoutMs: 5_000,
      random: Math.random,
    });
    onTestFinished(async () => {
      connection.close();
      for (const fake of [sentinel, server]) await fake.close();
    });
    const outcome = await connection.open().catch((error: Error) => error.message);
    if (problem === undefined) expect(outcome).toBeUndefined();
    else expect(outcome).toContain(problem);
    expect(connection.connected).toBe(problem === undefined);
  });
});
