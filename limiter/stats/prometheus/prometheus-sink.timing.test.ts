import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { afterAll, describe, expect, it } from 'vitest';
import { systemClock, systemTimers } from '../../../process/time/clock.ts';
import { machineSlowness } from '../../../test/support/machine-slowness.ts';
import { StatsRegistry } from '../registry/stats-registry.ts';
import { builtInMapping } from './mapper.ts';
import { PrometheusSink } from './prometheus-sink.ts';

const series = 50_000;
/** A client in another thread, so that its time for reading does not count as the server's. */
const clientProgram = `
const { parentPort } = require('node:worker_threads');
const { get } = require('node:http');
parentPort.on('message', ({ url, encoding }) => {
  const start = performance.now();
  get(url, { agent: false, headers: { 'Accept-Encoding': encoding } }, (response) => {
    let bytes = 0;
    response.on('data', (chunk) => { bytes += chunk.length; });
    response.on('end', () => parentPort.postMessage({ ms: performance.now() - start, bytes }));
  });
});
`;
const client = new Worker(clientProgram, { eval: true });

afterAll(() => client.terminate());

/** An endpoint that has not mapped any name yet. */
async function withEndpoint(test: (url: string) => Promise<void>): Promise<void> {
  const registry = new StatsRegistry();
  const { promise, resolve } = Promise.withResolvers<number>();
  const sink = new PrometheusSink({
    source: registry,
    mapping: builtInMapping({ responseTimeAsMilliseconds: false }),
    address: { host: '127.0.0.1', port: 0 },
    path: '/metrics',
    clock: systemClock,
    timers: systemTimers,
    listener: { listening: resolve, conflict: () => {}, fault: () => {} },
  });
  await sink.start();
  // The names resemble real ones: counters of 10,000 metric keys, five of each mapped.
  for (let key = 0; key < series / 5; key += 1) {
    const name = `ratelimit.service.rate_limit.domain.tenant_customer-${key}.path_orders`;
    for (const stat of ['total_hits', 'over_limit', 'near_limit', 'within_limit', 'shadow_mode']) {
      registry.add(registry.counter(`${name}.${stat}`), key);
    }
  }
  try {
    await test(`http://127.0.0.1:${await promise}/metrics`);
  } finally {
    await sink.close();
  }
}

/** Processor time, so that other programs on the machine do not count. */
function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

async function scrape(
  url: string,
  encoding: string,
): Promise<{ ms: number; bytes: number; longestTurnMs: number }> {
  let longestTurnMs = 0;
  let last = threadMs();
  let isOver = false;
  const measure = () => {
    const now = threadMs();
    longestTurnMs = Math.max(longestTurnMs, now - last);
    last = now;
    if (!isOver) setImmediate(measure);
  };
  measure();
  client.postMessage({ url, encoding });
  const [answer] = (await once(client, 'message')) as [{ ms: number; bytes: number }];
  isOver = true;
  return { ...answer, longestTurnMs };
}

describe('a scrape of 50,000 series', () => {
  it('maps them the first time without holding up anything for 10 ms', { retry: 5 }, () =>
    withEndpoint(async (url) => {
      expect((await scrape(url, 'identity')).longestTurnMs).toBeLessThan(10 * machineSlowness());
    }),
  );

  for (const encoding of ['identity', 'gzip']) {
    it(`takes under 250 ms and holds up nothing for 10 ms (${encoding})`, { retry: 5 }, () =>
      withEndpoint(async (url) => {
        await scrape(url, encoding);
        const { ms, bytes, longestTurnMs } = await scrape(url, encoding);
        if (encoding === 'identity') expect(bytes).toBeGreaterThan(series * 100);
        expect(ms).toBeLessThan(250 * machineSlowness());
        expect(longestTurnMs).toBeLessThan(10 * machineSlowness());
      }),
    );
  }
});
