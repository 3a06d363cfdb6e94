import { createSocket, type Socket } from 'node:dgram';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../test/support/eventually.ts';
import { ManualTimers } from '../../../test/support/manual-timers.ts';
import { StatsRegistry } from '../registry/stats-registry.ts';
import { StatsdSink } from './statsd-sink.ts';

let receiver: Socket;
let datagrams: string[];
let registry: StatsRegistry;
let timers: ManualTimers;
let events: string[];
const sinks: StatsdSink[] = [];

function listen(port: number): Promise<void> {
  receiver = createSocket('udp4', (message) => datagrams.push(String(message)));
  return new Promise((resolve) => receiver.bind(port, '127.0.0.1', () => resolve()));
}

function startSink(host = '127.0.0.1', port = receiver.address().port): StatsdSink {
  const sink = new StatsdSink({
    source: registry,
    host,
    port,
    protocol: 'udp',
    flushIntervalMs: 10_000,
    timers,
    listener: { up: () => events.push('up'), down: (reason) => events.push(`down: ${reason}`) },
  });
  sinks.push(sink);
  sink.start();
  return sink;
}

beforeEach(async () => {
  datagrams = [];
  events = [];
  registry = new StatsRegistry();
  timers = new ManualTimers();
  await listen(0);
});

afterEach(async () => {
  for (const sink of sinks.splice(0)) {
    const closed = sink.close(100);
    timers.advance(100);
    await closed;
  }
  receiver.close();
});

describe('StatsdSink by UDP', () => {
  it('sends whole lines in datagrams of up to 1,432 bytes', async () => {
    const names = Array.from({ length: 200 }, (_, i) => `counter.${'x'.repeat(i % 50)}.${i}`);
    for (const [i, name] of names.entries()) registry.add(registry.counter(name), i + 1);
    const sink = startSink();
    await eventually(() => expect(sink.connected).toBe(true));
    await sink.flush();
    const lines = names.map((name, i) => `${name}:${i + 1}|c`);
    await eventually(() => expect(datagrams.join('').trimEnd().split('\n')).toEqual(lines));
    const lengths = datagrams.map((datagram) => Buffer.byteLength(datagram));
    expect(Math.max(...lengths)).toBeLessThanOrEqual(1432);
    // All datagrams except the last are as full as the next line permits.
    expect(Math.min(...lengths.slice(0, -1))).toBeGreaterThan(1432 - 100);
    expect(events).toEqual([]);
    timers.advance(1_000);
    expect(events).toEqual(['up']);
  });

  it('reports once of a receiver that is not there, and sends again when it is', async () => {
    const { port } = receiver.address();
    receiver.close();
    const counter = registry.counter('c');
    const sink = startSink('127.0.0.1', port);
    const round = async (): Promise<void> => {
      registry.add(counter, 1);
      await sink.flush();
      timers.advance(3_000);
    };
    await eventually(async () => {
      await round();
      expect(events).toEqual([expect.stringMatching(/^down: .*ECONNREFUSED/)]);
    });
    for (let i = 0; i < 20; i += 1) {
      await round();
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    expect(events).toHaveLength(1);
    await listen(port);
    await eventually(async () => {
      await round();
      expect(events).toHaveLength(2);
      expect(datagrams.join('')).toContain('c:');
    });
    expect(events[1]).toBe('up');
  });

  it('keeps differences while the receiver has no address', async () => {
    registry.add(registry.counter('c'), 5);
    const sink = startSink('no-such-host.invalid', 8125);
    await eventually(() => expect(events).toHaveLength(1));
    expect(events[0]).toMatch(/^down: .*no-such-host\.invalid/);
    await sink.flush();
    expect(sink.connected).toBe(false);
    expect(sink.linesDropped).toBe(0);
  });
});
