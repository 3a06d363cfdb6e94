/**
 * `npm run bench:listing`: measures how decisions at 5,000 calls per second are affected while another client lists a million counters,
 * page after page. Both alternate in one run. If the system has two cores, the limiter has its own core. Redis, the load and the lister
 * share the other one, so part of the effect is theirs.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { create, toBinary } from '@bufbuild/protobuf';
import { RateLimitRequestSchema } from '../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { shouldRateLimitPath } from '../limiter/service/should-rate-limit.ts';
import { RedisLink } from '../limiter/stores/redis/wire/redis-link.ts';
import { ChildProgram } from '../test/support/child-program.ts';
import { defineFlags, scriptFlags } from '../test/support/script-flags.ts';
import { median } from './bench-figures.ts';
import { startRedisIfFound } from './bench-redis.ts';
import { keepOffServerCore, startWeir } from './bench-targets.ts';
import { envoyCalls } from './http2-frames.ts';
import { runLoad } from './http2-load.ts';
import { processCpuUs } from './process-cpu.ts';
import { seededRandom, zipfSequence } from './zipf.ts';

const flags = scriptFlags(
  defineFlags({
    help: `Usage: npm run bench:listing -- [flags]

Measures decisions at 5,000 a second while a million counters are listed.

  --seconds <n>          how long each turn lasts, 0.1 to 3600 (default 5)
  --runs <n>             each figure is the median of this number of runs, 1 to 1000 (default 5)
  --keys <n>             the number of counters, from 1 on (default 1000000)
  --query <text>         parameters of the list, such as the size of a page (default limit=100)
  --counter-keys <text>  COUNTER_KEYS of the limiter (default compatible)
  --list <url>           only lists the counters of this limiter, again and again
`,
    rows: {
      seconds: { type: 'number', min: 0.1, max: 3600, default: 5 },
      runs: { type: 'number', min: 1, max: 1000, whole: true, default: 5 },
      keys: { type: 'number', min: 1, max: 100_000_000, whole: true, default: 1_000_000 },
      query: { type: 'string', default: 'limit=100' },
      'counter-keys': { type: 'string', default: 'compatible' },
      list: { type: 'string' },
    },
  }),
);

if (flags.list !== undefined) await listOverAndOver(flags.list);
else await measure();

/** Prints the number of pages and counters that it has received so far, ten times per second. */
async function listOverAndOver(url: string): Promise<void> {
  let [pages, counters, cursor] = [0, 0, ''];
  setInterval(() => process.stdout.write(`got ${pages} ${counters}\n`), 100);
  for (;;) {
    const response = await fetch(`${url}&cursor=${cursor}`);
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
    const page = (await response.json()) as { counters: unknown[]; cursor: string | null };
    pages += 1;
    counters += page.counters.length;
    cursor = page.cursor ?? '';
  }
}

async function measure(): Promise<void> {
  const durationMs = flags.seconds * 1000;
  const cores = keepOffServerCore();
  const redis = await startRedisIfFound(cores?.others);
  if (redis === undefined) throw new Error('there is no redis-server');
  const folder = mkdtempSync(join(tmpdir(), 'weir-listing-'));
  const rules = join(folder, 'rules', 'config');
  mkdirSync(rules, { recursive: true });
  const rule = (key: string) =>
    `  - { key: ${key}, rate_limit: { unit: year, requests_per_unit: 1000000 } }\n`;
  writeFileSync(
    join(rules, 'bench.yaml'),
    `domain: bench\ndescriptors:\n${rule('remote_address')}${rule('user_id')}`,
  );
  await fill(redis.port, flags.keys);
  const limiter = await startWeir({
    rules: join(folder, 'rules'),
    redisPort: redis.port,
    cores,
    env: { COUNTER_KEYS: flags['counter-keys'] },
  });
  const messages = Array.from({ length: 10_000 }, (_, i) => {
    const descriptors = [{ entries: [{ key: 'remote_address', value: `10.0.${i >> 8}.${i & 255}` }] }];
    return toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, { domain: 'bench', descriptors }));
  });
  const load = {
    port: limiter.port,
    ...envoyCalls(shouldRateLimitPath, messages),
    sequence: zipfSequence({ count: messages.length, length: 1 << 16, random: seededRandom(1) }),
    connections: 8,
    streams: 200,
    perSecond: 5_000,
    oneWriteACall: true,
  };
  const url = `http://127.0.0.1:${limiter.debugPort}/v1/counters?domain=bench&${flags.query}`;
  const turn = async () => {
    const cpuBeforeUs = processCpuUs(limiter.pid);
    const { latency, failed, answered } = await runLoad({ ...load, durationMs });
    const [p50, p99] = [latency.quantileMs(0.5), latency.quantileMs(0.99)];
    return { p50, p99, failed, cpuUs: (processCpuUs(limiter.pid) - cpuBeforeUs) / answered };
  };
  try {
    await turn();
    const figures: Record<'alone' | 'listed', Awaited<ReturnType<typeof turn>>[]> = { alone: [], listed: [] };
    for (let run = 0; run < flags.runs; run += 1) {
      figures.alone.push(await turn());
      // The lister represents a client on another machine, so it must not take CPU time from the load or Redis.
      const args = ['-n', '19', process.execPath, fileURLToPath(import.meta.url), '--list', url];
      const lister = new ChildProgram({ command: 'nice', args });
      await lister.printed(/got [1-9]/);
      figures.listed.push(await turn());
      const [, pages, counters] = /.*got (\d+) (\d+)/s.exec(lister.output) ?? [];
      await lister.stop();
      const [alone, listed] = [figures.alone.at(-1)!, figures.listed.at(-1)!];
      console.log(
        `p99 ${ms(alone.p99)} alone, ${ms(listed.p99)} while ${pages} pages with ${counters} counters are listed ` +
          `(p50 ${ms(alone.p50)}, ${ms(listed.p50)}; CPU ${alone.cpuUs.toFixed(0)}, ${listed.cpuUs.toFixed(0)} µs a decision; failed ${alone.failed}, ${listed.failed})`,
      );
    }
    const moved = median(figures.listed.map(({ p99 }, run) => p99 - figures.alone[run]!.p99));
    const quietest = (turns: { p99: number }[]) => ms(Math.min(...turns.map(({ p99 }) => p99)));
    console.log(
      `p99 moves by ${ms(moved)} (median of ${flags.runs}); of the quietest turns ${quietest(figures.alone)} and ${quietest(figures.listed)}`,
    );
  } finally {
    await limiter.stop();
    await redis.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Creates counters of this year, in the requested form. */
async function fill(port: number, keys: number): Promise<void> {
  const year = 31_536_000;
  const start = Math.floor(Date.now() / 1000 / year) * year;
  const isCompatible = flags['counter-keys'] === 'compatible';
  const [begin, end] = isCompatible
    ? ['bench_user_id_u', `_${start}`]
    : ['1{bench;user_id=u', `}${year}:${start}`];
  const script =
    "for i = ARGV[1], ARGV[2] do redis.call('SET', ARGV[3] .. string.format('%d', i) .. ARGV[4], i % 1000) end";
  const link = new RedisLink({ endpoint: { host: '127.0.0.1', port }, tls: undefined, timeoutMs: 60_000 });
  await link.login({ username: undefined, password: undefined }, () => {});
  for (let i = 0; i < keys; i += 10_000) {
    await link.ask('eval', [script, '0', String(i), String(Math.min(keys, i + 10_000) - 1), begin, end]);
  }
  link.close();
}

function ms(value: number): string {
  return `${value.toFixed(2)} ms`;
}
