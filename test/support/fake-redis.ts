/** A server that speaks Redis's protocol and answers as a test says: a Redis that is broken, or is none. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { type Reply, RespReader } from '../../limiter/stores/redis/wire/resp.ts';

/** The bytes that answer a command, its words in lower and upper case as they came. */
export type FakeAnswer = (words: readonly string[]) => string;

export interface FakeRedis {
  readonly port: number;
  /** How often each command came, by its name in upper case. */
  readonly calls: ReadonlyMap<string, number>;
  close(): Promise<void>;
}

const ofMaster = { pong: '+PONG\r\n', role: '*1\r\n$6\r\nmaster\r\n' };

/** By default, PING and ROLE are answered as a master answers them, so that connections open. */
export async function startFakeRedis(
  answer: FakeAnswer,
  { pong = ofMaster.pong, role = ofMaster.role } = {},
): Promise<FakeRedis> {
  const sockets = new Set<Socket>();
  const calls = new Map<string, number>();
  const answerTo = (words: readonly string[]): string => {
    const name = words[0]!.toUpperCase();
    calls.set(name, (calls.get(name) ?? 0) + 1);
    if (name === 'PING') return pong;
    return name === 'ROLE' ? role : answer(words);
  };
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    const reader = new RespReader((command) => {
      socket.write(answerTo((command as Reply[]).map(String)));
    });
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (bytes: Buffer) => void reader.push(bytes, bytes.length));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    port,
    calls,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** A value in RESP2: numbers as integers, texts as bulks, null for what is not there. */
export function resp(value: number | string | null | readonly (number | string | null)[]): string {
  if (typeof value === 'number') return `:${value}\r\n`;
  if (typeof value === 'string') return `$${Buffer.byteLength(value)}\r\n${value}\r\n`;
  if (value === null) return '$-1\r\n';
  return `*${value.length}\r\n${value.map((one) => resp(one)).join('')}`;
}
