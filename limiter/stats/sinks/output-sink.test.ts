import { EventEmitter } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../test/support/eventually.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { ManualTimers } from '../../../test/support/manual-timers.ts';
import { temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { StatsRegistry } from '../registry/stats-registry.ts';
import { DescriptorOutput, OutputSink } from './output-sink.ts';

class Output extends EventEmitter {
  text = '';
  full = false;

  write(text: string): boolean {
    this.text += text;
    return !this.full;
  }

  settled(): Promise<void> {
    return Promise.resolve();
  }

  /** The lines written since the last call: type, name and value. */
  take(): string[] {
    const lines = this.text.split('\n').filter((line) => line !== '');
    this.text = '';
    return lines.map((line) => {
      const { json } = JSON.parse(line);
      return [json.type, json.name, json.value].filter((part) => part !== undefined).join(' ');
    });
  }
}

let output: Output;
let registry: StatsRegistry;
let timers: ManualTimers;
let sink: OutputSink;

beforeEach(() => {
  output = new Output();
  registry = new StatsRegistry({ extraTags: [['dc', 'eu']], maxDetailedMetrics: 1 });
  timers = new ManualTimers();
  const clock = new ManualClock(1_795_241_629_645);
  sink = new OutputSink({ source: registry, output, clock, timers, flushIntervalMs: 10_000 });
  sink.start();
});

describe('OutputSink', () => {
  it("writes the Go service's lines", async () => {
    registry.add(registry.counter('c'), 1);
    await sink.flush();
    expect(output.text).toBe(
      '{"level":"debug","ts":1795241629.645,"logger":"gostats.loggingsink","msg":"flushing counter","json":{"name":"c.__dc=eu","type":"counter","value":"1.000000"}}\n' +
        '{"level":"debug","ts":1795241629.645,"logger":"gostats.loggingsink","msg":"flushing all stats","json":{"type":"all stats","value":"0.000000"}}\n',
    );
  });

  it('writes differences of counters, all gauges, and timers, at their times', async () => {
    const counter = registry.counter('c');
    registry.counter('still');
    registry.gauge('g', () => 2.5);
    registry.add(counter, 5);
    registry.timer('t').record(12);
    expect(output.take()).toEqual([]);
    timers.advance(1_000);
    expect(output.take()).toEqual(['timer t.__dc=eu 12.000000']);
    timers.advance(9_000);
    await sink.flush();
    expect(output.take()).toEqual([
      'counter c.__dc=eu 5.000000',
      'gauge g.__dc=eu 2.500000',
      'all stats 0.000000',
    ]);
    registry.add(counter, 2);
    await sink.flush();
    expect(output.take()).toEqual([
      'counter c.__dc=eu 2.000000',
      'gauge g.__dc=eu 2.500000',
      'all stats 0.000000',
    ]);
  });

  it('keeps counters and drops timers while there is no reader', async () => {
    const counter = registry.counter('c');
    registry.add(counter, 1);
    output.full = true;
    await sink.flush();
    expect(output.take()).toEqual(['counter c.__dc=eu 1.000000', 'all stats 0.000000']);
    registry.add(counter, 10);
    for (let i = 0; i < 10; i += 1) registry.timer('t').record(1);
    await sink.flush();
    timers.advance(1_000);
    expect(output.take()).toEqual([]);
    expect(sink.linesDropped).toBe(10);
    output.full = false;
    output.emit('drain');
    registry.add(counter, 100);
    await sink.flush();
    expect(output.take()).toEqual(['counter c.__dc=eu 110.000000', 'all stats 0.000000']);
  });

  it('says what is left of a metric that leaves', async () => {
    registry.add(registry.ruleMetric('d.a', true).slot, 3);
    registry.nextPeriod();
    registry.add(registry.ruleMetric('d.b', true).slot, 4);
    await sink.flush();
    expect(output.take().sort()).toEqual([
      'all stats 0.000000',
      'counter ratelimit.service.rate_limit.d.a.total_hits.__dc=eu 3.000000',
      'counter ratelimit.service.rate_limit.d.b.total_hits.__dc=eu 4.000000',
    ]);
  });

  it('gives every statistic its turn, however many lines are due at once', async () => {
    const path = join(temporaryFolder(), 'lines');
    const descriptor = openSync(path, 'w');
    const file = new DescriptorOutput(descriptor);
    const clock = new ManualClock(1_795_241_629_645);
    const toFile = new OutputSink({ source: registry, output: file, clock, timers, flushIntervalMs: 10_000 });
    const slots = Array.from({ length: 2_000 }, (_, i) => registry.ruleMetric(`d.k_${i}`, false).slot);
    for (let times = 0; times < 5; times += 1) {
      for (const slot of slots) registry.add(slot, 1);
      await toFile.flush();
      await file.settled();
    }
    await toFile.close(60_000);
    closeSync(descriptor);
    const written = readFileSync(path, 'utf8').split('\n');
    expect(written.filter((line) => line.includes('.total_hits.'))).toHaveLength(5 * slots.length);
    expect(written.filter((line) => line.includes('flushing all stats'))).toHaveLength(6);
  });

  it('stops waiting for room at its end', async () => {
    for (let i = 0; i < 2_000; i += 1) registry.add(registry.ruleMetric(`d.k_${i}`, false).slot, 1);
    output.full = true;
    const flushed = sink.flush();
    await eventually(() => expect(output.text).not.toBe(''));
    const closed = sink.close(1_000);
    timers.advance(1_000);
    await Promise.all([flushed, closed]);
    expect(output.take().at(-1)).not.toBe('all stats 0.000000');
    expect(timers.size).toBe(0);
  });

  it('flushes once more at its end, then is silent', async () => {
    registry.add(registry.counter('c'), 1);
    await sink.close(1_000);
    expect(output.take()).toEqual(['counter c.__dc=eu 1.000000', 'all stats 0.000000']);
    registry.timer('t').record(1);
    registry.add(registry.counter('c'), 1);
    timers.advance(60_000);
    await sink.flush();
    expect(output.take()).toEqual([]);
    expect(output.listenerCount('drain')).toBe(0);
  });
});
