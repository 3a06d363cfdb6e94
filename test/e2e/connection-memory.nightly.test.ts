/** What attackers can make a limiter hold: with 100 attackers, three of these attacks once took it to between 555 and 690 MiB. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { clientPreface, Flag, FrameType, Setting } from '../../limiter/http2/constants.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { httpAsk } from '../support/http-ask.ts';
import { data, frame, settings, settingsAck } from '../support/http2-frame-script.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';
import { startRedis } from '../support/redis-server.ts';
import { headersFrame } from '../support/socket-peer.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const mebibyte = 1024 * 1024;
/** The machine may have other things to do. */
const patience = { timeoutMs: 25_000 };

/** A quarter of what the limiter of the chart has to hold, for a quarter of the processor time. */
const attackers = 25;
const bufferedBytes = 16 * mebibyte;
const maxResidentBytes = 250 * mebibyte;

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function start(env: Record<string, string> = {}): Promise<LimiterProcess> {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'config'));
  writeFileSync(
    join(folder, 'config/basic.yaml'),
    'domain: basic\ndescriptors:\n  - key: k\n    rate_limit: { unit: hour, requests_per_unit: 1000000 }\n',
  );
  const limiter = await startLimiter({
    env: { BACKEND_TYPE: 'memory', RUNTIME_ROOT: folder, DISABLE_STATS: 'true', LOG_LEVEL: 'warn', ...env },
  });
  cleanups.push(() => limiter.stop());
  return limiter;
}

/** The most that it ever had. */
function maxResident(pid: number): number {
  const [, kibibytes] = /^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kibibytes) * 1024;
}

async function statistic(limiter: LimiterProcess, name: string): Promise<number> {
  const { body } = await httpAsk(limiter.ports.debug, '/stats');
  return Number(
    body
      .split('\n')
      .find((line) => line.startsWith(`${name}: `))
      ?.split(': ')[1],
  );
}

/** A socket that takes whatever comes. */
function attacker(port: number): Socket {
  const socket = connect({ port, host: '127.0.0.1' });
  cleanups.push(() => socket.destroy());
  socket.on('error', () => {});
  return socket.resume();
}

const ask: [string, string][] = [
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'],
  [':authority', 'a'],
  ['te', 'trailers'],
  ['content-type', 'application/grpc'],
];
/** Domain `basic`, one descriptor `k=v`. */
const question = Buffer.concat([
  Buffer.from([0, 0, 0, 0, 17]),
  Buffer.from([0x0a, 5, ...Buffer.from('basic'), 0x12, 8, 0x0a, 6, 0x0a, 1, 0x6b, 0x12, 1, 0x76]),
]);

const attacks: Record<string, (limiter: LimiterProcess, connection: number) => void> = {
  'streams that begin a message and do not go on': ({ ports }) => {
    const pieces = [clientPreface, settings(), settingsAck];
    for (let id = 1; id < 2_000; id += 2) {
      pieces.push(headersFrame(id, ask), data(id, Buffer.from([0, 0, 2, 0, 0, 10])));
    }
    attacker(ports.grpc).write(Buffer.concat(pieces));
  },
  'answers for which no window is opened': ({ ports }) => {
    const pieces = [clientPreface, settings([Setting.INITIAL_WINDOW_SIZE, 0]), settingsAck];
    for (let id = 1; id < 2_000; id += 2) {
      pieces.push(headersFrame(id, ask), data(id, question, Flag.END_STREAM));
    }
    attacker(ports.grpc).write(Buffer.concat(pieces));
  },
  'bodies of /json that do not end': ({ ports }) => {
    for (let more = 0; more < 4; more += 1) {
      const socket = attacker(ports.http);
      socket.write('POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 4194304\r\n\r\n');
      socket.write(Buffer.alloc(250_000, ' '));
    }
  },
  'frames that do not end': ({ ports }) => {
    const begun = frame(FrameType.HEADERS, Flag.END_HEADERS, 1, Buffer.alloc(16_384)).subarray(0, 16_000);
    for (let more = 0; more < 50; more += 1) {
      attacker(ports.grpc).write(Buffer.concat([clientPreface, settings(), settingsAck, begun]));
    }
  },
};

describe(`what ${attackers} attackers hold`, () => {
  for (const [name, attack] of Object.entries(attacks)) {
    it(`is bounded, and no other caller notices: ${name}`, async () => {
      const limiter = await start({ CONNECTIONS_MAX_BYTES: String(bufferedBytes) });
      const client = new LimiterClient(limiter.ports.grpc);
      cleanups.push(() => client.close());
      let answers = 0;
      let isOver = false;
      const asking = (async () => {
        while (!isOver) {
          expect(await client.allowed('basic', 'k', 'good')).toBe(true);
          expect((await httpAsk(limiter.ports.http, '/healthcheck')).status).toBe(200);
          answers += 1;
        }
      })();
      for (let connection = 0; connection < attackers; connection += 1) attack(limiter, connection);
      const counter = name.includes('/json') ? 'ratelimit.http' : 'ratelimit_server.http2';
      await eventually(async () => {
        expect(await statistic(limiter, `${counter}.too_many_bytes`)).toBeGreaterThan(10);
      }, patience);
      // What else they sent is on its way for a moment.
      const before = answers;
      await eventually(() => expect(answers).toBeGreaterThan(before + 5), patience);
      isOver = true;
      await asking;
      console.log(name, maxResident(limiter.pid) / mebibyte);
      expect(maxResident(limiter.pid)).toBeLessThan(maxResidentBytes);
      expect(await statistic(limiter, 'ratelimit.connections.held_bytes')).toBeLessThanOrEqual(bufferedBytes);
      expect(limiter.program.output).toContain('counter=too_many_bytes');
    });
  }
});

describeWithServer('redis-server', redisProgram, (path) => {
  it('is bounded for all worker threads together', async () => {
    const redis = await startRedis({ path });
    cleanups.push(() => redis.stop());
    const limiter = await start({
      BACKEND_TYPE: 'redis',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${redis.port}`,
      LIMITER_WORKERS: '2',
      CONNECTIONS_MAX_BYTES: String(16 * mebibyte),
    });
    for (let connection = 0; connection < 40; connection += 1) {
      attacks['streams that begin a message and do not go on']?.(limiter, connection);
    }
    await eventually(async () => {
      expect(await statistic(limiter, 'ratelimit_server.http2.too_many_bytes')).toBeGreaterThan(1_000);
    }, patience);
    await eventually(async () => {
      const bufferedBytes = await statistic(limiter, 'ratelimit.connections.held_bytes');
      expect(bufferedBytes).toBeLessThanOrEqual(16 * mebibyte);
      expect(bufferedBytes).toBeGreaterThan(8 * mebibyte);
    }, patience);
  });
});
