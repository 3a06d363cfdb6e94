/** Both ends of a worker's statistics, connected as the threads connect them. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { ruleStatNames } from '../stats/registry/rule-stats.ts';
import { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { PostedStatistics } from './posted-statistics.ts';
import { JoinedGauges, WorkerStatistics } from './worker-statistics.ts';

function worker(
  whole: StatsRegistry,
  { timers = new ManualTimers(), maxDetailedMetrics = 100, joined = new JoinedGauges(whole) } = {},
) {
  const ours = new WorkerStatistics(whole, joined);
  const left = (slots: number[]): void => {
    ours.leave(slots);
    theirs.registry.reuseSlots(slots.length);
  };
  const theirs = new PostedStatistics({
    durations: true,
    maxDetailedMetrics,
    countsLeases: whole.ruleStatCount > ruleStatNames.length,
    idlePeriodMs: 10_000,
    timers,
    post: (news) => {
      if (news.is === 'values') ours.useValues(news.values);
      if (news.is === 'names') ours.addNames(news.names);
      if (news.is === 'reused') ours.reuse(news.slots);
      if (news.is === 'left') left(news.slots);
      if (news.is === 'durations') ours.record(news.names, news.pairs);
    },
  });
  return { ours, theirs, registry: theirs.registry, timers };
}

describe('the statistics of workers', () => {
  it('add up in those of the process, however they are counted and looked at', () => {
    const event = fc.record({
      worker: fc.nat(2),
      what: fc.constantFrom('rule', 'domain', 'counter', 'show', 'merge'),
      name: fc.constantFrom('a', 'b', 'n_1.2.3.4.5.6.7:8', 'c|d', '_overflow'),
      amount: fc.nat(7),
    });
    const property = fc.property(fc.boolean(), fc.array(event, { maxLength: 60 }), (countsLeases, events) => {
      const whole = new StatsRegistry({ countsLeases });
      const alone = new StatsRegistry({ countsLeases });
      const workers = [worker(whole), worker(whole), worker(whole)];
      for (const { worker: index, what, name, amount } of events) {
        const one = workers[index]!;
        for (const registry of [one.registry, alone]) {
          if (what === 'rule')
            registry.add(registry.ruleMetric(name, false).slot + (amount % whole.ruleStatCount), amount);
          if (what === 'domain') registry.domainNotFound(name);
          if (what === 'counter') registry.add(registry.counter(`x.${name}`), amount);
        }
        if (what === 'show') one.theirs.show();
        if (what === 'merge') one.ours.merge();
      }
      for (const { ours, theirs } of workers) {
        theirs.show();
        ours.merge();
      }
      expect([...whole.statsLines()]).toEqual([...alone.statsLines()]);
    });
    fc.assert(property);
  });

  it('follow metrics that come and leave, in a worker and in the whole', () => {
    const event = fc.record({
      worker: fc.nat(1),
      what: fc.constantFrom('hit', 'hit', 'hit', 'show', 'merge', 'period', 'whole-period'),
      value: fc.nat(5),
    });
    const property = fc.property(fc.array(event, { maxLength: 120 }), (events) => {
      const whole = new StatsRegistry({ maxDetailedMetrics: 12 });
      const workers = [worker(whole, { maxDetailedMetrics: 2 }), worker(whole, { maxDetailedMetrics: 3 })];
      const expected = new Map<string, number>();
      for (const { worker: index, what, value } of events) {
        const { registry, theirs, ours } = workers[index]!;
        if (what === 'hit') {
          const slot = registry.slotOf(registry.ruleMetric(`d.v_${value}`, true)) + (value % 7);
          registry.add(slot, 1);
          const name = registry.nameOf(slot);
          expected.set(name, (expected.get(name) ?? 0) + 1);
        }
        if (what === 'show') theirs.show();
        if (what === 'merge') ours.merge();
        if (what === 'period') registry.nextPeriod();
        if (what === 'whole-period') whole.nextPeriod();
      }
      for (const { theirs, ours } of workers) {
        theirs.show();
        ours.merge();
      }
      const shown = new Map<string, number>();
      for (let slot = 0; slot < whole.slotCount; slot++) {
        if (whole.valueOf(slot) !== 0) shown.set(whole.nameOf(slot), whole.valueOf(slot));
      }
      expect(shown).toEqual(expected);
    });
    fc.assert(property, { numRuns: caseCount(300) });
  });

  it('are bounded in metrics of values for the process as a whole', () => {
    const whole = new StatsRegistry({ maxDetailedMetrics: 2 });
    const gone: number[] = [];
    whole.onLeave((first) => gone.push(whole.valueOf(first)));
    for (const index of [0, 1, 2]) {
      const { ours, theirs, registry } = worker(whole, { maxDetailedMetrics: 2 });
      registry.add(registry.ruleMetric(`d.w${index}`, true).slot, 10 + index);
      theirs.show();
      ours.merge();
      whole.nextPeriod();
    }
    expect(whole.detailed).toMatchObject({ size: 2, left: 1 });
    expect(gone).toEqual([10]);
  });

  it('are the same when the values move to a larger place', () => {
    const whole = new StatsRegistry();
    const { ours, theirs, registry } = worker(whole);
    for (let i = 0; i < 3_000; i++) {
      registry.add(registry.ruleMetric(`d.k_${i}`, false).slot, i);
      if (i % 500 === 0) theirs.show();
      if (i % 700 === 0) ours.merge();
    }
    theirs.show();
    ours.merge();
    expect([...whole.statsLines()]).toEqual([...registry.statsLines()]);
  });

  it('keep the counters of a worker that ended, and drop its gauges', () => {
    const whole = new StatsRegistry();
    const lines = () => [...whole.statsLines()];
    const workers = [worker(whole), worker(whole)];
    for (const [index, { ours, theirs, registry }] of workers.entries()) {
      registry.gauge('connections', () => 2 + index);
      registry.add(registry.counter('requests'), 10);
      theirs.show();
      ours.merge();
    }
    expect(lines()).toEqual(['connections: 5', 'requests: 20']);
    const [first] = workers;
    first!.registry.add(first!.registry.counter('requests'), 5);
    first!.ours.end();
    expect(lines()).toEqual(['connections: 3', 'requests: 25']);
    first!.ours.merge();
    first!.ours.end();
    expect(lines()).toEqual(['connections: 3', 'requests: 25']);
  });

  it('join gauges that do not add up', () => {
    const whole = new StatsRegistry();
    const joined = new JoinedGauges(whole);
    const lines = () => [...whole.statsLines()];
    const down = [1, 3];
    const workers = down.map((_, index) => {
      const one = worker(whole, { joined });
      one.registry.gauge('nodes_down', () => down[index]!, 'max');
      one.registry.gauge('nodes_reached', () => 5 - down[index]!, 'min');
      one.registry.gauge('connections', () => 2);
      return one;
    });
    const look = () => {
      for (const { ours, theirs } of workers) {
        theirs.show();
        ours.merge();
      }
      return lines();
    };
    expect(look()).toEqual(['connections: 4', 'nodes_down: 3', 'nodes_reached: 2']);
    down[1] = 0;
    expect(look()).toEqual(['connections: 4', 'nodes_down: 1', 'nodes_reached: 4']);
    workers[0]!.ours.end();
    expect(lines()).toEqual(['connections: 2', 'nodes_down: 0', 'nodes_reached: 5']);
    workers[1]!.ours.end();
    expect(lines()).toEqual(['connections: 0', 'nodes_down: 0', 'nodes_reached: 0']);
  });

  it('are bounded in their names as a whole', () => {
    const whole = new StatsRegistry({ maxRuleNameBytes: 5 * 340, maxDomainNameBytes: 3 * 450 });
    for (let index = 0; index < 4; index++) {
      const { ours, theirs, registry } = worker(whole);
      for (let i = 0; i < 4; i++) {
        registry.add(registry.ruleMetric(`w${index}.k${i}`, false).slot, 1);
        registry.domainNotFound(`w${index}${i}`);
      }
      theirs.show();
      ours.merge();
    }
    const lines = [...whole.statsLines()];
    const hits = lines.filter((line) => line.includes('.total_hits'));
    expect(hits).toHaveLength(6);
    expect(hits[0]).toBe('ratelimit.service.rate_limit._overflow.total_hits: 11');
    const domains = lines.filter((line) => line.includes('.domain_not_found'));
    expect(domains).toHaveLength(4);
    expect(domains[0]).toBe('ratelimit.service.rate_limit._overflow.domain_not_found: 13');
  });

  it('bring every duration, in their order, at the latest after a second', () => {
    const whole = new StatsRegistry();
    const received: string[] = [];
    whole.onTimer(({ name }, value) => received.push(`${name} ${value}`));
    const { registry, timers } = worker(whole);
    const [a, b] = [registry.timer('a'), registry.timer('b')];
    b.record(1);
    a.record(2);
    expect(received).toEqual([]);
    timers.advance(1_000);
    expect(received).toEqual(['b 1', 'a 2']);
    registry.timer('c').record(3);
    for (let i = 0; i < 10_000; i++) a.record(i);
    timers.advance(1_000);
    expect(received.slice(2, 5)).toEqual(['c 3', 'a 0', 'a 1']);
    expect(received).toHaveLength(3 + 10_000);
    expect(received.at(-1)).toBe('a 9999');
  });
});
