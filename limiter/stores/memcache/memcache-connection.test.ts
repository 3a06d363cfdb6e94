import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../../test/support/eventually.ts';
import { changeCommand, GetCommand } from './command.ts';
import { MemcacheConnection } from './memcache-connection.ts';

/** A connection to a node that answers each command but VERSION with `answer`. */
async function connected({
  answer = (_command: string): string => '',
  version = (_connection: number): string => 'VERSION 1\r\n',
  timeoutMs = 5_000,
}) {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    const { length } = sockets;
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      const text = String(bytes);
      socket.write(text.startsWith('version') ? version(length) : answer(text));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const changes: [up: boolean, reason: string][] = [];
  const connection = new MemcacheConnection({
    address: { endpoint: { host: '127.0.0.1', port }, label: 'node' },
    timeoutMs,
    random: () => 0,
    onChange: (...change) => changes.push(change),
  });
  onTestFinished(() => {
    connection.close();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const increase = (key = 'a') =>
    new Promise<string>((resolve) =>
      connection.send(
        changeCommand('incr', key, 1, (reply) => resolve(typeof reply === 'string' ? reply : reply.message)),
      ),
    );
  /** Returns the values that were found, or the error. */
  const get = (...keys: string[]) =>
    new Promise<string>((resolve) => {
      const found: string[] = [];
      const done = (error: Error | undefined) => resolve(error?.message ?? found.join(' '));
      connection.send(new GetCommand(keys, (key, value) => found.push(`${key}=${value}`), done));
    });
  return { connection, sockets, changes, increase, get };
}

const lost = 'connection to memcached was lost before it answered';

describe('MemcacheConnection', () => {
  it.each([
    ['nothing to its first and second connection', 'memcached did not answer within 30 ms', ''],
    ['an error', 'memcached answered: SERVER_ERROR busy', 'SERVER_ERROR busy\r\n'],
    ['what is no version', 'unexpected answer: HTTP/1.1 400', 'HTTP/1.1 400\r\n'],
  ])('reports a node down that says %s, and up when it answers', async (_, reason, version) => {
    const { connection, changes, increase } = await connected({
      version: (count) => (count < 2 ? version : 'VERSION 1\r\n'),
      answer: () => '1\r\n',
      timeoutMs: version === '' ? 30 : 5_000,
    });
    expect(await increase()).toBe('memcached is not connected');
    expect(await increase()).toBe('memcached is not connected');
    await eventually(() => expect(connection.ready).toBe(true));
    expect(changes).toEqual([
      [false, reason],
      [true, ''],
    ]);
    expect([await increase(), connection.idle]).toEqual(['1', true]);
  });

  it.each([
    ['a value', 'VALUE a 0 1\r\n1\r\n5\r\n'],
    ['another line', 'STORED\r\n'],
    ['a line that is no command of its reply', 'END\r\n'],
    ['no line', '5\n'],
  ])('takes %s for no answer to an increment, and connects again', async (_, answer) => {
    const { sockets, changes, increase } = await connected({ answer: () => answer });
    expect(await increase()).toBe(lost);
    await eventually(() => expect(sockets).toHaveLength(2));
    expect(changes).toEqual([]);
  });

  it.each([
    ['one in its order', 'VALUE a 0 1\r\n1\r\nVALUE b 0 1\r\n2\r\nEND\r\n', 'a=1 b=2'],
    ['one in another order', 'VALUE b 0 1\r\n2\r\nVALUE a 0 1\r\n1\r\nEND\r\n', 'b=2 a=1'],
    ['none', 'END\r\n', ''],
    ['an error', 'SERVER_ERROR out of memory\r\n', 'memcached answered: SERVER_ERROR out of memory'],
    ['the fault of a client', 'CLIENT_ERROR bad\r\n', 'memcached answered: CLIENT_ERROR bad'],
    ['another key', 'VALUE c 0 1\r\n1\r\nEND\r\n', lost],
    ['more values than keys', `${'VALUE a 0 1\r\n1\r\n'.repeat(3)}END\r\n`, lost],
    ['another end', 'STORED\r\n', lost],
  ])('reads the answer to a question for two keys: %s', async (_, answer, outcome) => {
    const { get } = await connected({ answer: () => answer });
    expect(await get('a', 'b')).toBe(outcome);
  });

  it('answers in order, also what it had to send before it was connected', async () => {
    const { increase, get } = await connected({
      answer: (commands) =>
        commands
          .split('\r\n')
          .filter((command) => command !== '')
          .map((command) => (command.startsWith('get') ? 'END\r\n' : `${command.length}\r\n`))
          .join(''),
    });
    expect(await Promise.all([increase('a'), get('b'), increase('ccc')])).toEqual(['8', '', '10']);
    expect(await Promise.all([increase('a'), get('b'), increase('ccc')])).toEqual(['8', '', '10']);
  });

  it('answers with an error what it has sent or not when it is closed, and everything after that', async () => {
    const { connection, increase } = await connected({});
    const other = await connected({});
    const sent = other.increase();
    await eventually(() => expect(other.connection.ready).toBe(true));
    const unsent = increase();
    connection.close();
    other.connection.close();
    const closed = 'memcached store is closed';
    expect(await Promise.all([unsent, sent, increase()])).toEqual([closed, closed, closed]);
  });

  it('waits before it connects again to a node that fails', async () => {
    const attemptsMs: number[] = [];
    const version = () => {
      attemptsMs.push(performance.now());
      return 'HTTP/1.1 400\r\n';
    };
    const { increase } = await connected({ version });
    await increase();
    await eventually(() => expect(attemptsMs.length).toBeGreaterThan(1));
    expect(attemptsMs[1]! - attemptsMs[0]!).toBeGreaterThan(80);
  });
});
