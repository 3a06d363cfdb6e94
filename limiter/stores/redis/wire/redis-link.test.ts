import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { FlushTurn } from '../../../../process/queues/loop-turns.ts';
import { counterOp, submit } from '../../../../test/support/counter-ops.ts';
import { eventually } from '../../../../test/support/eventually.ts';
import { callAbandoned } from '../../operation.ts';
import { RedisStore, type RedisStoreOptions } from '../redis-store.ts';
import { RedisLink, type RedisLinkOptions, type WritableCall } from './redis-link.ts';
import { type Reply, RespReader } from './resp.ts';

type Answer = (command: string, socket: Socket) => string | undefined;

/** A server that answers each command with `answer`, or not at all. */
async function serverThat(answer: Answer) {
  const reads: string[][] = [];
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    let commands: string[] = [];
    const reader = new RespReader((command) => commands.push((command as Reply[]).join(' ')));
    socket.on('error', () => {});
    socket.on('data', (bytes: Buffer) => {
      commands = [];
      reader.push(bytes, bytes.length);
      reads.push(commands);
      for (const command of commands) socket.write(answer(command, socket) ?? '');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  onTestFinished(() => void server.close());
  return { endpoint: { host: '127.0.0.1', port }, reads, sockets };
}

/** A link to such a server. */
async function linked(answer: Answer, options: Partial<RedisLinkOptions> = {}) {
  const { endpoint, reads, sockets } = await serverThat(answer);
  const events: string[] = [];
  const onEnd = (error: Error) => void events.push(`end: ${error.message}`);
  const link = new RedisLink({ endpoint, tls: undefined, timeoutMs: 5000, onEnd, ...options });
  onTestFinished(() => link.close());
  const ask = (command: string) => {
    const [name = '', ...args] = command.split(' ');
    const reported = (outcome: unknown) => void events.push(`${command}: ${outcome}`);
    return link.ask(name, args).then(reported, reported);
  };
  return { link, ask, reads, events, sockets };
}

const noLogin = { username: undefined, password: undefined };
const echo = (command: string) => `+${command}\r\n`;

describe('RedisLink', () => {
  it('sends what one event asks in one write, and answers in order', async () => {
    const { link, ask, reads, events } = await linked(echo);
    await link.login(noLogin, () => {});
    await Promise.all(['a', 'b 1', 'c'].map(ask));
    expect(reads).toEqual([['a', 'b 1', 'c']]);
    expect(events).toEqual(['a: a', 'b 1: b 1', 'c: c']);
  });

  it('sends what waits for the end of an event before what does not wait', async () => {
    const { link, ask, reads, events } = await linked(echo);
    await link.login(noLogin, () => {});
    const first = ask('first');
    await new Promise<void>((resolve) => {
      link.send('second', {
        pushArguments: () => {},
        dueMs: 0,
        next: undefined,
        receiver: {
          answered: (_, reply) => {
            events.push(`sent: ${reply}`);
            resolve();
          },
          failed: () => {},
        },
      });
    });
    await first;
    expect(reads.flat()).toEqual(['first', 'second']);
    expect(events.sort()).toEqual(['first: first', 'sent: second']);
  });

  it('writes over nothing that waits for a server which does not read', async () => {
    const { link, ask, reads, sockets } = await linked((command, socket) => {
      if (command === 'wait') socket.pause();
      return echo('OK');
    });
    await link.login(noLogin, () => {});
    await ask('wait');
    const commands = Array.from({ length: 600 }, (_, i) => `${i} ${String(i % 10).repeat(15_000)}`);
    const answers: Promise<unknown>[] = [];
    for (const command of commands) {
      answers.push(ask(command));
      await new Promise(setImmediate);
    }
    sockets.at(-1)!.resume();
    await Promise.all(answers);
    expect(
      reads
        .flat()
        .slice(1)
        .every((command, i) => command === commands[i]),
    ).toBe(true);
    expect(reads.flat()).toHaveLength(1 + commands.length);
  });

  it('reads replies that come a byte at a time', async () => {
    const { link, ask, events } = await linked((command, socket) => {
      for (const byte of Buffer.from(`*2\r\n$${command.length}\r\n${command}\r\n:7\r\n`))
        socket.write(Buffer.of(byte));
      return undefined;
    });
    await link.login(noLogin, () => {});
    await Promise.all([ask('one'), ask('other')]);
    expect(events).toEqual(['one: one,7', 'other: other,7']);
  });

  it('ends when a call is not answered in time, and fails those behind it otherwise', async () => {
    const { link, ask, events } = await linked((command) => (command === 'a' ? echo(command) : undefined), {
      timeoutMs: 800,
    });
    await link.login(noLogin, () => {});
    await ask('a');
    const silent = ask('b');
    await new Promise((resolve) => setTimeout(resolve, 600));
    await Promise.all([silent, ask('c')]);
    await ask('d');
    const [answer, ...others] = events;
    expect(answer).toBe('a: a');
    expect(others.sort()).toEqual([
      'b: Error: Command timed out',
      'c: Error: Connection is closed.',
      'd: Error: Connection is closed.',
      'end: Command timed out',
    ]);
  });

  it('ends a server that sends nothing while calls wait, before they time out, and says so to all of them', async () => {
    const { link, ask, events } = await linked((command) => (command === 'a' ? echo(command) : undefined), {
      silenceMs: 800,
    });
    await link.login(noLogin, () => {});
    const waiting = [ask('b')];
    await new Promise((resolve) => setTimeout(resolve, 500));
    waiting.push(ask('c'));
    await Promise.all(waiting);
    await ask('d');
    expect(events.sort()).toEqual([
      'b: Error: Command timed out',
      'c: Error: Command timed out',
      'd: Error: Connection is closed.',
      'end: Command timed out',
    ]);
    expect(link.failure).toMatchObject({ afterMs: 800 });
  });

  it('is patient with a server that answers some calls while others wait for longer than its silence', async () => {
    const { link, ask, events } = await linked(
      (command, socket) => {
        if (command === 'slow')
          for (const i of [1, 2, 3]) setTimeout(() => socket.write(`+${i}\r\n`), i * 500);
        return undefined;
      },
      { silenceMs: 1_000 },
    );
    await link.login(noLogin, () => {});
    await Promise.all(['slow', 'b', 'c'].map(ask));
    expect(events).toEqual(['slow: 1', 'b: 2', 'c: 3']);
  });

  it.each([
    ['what is no reply', 'HTTP/1.1 400 Bad Request\r\n'],
    ['a reply that nobody asked for', '+OK\r\n+OK\r\n'],
  ])('ends at %s', async (_, text) => {
    const { link, ask, events } = await linked(() => text);
    await link.login(noLogin, () => {});
    await ask('a');
    await eventually(() => expect(events).toContain('end: Redis gave an answer of an unexpected form'));
    expect(link.failure?.message).toBe('Redis gave an answer of an unexpected form');
  });

  it('has answers written once the replies of a read are handed over', async () => {
    const flushTurn = new FlushTurn();
    const { link, events } = await linked((name) => (name === 'both' ? '+1\r\n+2\r\n' : ''), { flushTurn });
    await link.login(noLogin, () => {});
    const call = (): WritableCall => ({
      pushArguments: () => {},
      dueMs: 0,
      next: undefined,
      receiver: {
        answered: (_, reply) => {
          setImmediate(() => events.push('the next phase'));
          events.push(`${reply}`);
          flushTurn.schedule({ flush: () => events.push(`written ${reply}`) });
        },
        failed: () => {},
      },
    });
    link.send('both', call());
    link.send('none', call());
    await eventually(() => expect(events).toContain('the next phase'));
    expect(events.slice(0, 5)).toEqual(['1', '2', 'written 1', 'written 2', 'the next phase']);
  });

  it('passes on unexpected replies if they are allowed', async () => {
    const messages: Reply[] = [];
    const { link, ask } = await linked(() => '+OK\r\n+first\r\n+second\r\n', {
      onMessage: (message) => messages.push(message),
    });
    await link.login(noLogin, () => {});
    await ask('subscribe news');
    await eventually(() => expect(messages).toEqual(['first', 'second']));
  });

  it.each([
    [{ ...noLogin }, [], []],
    [{ username: undefined, password: 'pw', db: 3 }, ['auth pw', 'select 3'], []],
    [{ username: 'me', password: 'pw' }, ['auth me pw'], []],
    [{ username: undefined, password: 'needless' }, ['auth needless'], ['needless']],
    [{ username: undefined, password: 'old' }, ['auth old'], ['needless']],
    [{ username: 'wrong', password: 'pw' }, ['auth wrong pw'], ['WRONGPASS no such user']],
    [
      { username: 'nobody', password: 'pw' },
      ['auth nobody pw'],
      ["ERR wrong number of arguments for 'auth' command"],
    ],
    [
      { username: undefined, password: 'pw', db: 99 },
      ['auth pw', 'select 99'],
      ['ERR DB index is out of range'],
    ],
  ])('logs in with %j', async (credentials, commands, reported) => {
    const replies: Record<string, string> = {
      'auth needless':
        '-ERR AUTH <password> called without any password configured for the default user. Are you sure?',
      'auth old': '-ERR Client sent AUTH, but no password is set',
      'auth wrong pw': '-WRONGPASS no such user',
      'auth nobody pw': "-ERR wrong number of arguments for 'auth' command",
      'select 99': '-ERR DB index is out of range',
    };
    const { link, reads } = await linked((command) => `${replies[command] ?? '+OK'}\r\n`);
    const received: string[] = [];
    await link
      .login(credentials, () => received.push('needless'))
      .catch((error) => received.push(error.message));
    expect([reads.flat(), received]).toEqual([commands, reported]);
  });
});

/** A store that is connected to such a server. */
async function storeIn(answer: Answer, options: Partial<RedisStoreOptions> = {}) {
  const { endpoint, reads, sockets } = await serverThat(answer);
  const address = { ...noLogin, endpoint, db: 0, label: 'fake' };
  const store = new RedisStore({ address, timeoutMs: 5000, random: Math.random, ...options });
  onTestFinished(() => store.close());
  await store.connect({ monotonicMs: () => 0, sleep: () => Promise.reject(new Error('retried')) });
  const commands = () => reads.flat().map((command) => command.split(' ', 1)[0]);
  return { store, commands, reads, sockets };
}

describe('RedisStore', () => {
  it('names a script, sends its source if it is unknown, and takes the next answer unchanged', async () => {
    const replies: Record<string, string> = { ping: '+PONG', evalsha: '-NOSCRIPT', eval: '-NOSCRIPT again' };
    const { store, commands } = await storeIn((command) => `${replies[command.split(' ', 1)[0]!]}\r\n`);
    const [op] = await submit(store, [counterOp({ key: 'k' })]);
    expect(op?.error?.message).toBe('Redis answered: NOSCRIPT again');
    expect(commands()).toEqual(['ping', 'ping', 'evalsha', 'eval']);
  });

  it('does not suspect a server of TLS that it was connected to', async () => {
    const failures: string[] = [];
    let isUp = true;
    const { sockets } = await storeIn(
      (_command, socket) => {
        if (!isUp) socket.destroy();
        return '+PONG\r\n';
      },
      { onFailure: (text) => failures.push(text), random: () => 0 },
    );
    isUp = false;
    sockets[0]!.destroy();
    await eventually(() => expect(failures).toHaveLength(1));
    expect(failures[0]).not.toContain('REDIS_TLS');
  });

  it('fails a call by the error of Redis, and the next one', async () => {
    const { store } = await storeIn((command) => (command === 'ping' ? '+PONG\r\n' : '-ERR broken\r\n'));
    const ops = [counterOp({ key: 'k' }), counterOp({ key: 'l' })];
    for (const op of ops) await submit(store, [op]);
    expect(ops.map(({ error }) => error?.message)).toEqual(Array(2).fill('Redis answered: ERR broken'));
  });

  it.each([
    ['one call', 512, ['stop']],
    ['several calls, behind a look at their counters', 513, ['count', 'count']],
  ])('asks by %s for %i keys of a request', async (_, count, sections) => {
    const { store, reads } = await storeIn((command) => (command === 'ping' ? '+PONG\r\n' : '-ERR\r\n'));
    const ops = Array.from({ length: count }, (__, i) => counterOp({ key: `k${i}`, limit: 9 }));
    await submit(store, ops, { stopWhenOver: true });
    const calls = reads.flat().filter((command) => command.startsWith('evalsha'));
    expect(calls.map((call) => (call.endsWith(' stop') ? 'stop' : 'count'))).toEqual(sections);
  });

  it('sends nothing for callers that gave up while they waited for a place', async () => {
    const callers = [{ abandoned: false }, { abandoned: false }];
    const { store, commands } = await storeIn(
      (command) => {
        for (const caller of callers) caller.abandoned = command !== 'ping';
        return command === 'ping' ? '+PONG\r\n' : '*1\r\n:0\r\n';
      },
      { calls: { places: 1, whenEmpty: 'WAIT', waitMs: 0 } },
    );
    const ops = ['a', 'b', 'c'].map((key, i) => counterOp({ key, caller: callers[i - 1] }));
    const asked = [submit(store, [ops[0]!])];
    for (const op of ops.slice(1)) {
      await new Promise((resolve) => setTimeout(resolve, 6));
      asked.push(submit(store, [op]));
    }
    await Promise.all(asked);
    expect(ops.map(({ after, error }) => [after, error])).toEqual([
      [1, undefined],
      [0, callAbandoned],
      [0, callAbandoned],
    ]);
    expect(await submit(store, [counterOp({ key: 'd' })])).toMatchObject([{ after: 1 }]);
    expect(commands().filter((name) => name === 'evalsha')).toHaveLength(2);
  });

  it('sends nothing more by a connection that is given up, whatever waits for a place', async () => {
    const { store, commands } = await storeIn((command) => (command === 'ping' ? '+PONG\r\n' : undefined), {
      timeoutMs: 1200,
      calls: { places: 1, whenEmpty: 'WAIT', waitMs: 0 },
    });
    const unanswered = submit(store, [counterOp({ key: 'unanswered' })]);
    await new Promise((resolve) => setTimeout(resolve, 600));
    const ops = [...(await submit(store, [counterOp({ key: 'waiting' })])), ...(await unanswered)];
    expect(ops.map(({ error }) => [error?.message, error?.notCounted])).toEqual([
      ['Redis is not connected', true],
      ['Redis did not answer within 1200 ms', false],
    ]);
    expect(commands().filter((name) => name === 'evalsha')).toHaveLength(1);
  });
});
