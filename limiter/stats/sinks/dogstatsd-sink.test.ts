import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../test/support/eventually.ts';
import { ManualTimers } from '../../../test/support/manual-timers.ts';
import { StatsRegistry } from '../registry/stats-registry.ts';
import { orderedTags } from '../registry/tags.ts';
import { DogStatsdSink } from './dogstatsd-sink.ts';
import { Mogrifiers, type MogrifierText } from './mogrifier.ts';

/** A receiver of datagrams on its own port. */
class Receiver {
  readonly packets: string[] = [];
  readonly #socket: Socket;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('message', (packet) => this.packets.push(packet.toString()));
  }

  static async open(port = 0): Promise<Receiver> {
    const socket = createSocket('udp4');
    socket.bind(port, '127.0.0.1');
    await once(socket, 'listening');
    return new Receiver(socket);
  }

  get port(): number {
    return this.#socket.address().port;
  }

  /** Lines, without those about the client itself. */
  get lines(): string[] {
    return this.packets
      .flatMap((packet) => packet.split('\n'))
      .filter((line) => !line.startsWith('datadog.'));
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => this.#socket.close(() => resolve()));
  }
}

const flushIntervalMs = 10_000;
let timers: ManualTimers;
let receiver: Receiver;
let registry: StatsRegistry;
let reported: string[];
const sinks: DogStatsdSink[] = [];

beforeEach(async () => {
  timers = new ManualTimers();
  registry = new StatsRegistry();
  reported = [];
  receiver = await Receiver.open();
});
afterEach(async () => {
  for (const sink of sinks.splice(0)) {
    const closed = sink.close(1_000);
    // Without a receiver, only the time limit ends it.
    timers.advance(1_000);
    await closed;
  }
  await receiver.close();
});

function sinkOf(options: { mogrifiers?: MogrifierText[]; host?: string; port?: number } = {}): DogStatsdSink {
  const { mogrifiers = [], host = '127.0.0.1', port = receiver.port } = options;
  const sink = new DogStatsdSink({
    source: registry,
    host,
    port,
    flushIntervalMs,
    mogrifiers: new Mogrifiers(mogrifiers),
    version: '1.2.3',
    timers,
    listener: { up: () => reported.push('up'), down: (reason) => reported.push(`down: ${reason}`) },
  });
  sinks.push(sink);
  sink.start();
  return sink;
}

/** Flushes when the sink considers the receiver reachable. */
async function flushed(sink: DogStatsdSink): Promise<void> {
  await eventually(async () => {
    timers.advance(1_000);
    await sink.flush();
    expect(receiver.packets.join()).toContain('datadog.dogstatsd.client.packets_sent');
  });
}

/** Turns of the event loop after which a probe was sent and rejected: the loopback rejects while it is sent. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** The sum of the received differences. */
function sumOf(counter: string): number {
  return receiver.lines
    .filter((line) => line.startsWith(`${counter}:`))
    .reduce((sum, line) => sum + Number(line.slice(counter.length + 1).split('|')[0]), 0);
}

describe('DogStatsdSink', () => {
  it('sends differences of counters, gauges each time, and timers with six decimals', async () => {
    const sink = sinkOf();
    await flushed(sink);
    receiver.packets.length = 0;
    const hits = registry.counter('hits');
    registry.counter('never');
    let depth = 7;
    registry.gauge('depth', () => depth);
    registry.add(hits, 3);
    await sink.flush();
    await eventually(() => expect(receiver.lines).toEqual(['hits:3|c', 'depth:7|g']));
    registry.add(hits, 2);
    depth = 0;
    registry.timer('time').record(12);
    await sink.flush();
    await eventually(() =>
      expect(receiver.lines.slice(2).sort()).toEqual(['depth:0|g', 'hits:2|c', 'time:12.000000|ms']),
    );
  });

  it('has extra tags first, then those of the mogrifier', async () => {
    registry = new StatsRegistry({
      extraTags: orderedTags([
        ['env', 'a.b,c'],
        ['az', '1'],
      ]),
    });
    const slot = registry.counter('ratelimit.service.rate_limit.dom.key_value,x.total_hits');
    const sink = sinkOf({
      mogrifiers: [
        {
          pattern: '^ratelimit\\.service\\.rate_limit\\.([^.]*)\\.([^.]*)\\.(.*)$',
          name: 'rl.$3',
          tags: [
            ['domain', '$1'],
            ['key', '$2'],
          ],
        },
      ],
    });
    await flushed(sink);
    receiver.packets.length = 0;
    registry.add(slot, 5);
    registry.timer('time').record(0.5);
    await sink.flush();
    await eventually(() =>
      expect(receiver.lines.sort()).toEqual([
        'rl.total_hits:5|c|#az:1,env:a.b_c,domain:dom,key:key_value_x',
        'time:0.500000|ms|#az:1,env:a.b_c',
      ]),
    );
  });

  it('sends timers within a second, without a flush', async () => {
    await flushed(sinkOf());
    receiver.packets.length = 0;
    registry.timer('time').record(1);
    timers.advance(1_000);
    await eventually(() => expect(receiver.lines).toEqual(['time:1.000000|ms']));
  });

  it('puts many lines into packets of at most 1432 bytes', async () => {
    const sink = sinkOf();
    await flushed(sink);
    receiver.packets.length = 0;
    for (let index = 0; index < 1_000; index += 1)
      registry.add(registry.counter(`a.counter.named.${index}`), 1);
    await sink.flush();
    await eventually(() => expect(receiver.lines.length).toBe(1_000));
    expect(Math.max(...receiver.packets.map((packet) => Buffer.byteLength(packet)))).toBeLessThanOrEqual(
      1432,
    );
    expect(receiver.packets.length).toBeLessThan(40);
  });

  it('reports itself', async () => {
    registry = new StatsRegistry({ extraTags: [['env', 'a,b']] });
    registry.add(registry.counter('hits'), 1);
    const sink = sinkOf();
    await flushed(sink);
    const tags = '|c|#env:a_b,client:weir,client_version:1.2.3,client_transport:udp';
    expect(receiver.packets[0]).toBe(`datadog.dogstatsd.client.metrics:0${tags}`);
    const lines = () => receiver.packets.join('\n');
    expect(lines()).toContain(`datadog.dogstatsd.client.bytes_dropped:0${tags}`);
    receiver.packets.length = 0;
    await sink.flush();
    await eventually(() => expect(lines()).toContain(`datadog.dogstatsd.client.metrics:1${tags}`));
  });

  it('keeps every count while there is no receiver, and reports each change once', async () => {
    const { port } = receiver;
    await receiver.close();
    const sink = sinkOf({ port });
    const hits = registry.counter('hits');
    await eventually(() => expect(reported).toEqual([expect.stringMatching(/^down: .*ECONNREFUSED/)]));
    for (let times = 0; times < 6; times += 1) {
      registry.add(hits, 5);
      timers.advance(3_000);
      await turns();
      timers.advance(1_000);
      await sink.flush();
    }
    expect(reported).toHaveLength(1);
    receiver = await Receiver.open(port);
    await eventually(async () => {
      timers.advance(3_000);
      await sink.flush();
      expect(reported.at(-1)).toBe('up');
      expect(sumOf('hits')).toBe(30);
    });
    expect(reported).toHaveLength(2);
    expect(sink.linesDropped).toBe(0);
  });

  it('keeps the counts of a flush that finds out that the receiver went away', async () => {
    const { port } = receiver;
    const sink = sinkOf();
    await flushed(sink);
    await receiver.close();
    registry.add(registry.counter('hits'), 7);
    await sink.flush();
    receiver = await Receiver.open(port);
    await eventually(async () => {
      timers.advance(3_000);
      await sink.flush();
      expect(sumOf('hits')).toBe(7);
    });
    expect(reported).toEqual(['up', expect.stringMatching(/^down: /), 'up']);
  });

  it('counts what a metric that leaves could not say', async () => {
    registry = new StatsRegistry({ maxDetailedMetrics: 1 });
    const sink = sinkOf({ host: 'host.invalid' });
    registry.add(registry.ruleMetric('d.a', true).slot, 3);
    registry.nextPeriod();
    registry.add(registry.ruleMetric('d.b', true).slot, 4);
    expect(sink.linesDropped).toBe(1);
  });

  it('keeps counts while the host cannot be found, and drops timers', async () => {
    const sink = sinkOf({ host: 'host.invalid' });
    await eventually(() => expect(reported).toEqual([expect.stringMatching(/^down: getaddrinfo/)]));
    registry.add(registry.counter('hits'), 3);
    for (let times = 0; times < 1_000; times += 1) registry.timer('time').record(1);
    await sink.flush();
    expect(sink.linesDropped).toBe(1_000);
    expect(reported).toHaveLength(1);
  });

  it('sends what is left at the end', async () => {
    const sink = sinkOf();
    await flushed(sink);
    receiver.packets.length = 0;
    registry.add(registry.counter('last'), 1);
    registry.timer('time').record(2);
    await sink.close(2_000);
    await eventually(() => expect(receiver.lines.sort()).toEqual(['last:1|c', 'time:2.000000|ms']));
    expect(timers.size).toBe(0);
  });

  it('gives others turns while it mogrifies many new names, and sends all of them', async () => {
    const sink = sinkOf({ mogrifiers: [{ pattern: 'a.{1,900}x$', name: 'never', tags: [] }] });
    await flushed(sink);
    receiver.packets.length = 0;
    for (let i = 0; i < 50; i += 1) registry.add(registry.counter(`n${i}.${'a'.repeat(1_000)}`), 1);
    let isOver = false;
    let turnsBeside = 0;
    const beside = (): void => {
      turnsBeside += 1;
      if (!isOver) setImmediate(beside);
    };
    setImmediate(beside);
    await sink.flush();
    isOver = true;
    // A name costs about 130,000 of the 2,000,000 units of a turn.
    expect(turnsBeside).toBeGreaterThan(3);
    await eventually(() => expect(receiver.lines.filter((line) => line.startsWith('n'))).toHaveLength(50));
  });
});
