/**
 * `npm run bench:budgets`: measures the cost of a reservation and its commit for a limiter with Redis, compared with a plain decision. It
 * sends whole requests over gRPC as `npm run bench` does, in the same run. docs/performance.md describes the measurement.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create, toBinary } from '@bufbuild/protobuf';

import { RateLimitRequestSchema } from '../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import {
  CommitRequestSchema,
  ReserveRequestSchema,
  ReserveResponseSchema,
} from '../gen/kuadrant/service/ratelimit/v1/ratelimit_pb.ts';
import { shouldRateLimitPath } from '../limiter/service/should-rate-limit.ts';
import { defineFlags, scriptFlags } from '../test/support/script-flags.ts';
import { median } from './bench-figures.ts';
import { startRedisIfFound } from './bench-redis.ts';
import { keepOffServerCore, startWeir } from './bench-targets.ts';
import { type CallTemplate, type ClientCalls, envoyCalls } from './http2-frames.ts';
import { runLoad, type Talk } from './http2-load.ts';
import { processCpuUs } from './process-cpu.ts';
import { seededRandom, zipfSequence } from './zipf.ts';

const flags = scriptFlags(
  defineFlags({
    help: `Usage: npm run bench:budgets -- [flags]

  --seconds <n>  how long each load lasts, 0.1 to 3600 (default 2)
  --rounds <n>   each figure is the median of this number of rounds, 1 to 1000 (default 5)
  --check        fails if a pair takes more than 2.5 times the limiter's CPU for a plain decision

docs/performance.md describes what is measured.
`,
    rows: {
      seconds: { type: 'number', min: 0.1, max: 3600, default: 2 },
      rounds: { type: 'number', min: 1, max: 1000, whole: true, default: 5 },
      check: { type: 'boolean' },
    },
  }),
);
const maxTimes = 2.5;
const warmUpMs = 300;
const maxAttempts = 5;
/** Calls at the start, so that V8 has optimized the limiter's code. */
const longWarmUpCalls = 15_000;
const keyCount = 10_000;
const estimate = 1_000;
const actual = 800;
const domain = 'bench';
const rulesText = `domain: ${domain}
descriptors:
  - key: remote_address
    rate_limit: { unit: hour, requests_per_unit: 4000000000 }
  - key: team
    reserve: { ttl: 60s }
    rate_limit: { unit: hour, requests_per_unit: 9007199254740991 }
`;
const loads = {
  '8 connections x 50 streams': { connections: 8, streams: 50, oneWriteACall: true },
  '4 connections x 1 stream': { connections: 4, streams: 1, oneWriteACall: true },
} as const;

const durationMs = flags.seconds * 1000;
const sequence = zipfSequence({ count: keyCount, length: 1 << 16, random: seededRandom(20_240_601) });
const values = Array.from({ length: keyCount }, (_, i) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`);

interface Row {
  title: string;
  /** The number of calls for one unit of the row. */
  calls: 1 | 2;
  client: ClientCalls;
  newTalk: () => Talk;
}

/** One call for each key. Each contains a placeholder, which is replaced by an ID of the same length. */
interface WithId extends ClientCalls {
  idOffsets: readonly number[];
}

/** A placeholder that is as long as the value of `%STREAM_ID%`. */
const noId = '00000000-0000-4000-8000-000000000000';
/** A placeholder that is as long as the IDs that a limiter creates. */
const noOwnId = `w1.${'0'.repeat(8)}.${'0'.repeat(32)}`;

function withId(calls: ClientCalls, id: string): WithId {
  return { ...calls, idOffsets: calls.calls.map(({ bytes }) => bytes.indexOf(id, 0, 'latin1')) };
}

/** Returns the call of a key with this ID. The bytes are shared until the call is sent, which copies them. */
function callOf({ calls, idOffsets }: WithId, key: number, id: string | Buffer): CallTemplate {
  const call = calls[key] as CallTemplate;
  const offset = idOffsets[key] as number;
  if (typeof id === 'string') call.bytes.write(id, offset, 'latin1');
  else id.copy(call.bytes, offset);
  return call;
}

/** Uses a long timeout, because a call that times out on a busy machine is not counted and has other costs. */
function callsOf(path: string, messages: readonly Uint8Array[]): ClientCalls {
  return envoyCalls(path, messages, [], '2S');
}

/** Returns a `ShouldRateLimit` call for each value. `entries` follow the entry with the value. */
function asking(key: string, entries: readonly (readonly [string, string])[] = [], hitsAddend?: bigint) {
  const messages = values.map((value) => {
    const all = [[key, value] as const, ...entries].map(([name, text]) => ({ key: name, value: text }));
    const descriptors = [{ entries: all, ...(hitsAddend !== undefined && { hitsAddend }) }];
    return toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, { domain, descriptors }));
  });
  return callsOf(shouldRateLimitPath, messages);
}

let next = 0;
let made = 0;
/** The number of answers that rejected a request, a reservation or a commit. */
let rejected = 0;

function nextKey(): number {
  next = (next + 1) & 0xffff;
  return sequence[next] as number;
}

/** Checks the first two bytes. The first field of every answer is a code, which is 1 for OK, or whether an amount is held. */
function expectOk(answer: Buffer | undefined): void {
  if (answer !== undefined && (answer[0] !== 0x08 || answer[1] !== 1)) rejected += 1;
}

function plain(): Row {
  const client = asking('remote_address');
  const talk: Talk = (answer) => {
    expectOk(answer);
    return client.calls[nextKey()] as CallTemplate;
  };
  return { title: 'plain decision', calls: 1, client, newTalk: () => talk };
}

function markers(): Row {
  const reserves = withId(asking('team', [['reservation_id', noId]], BigInt(estimate)), noId);
  const settles = withId(
    asking(
      'team',
      [
        ['reservation_id', noId],
        ['settle', 'true'],
      ],
      BigInt(actual),
    ),
    noId,
  );
  const newTalk = (): Talk => {
    let key = 0;
    let open: string | undefined;
    return (answer) => {
      expectOk(answer);
      const id = open;
      open = undefined;
      if (id !== undefined && answer !== undefined) return callOf(settles, key, id);
      key = nextKey();
      made += 1;
      open = `${made.toString(16).padStart(8, '0')}${noId.slice(8)}`;
      return callOf(reserves, key, open);
    };
  };
  return { title: 'reserve and settle, markers', calls: 2, client: reserves, newTalk };
}

function kuadrant(): Row {
  const path = '/kuadrant.service.ratelimit.v1.RateLimitService/';
  const ofKey = (value: string) => ({ domain, descriptors: [{ entries: [{ key: 'team', value }] }] });
  const reserves = callsOf(
    `${path}Reserve`,
    values.map((value) => {
      const request = { ...ofKey(value), amount: BigInt(estimate), ttl: { seconds: 60n } };
      return toBinary(ReserveRequestSchema, create(ReserveRequestSchema, request));
    }),
  );
  const commits = callsOf(
    `${path}Commit`,
    values.map((value) => {
      const request = { ...ofKey(value), reservationId: noOwnId, actualAmount: BigInt(actual) };
      return toBinary(CommitRequestSchema, create(CommitRequestSchema, request));
    }),
  );
  const sized = withId(commits, noOwnId);
  // A code, a tag and a length precede the ID.
  const idAt =
    toBinary(ReserveResponseSchema, create(ReserveResponseSchema, { code: 1, reservationId: noOwnId }))
      .length - noOwnId.length;
  const newTalk = (): Talk => {
    let key = 0;
    let reserving = false;
    return (answer) => {
      expectOk(answer);
      if (reserving && answer?.length === idAt + noOwnId.length) {
        reserving = false;
        return callOf(sized, key, answer.subarray(idAt));
      }
      reserving = true;
      key = nextKey();
      return reserves.calls[key] as CallTemplate;
    };
  };
  return { title: 'Reserve and Commit, gRPC', calls: 2, client: reserves, newTalk };
}

/** CPU time of one unit, in µs. */
interface Cost {
  limiter: number;
  redis: number;
}

function medianOf(costs: readonly Cost[], of: keyof Cost): number {
  return median(costs.map((cost) => cost[of]));
}

const cores = keepOffServerCore();
const redis = await startRedisIfFound(cores?.others);
if (redis === undefined) throw new Error('redis-server was not found');
const folder = mkdtempSync(join(tmpdir(), 'weir-bench-budgets-'));
const rules = join(folder, 'rules');
mkdirSync(rules);
writeFileSync(join(rules, 'bench.yaml'), rulesText);
const stops: (() => Promise<unknown>)[] = [() => redis.stop()];

async function warmUp(port: number, row: Row): Promise<void> {
  const all = { port, ...row.client, newTalk: row.newTalk, sequence, ...loads['8 connections x 50 streams'] };
  for (let calls = 0; calls < longWarmUpCalls; )
    calls += (await runLoad({ ...all, durationMs: 1_000 })).answered;
}

/** Measures a row. It repeats the measurement if calls failed because the machine was busy, because failed calls have other costs. */
async function measure(
  pid: number,
  port: number,
  row: Row,
  load: (typeof loads)[keyof typeof loads],
): Promise<Cost> {
  const all = { port, ...row.client, newTalk: row.newTalk, sequence, ...load };
  const cpuUs = () => ({ limiter: processCpuUs(pid), redis: processCpuUs(redis!.pid!) });
  for (let attempt = 1; ; attempt += 1) {
    await runLoad({ ...all, durationMs: warmUpMs });
    const before = cpuUs();
    rejected = 0;
    const { answered, failed } = await runLoad({ ...all, durationMs });
    const after = cpuUs();
    if (answered > 0 && failed + rejected <= answered / 100) {
      const of = (name: keyof Cost): number => ((after[name] - before[name]) / answered) * row.calls;
      return { limiter: of('limiter'), redis: of('redis') };
    }
    if (attempt === maxAttempts)
      throw new Error(
        `${row.title}: of ${answered} answers, ${rejected} were rejected, and ${failed} calls failed`,
      );
  }
}

try {
  const limiter = await startWeir({ rules, redisPort: redis.port, cores });
  stops.unshift(() => limiter.stop());
  const rows = [plain(), markers(), kuadrant()];
  for (const row of rows) await warmUp(limiter.port, row);
  console.log(
    `Node ${process.version}, ${keyCount} keys; medians of ${flags.rounds} rounds of ${flags.seconds} s, in turns`,
  );
  console.log('| load | what | CPU µs of the limiter | to a plain one | CPU µs of Redis | to a plain one |');
  console.log('|---|---|---|---|---|---|');
  for (const [name, load] of Object.entries(loads)) {
    const rounds: Cost[][] = rows.map(() => []);
    for (let round = 0; round < flags.rounds; round += 1) {
      for (const [i, row] of rows.entries()) {
        rounds[i]!.push(await measure(limiter.pid, limiter.port, row, load));
      }
    }
    const first = rounds[0]!;
    for (const [i, { title, calls }] of rows.entries()) {
      const costs = rounds[i]!;
      // Ratios within a round, because the load of the machine affects all rows of a round.
      const timesOf = (of: keyof Cost): number =>
        median(costs.map((cost, round) => cost[of] / first[round]![of]));
      const figures = (['limiter', 'redis'] as const).map(
        (of) => `${medianOf(costs, of).toFixed(1)} | ${timesOf(of).toFixed(2)}`,
      );
      console.log(`| ${name} | ${title} | ${figures.join(' | ')} |`);
      if (flags.check && calls === 2 && timesOf('limiter') > maxTimes) {
        console.error(
          `bench:budgets: ${title}, ${name}: more than ${maxTimes} times the limiter's CPU for a plain decision`,
        );
        process.exitCode = 1;
      }
    }
  }
} finally {
  for (const stop of stops) await stop();
  rmSync(folder, { recursive: true, force: true });
}
