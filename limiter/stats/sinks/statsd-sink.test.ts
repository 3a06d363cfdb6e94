import { createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../test/support/eventually.ts';
import { ManualTimers } from '../../../test/support/manual-timers.ts';
import { RuleStat } from '../registry/rule-stats.ts';
import { StatsRegistry } from '../registry/stats-registry.ts';
import { StatsdSink } from './statsd-sink.ts';

/** A statsd receiver on its own port that stores what it receives. */
class Receiver {
  received = '';
  readonly sockets = new Set<Socket>();
  readonly #server: Server;
  port = 0;
  /** If set, connections are accepted and never read. */
  deaf = false;

  constructor() {
    this.#server = createServer((socket) => {
      this.sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => this.sockets.delete(socket));
      if (this.deaf) socket.pause();
      else socket.on('data', (data) => (this.received += data.toString()));
    });
  }

  get lines(): string[] {
    return this.received.split('\n').filter((line) => line !== '');
  }

  listen(port = 0): Promise<void> {
    return new Promise((resolve) => {
      this.#server.listen(port, '127.0.0.1', () => {
        this.port = (this.#server.address() as { port: number }).port;
        resolve();
      });
    });
  }

  hangUp(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  close(): Promise<void> {
    this.hangUp();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }
}

const until = (holds: () => boolean) => eventually(() => expect(holds()).toBe(true), { intervalMs: 2 });

let receiver: Receiver;
let timers: ManualTimers;
let registry: StatsRegistry;
let events: string[];
const sinks: StatsdSink[] = [];

function startSink(options: { port?: number; maxQueuedBytes?: number } = {}): StatsdSink {
  const sink = new StatsdSink({
    source: registry,
    host: '127.0.0.1',
    port: options.port ?? receiver.port,
    flushIntervalMs: 10_000,
    timers,
    ...(options.maxQueuedBytes === undefined ? {} : { maxQueuedBytes: options.maxQueuedBytes }),
    listener: { up: () => events.push('up'), down: (reason) => events.push(`down: ${reason}`) },
  });
  sinks.push(sink);
  sink.start();
  return sink;
}

beforeEach(async () => {
  receiver = new Receiver();
  timers = new ManualTimers();
  registry = new StatsRegistry();
  events = [];
  await receiver.listen();
});

afterEach(async () => {
  for (const sink of sinks.splice(0)) {
    const closed = sink.close(100);
    timers.advance(100);
    await closed;
  }
  await receiver.close();
});

describe('StatsdSink', () => {
  it('writes differences of counters, all gauges, and skips counters that did not move', async () => {
    const slot = registry.ruleMetric('d.k', false).slot;
    let gauge = 7;
    registry.gauge('ratelimit.memory_store.counters', () => gauge);
    const sink = startSink();
    await until(() => sink.connected);

    registry.add(slot + RuleStat.totalHits, 5);
    registry.add(slot + RuleStat.nearLimit, 2);
    timers.advance(10_000);
    await until(() => receiver.lines.length >= 3);
    expect(receiver.lines).toEqual([
      'ratelimit.service.rate_limit.d.k.total_hits:5|c',
      'ratelimit.service.rate_limit.d.k.near_limit:2|c',
      'ratelimit.memory_store.counters:7|g',
    ]);

    receiver.received = '';
    gauge = 8;
    registry.add(slot + RuleStat.totalHits, 3);
    timers.advance(10_000);
    await until(() => receiver.lines.length >= 2);
    expect(receiver.lines).toEqual([
      'ratelimit.service.rate_limit.d.k.total_hits:3|c',
      'ratelimit.memory_store.counters:8|g',
    ]);
  });

  it('says what is left of a metric that leaves, and takes the one in its place from 0', async () => {
    registry = new StatsRegistry({ maxDetailedMetrics: 1, extraTags: [['dc', 'eu']] });
    const sink = startSink();
    await until(() => sink.connected);
    registry.add(registry.ruleMetric('d.a', true).slot, 3);
    await sink.flush();
    registry.add(registry.ruleMetric('d.a', true).slot, 4);
    registry.nextPeriod();
    registry.add(registry.ruleMetric('d.b', true).slot, 1);
    registry.timer('t').record(2);
    await sink.flush();
    const name = (value: string): string => `ratelimit.service.rate_limit.d.${value}.total_hits.__dc=eu`;
    await until(() => receiver.lines.length >= 4);
    expect(receiver.lines).toEqual([
      `${name('a')}:3|c`,
      `${name('a')}:4|c`,
      't.__dc=eu:2|ms',
      `${name('b')}:1|c`,
    ]);
  });

  it('sends timers within a second, whole values without decimals, others with six', async () => {
    const timer = registry.timer('ratelimit_server.ShouldRateLimit.response_time');
    const sink = startSink();
    await until(() => sink.connected);
    timer.record(12);
    timer.record(0.5);
    timers.advance(1000);
    await until(() => receiver.lines.length >= 2);
    expect(receiver.lines).toEqual([
      'ratelimit_server.ShouldRateLimit.response_time:12|ms',
      'ratelimit_server.ShouldRateLimit.response_time:0.500000|ms',
    ]);
  });

  it('sends a full buffer without waiting for the second to pass', async () => {
    const timer = registry.timer('t');
    const sink = startSink();
    await until(() => sink.connected);
    for (let i = 0; i < 20_000; i += 1) timer.record(i);
    await until(() => receiver.lines.length > 10_000);
    timers.advance(1000);
    await until(() => receiver.lines.length === 20_000);
    expect(receiver.lines[19_999]).toBe('t:19999|ms');
  });

  it('dials again 3 s after the receiver went, and counts nothing twice and loses no difference', async () => {
    const slot = registry.counter('c');
    const sink = startSink();
    await until(() => sink.connected);
    registry.add(slot, 1);
    timers.advance(10_000);
    await until(() => receiver.lines.includes('c:1|c'));

    receiver.hangUp();
    await until(() => !sink.connected);
    registry.add(slot, 10);
    await sink.flush();
    registry.add(slot, 100);
    timers.advance(2999);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(sink.connected).toBe(false);
    timers.advance(1);
    await until(() => sink.connected);
    receiver.received = '';
    // The time advances to the flush at 20 s and no further: the write must not time out.
    timers.advance(7000);
    await until(() => receiver.lines.length > 0);
    expect(receiver.lines).toEqual(['c:110|c']);
    expect(events).toEqual(['up', 'down: closed by the receiver', 'up']);
  });

  it('reports an outage once, however often dialling fails', async () => {
    const port = receiver.port;
    await receiver.close();
    const sink = startSink({ port });
    await until(() => events.length === 1);
    for (let attempt = 0; attempt < 3; attempt += 1) {
      timers.advance(3000);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect(events).toEqual([`down: connect ECONNREFUSED 127.0.0.1:${port}`]);
    expect(sink.connected).toBe(false);
    receiver = new Receiver();
    await receiver.listen(port);
    timers.advance(3000);
    await until(() => sink.connected);
    expect(events.at(-1)).toBe('up');
  });

  it('keeps timers up to the bound while the receiver is away, drops and counts the rest', async () => {
    const timer = registry.timer('t');
    const port = receiver.port;
    await receiver.close();
    const sink = startSink({ port, maxQueuedBytes: 100 });
    await until(() => events.length === 1);
    for (let i = 0; i < 20; i += 1) timer.record(10);
    registry.passDurations();
    // 14 lines of 8 bytes do not fit into 100 bytes, 12 do.
    expect(sink.linesDropped).toBe(8);

    receiver = new Receiver();
    await receiver.listen(port);
    timers.advance(3000);
    await until(() => sink.connected);
    timers.advance(1000);
    await until(() => receiver.lines.length >= 12);
    expect(receiver.lines).toEqual(Array(12).fill('t:10|ms'));
    expect(sink.linesDropped).toBe(8);
  });

  it('gives up a receiver that takes nothing for a second', async () => {
    const timer = registry.timer(`t${'x'.repeat(1000)}`);
    receiver.deaf = true;
    const sink = startSink({ maxQueuedBytes: 64 * 1024 * 1024 });
    await until(() => sink.connected);
    for (let i = 0; i < 30_000; i += 1) timer.record(1);
    await new Promise((resolve) => setTimeout(resolve, 100));
    timers.advance(1000);
    expect(sink.connected).toBe(false);
    expect(events).toEqual(['up', 'down: the receiver accepted no data within 1000 ms']);
  });

  it('sends all differences in one flush, however little fits into the queue at once', async () => {
    const slots = Array.from({ length: 50 }, (_, i) => registry.counter(`c${i}`));
    const sink = startSink({ maxQueuedBytes: 12 });
    await until(() => sink.connected);
    for (const slot of slots) registry.add(slot, 1);
    await sink.flush();
    await until(() => receiver.lines.length === 50);
    expect(receiver.lines).toEqual(slots.map((_, i) => `c${i}:1|c`));
  });

  it('drops and counts a line that can never fit', async () => {
    registry.add(registry.counter('much.too.long'), 1);
    registry.add(registry.counter('c'), 1);
    const sink = startSink({ maxQueuedBytes: 12 });
    await until(() => sink.connected);
    await sink.flush();
    await until(() => receiver.lines.length === 1);
    expect(receiver.lines).toEqual(['c:1|c']);
    expect(sink.linesDropped).toBe(1);
  });

  it('keeps what was not flushed when the receiver goes in the middle of a flush', async () => {
    const slots = Array.from({ length: 50 }, (_, i) => registry.counter(`c${i}`));
    const sink = startSink({ maxQueuedBytes: 12 });
    await until(() => sink.connected);
    for (const slot of slots) registry.add(slot, 1);
    const flushed = sink.flush();
    receiver.hangUp();
    await flushed;
    await until(() => !sink.connected);
    const before = new Set(receiver.lines);
    timers.advance(3000);
    await until(() => sink.connected);
    await sink.flush();
    await until(() => receiver.lines.includes('c49:1|c'));
    expect(receiver.lines.length).toBe(new Set(receiver.lines).size);
    expect(before.size).toBeLessThan(50);
  });

  it('sends everything when closed', async () => {
    const slots = Array.from({ length: 20_000 }, (_, i) => registry.counter(`counter.${i}`));
    const sink = startSink();
    await until(() => sink.connected);
    for (const slot of slots) registry.add(slot, 1);
    registry.timer('t').record(3);
    await sink.close(2000);
    await until(() => receiver.lines.length >= 20_001);
    expect(receiver.lines).toContain('counter.19999:1|c');
    expect(receiver.lines).toContain('t:3|ms');
    expect(timers.size).toBe(0);
  });

  it('dials once more when closed while disconnected', async () => {
    const sink = startSink();
    await until(() => sink.connected);
    receiver.hangUp();
    await until(() => !sink.connected);
    registry.add(registry.counter('c'), 4);
    await sink.close(2000);
    await until(() => receiver.lines.length === 1);
    expect(receiver.lines).toEqual(['c:4|c']);
  });

  it('closes at once without a receiver, and in bounded time when the receiver does not read', async () => {
    const port = receiver.port;
    await receiver.close();
    const unreceived = startSink({ port });
    await until(() => events.length === 1);
    await unreceived.close(1_000_000);

    receiver = new Receiver();
    receiver.deaf = true;
    await receiver.listen();
    const unread = startSink({ maxQueuedBytes: 64 * 1024 * 1024 });
    await until(() => unread.connected);
    const timer = registry.timer(`t${'x'.repeat(1000)}`);
    for (let i = 0; i < 30_000; i += 1) timer.record(1);
    const closed = unread.close(500);
    await new Promise((resolve) => setTimeout(resolve, 50));
    timers.advance(500);
    await closed;
    expect(timers.size).toBe(0);
  });
});
