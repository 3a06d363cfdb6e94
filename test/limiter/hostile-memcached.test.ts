/** What a limiter does when its memcached is hostile, and when clients send keys that would be commands. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { LoadedDeadline } from '../support/machine-load.ts';

const folder = mkdtempSync(join(tmpdir(), 'weir-hostile-memcached-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
mkdirSync(join(folder, 'config'));
writeFileSync(
  join(folder, 'config/w.yaml'),
  'domain: w\ndescriptors:\n  - key: two\n    rate_limit: { unit: day, requests_per_unit: 2 }\n',
);

type Answer = (socket: Socket, line: string) => void;

/** Answers the probe as memcached does, and every other line as it likes. */
async function startNode(answer: Answer): Promise<{ port: number; lines: string[] }> {
  const lines: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (chunk) => {
      for (const line of String(chunk).split('\r\n').filter(Boolean)) {
        lines.push(line);
        if (line === 'version') socket.write('VERSION 1\r\n');
        else answer(socket, line);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, lines };
}

/** Writes as fast as the other end reads, until it closes the connection. */
function pour(socket: Socket, text: () => string): void {
  const more = (): void => {
    if (socket.destroyed) return;
    if (socket.write(text())) setImmediate(more);
    else socket.once('drain', more);
  };
  more();
}

async function startLimiter(port: number, env: Record<string, string> = {}): Promise<InProcessLimiter> {
  const limiter = await InProcessLimiter.start({
    env: {
      RUNTIME_ROOT: folder,
      BACKEND_TYPE: 'memcache',
      MEMCACHE_HOST_PORT: `127.0.0.1:${port}`,
      ...env,
    },
  });
  onTestFinished(async () => void (await limiter.stop()));
  return limiter;
}

const block = 'x'.repeat(65_536);
let count = 0;
const manyValues = (key: () => string): string =>
  Array.from({ length: 2_000 }, () => `VALUE ${key()} 0 1\r\n1\r\n`).join('');
const keyOf = (line: string): string => line.split(' ')[1] ?? '';

/** The connection is given up at once, or the command's time is up. */
const lost = 'connection to memcached was lost before it answered';
const late = 'memcached did not answer within';

const hostile: [what: string, error: string, answer: Answer][] = [
  ['lines without an end', lost, (socket) => pour(socket, () => block)],
  [
    'a value of 9,999,999,999 bytes',
    late,
    (socket, line) => {
      socket.write(`VALUE ${keyOf(line)} 0 9999999999\r\n`);
      pour(socket, () => block);
    },
  ],
  [
    'values of keys that were not asked for',
    lost,
    (socket) =>
      pour(socket, () =>
        manyValues(() => {
          count += 1;
          return `other${count}`;
        }),
      ),
  ],
  [
    'the value of the key again and again',
    lost,
    (socket, line) => pour(socket, () => manyValues(() => keyOf(line))),
  ],
  ['nothing at all', late, () => {}],
  ['bytes that are no protocol', lost, (socket) => socket.write(Buffer.from([0, 255, 13, 10, 0, 13, 10]))],
];

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function liveBytes(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

describe('a limiter whose memcached sends', () => {
  it.each(hostile)('%s follows STORE_FAILURE_MODE in time', async (_, error, answer) => {
    const node = await startNode(answer);
    const limiter = await startLimiter(node.port, { STORE_FAILURE_MODE: 'deny' });
    const before = liveBytes();
    const deadline = new LoadedDeadline(3_000);
    const asked = Promise.all(
      ['a', 'b', 'c'].map(async (two) => (await limiter.ask('w', [{ two }])).body?.overallCode),
    );
    await sleep(100);
    // What the socket has read and nobody holds any more is freed by the second or third collection.
    let held = Number.POSITIVE_INFINITY;
    for (let look = 0; look < 5; look++) {
      held = Math.min(held, liveBytes() - before);
      await sleep(10);
    }
    expect(held).toBeLessThan(32 * 1024 * 1024);
    expect(await asked).toEqual(['OVER_LIMIT', 'OVER_LIMIT', 'OVER_LIMIT']);
    deadline.assertInTime();
    expect(limiter.lines.join('\n')).toContain(error);
    expect(limiter.lines.join('\n').length).toBeLessThan(20_000);
  });
});

describe('a memcached behind clients that send commands', () => {
  it('gets nothing but get, incr and add of one legal key', async () => {
    const node = await startNode((socket, line) => {
      if (line.startsWith('get ')) socket.write('END\r\n');
      else if (line.startsWith('incr ')) socket.write('NOT_FOUND\r\n');
      else if (line.startsWith('add ')) socket.write('STORED\r\n');
    });
    const limiter = await startLimiter(node.port);
    const values = [
      'a b',
      'a\r\nflush_all\r\n',
      'a\nflush_all\n',
      'a 0\r\nset w_two_x 0 0 1\r\n9',
      '\u0000\u0001\u007f',
      'x'.repeat(251),
      'ä'.repeat(200),
      '\u2028flush_all',
    ];
    for (const two of values) expect((await limiter.ask('w', [{ two }])).body?.overallCode).toBe('OK');
    await limiter.stop();
    const commands = node.lines.filter((line) => line !== 'version' && !/^\d+$/.test(line));
    expect(commands.length).toBeGreaterThanOrEqual(values.length);
    for (const line of commands) {
      expect(line).toMatch(/^(?:get|incr|add) [^ \p{Cc}]+(?: \d+)*$/u);
      expect(Buffer.byteLength(line.split(' ')[1] ?? '')).toBeLessThanOrEqual(250);
    }
  });
});
