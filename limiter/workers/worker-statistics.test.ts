/** Both ends of a worker's statistics, joined as the threads join them. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { StatsRegistry } from '../stats/stats-registry.ts';
import { PostedStatistics } from './posted-statistics.ts';
import { WorkerStatistics } from './worker-statistics.ts';

function worker(whole: StatsRegistry, timers = new ManualTimers()) {
  const ours = new WorkerStatistics(whole);
  const theirs = new PostedStatistics({
    durations: true,
    timers,
    post: (news) => {
      if (news.is === 'values') ours.useValues(news.values);
      if (news.is === 'names') ours.addNames(news.names);
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
      amount: fc.nat(5),
    });
    const property = fc.property(fc.array(event, { maxLength: 60 }), (events) => {
      const whole = new StatsRegistry();
      const alone = new StatsRegistry();
      const workers = [worker(whole), worker(whole), worker(whole)];
      for (const { worker: index, what, name, amount } of events) {
        const one = workers[index]!;
        for (const registry of [one.registry, alone]) {
          if (what === 'rule') registry.add(registry.ruleSlot(name) + (amount % 7), amount);
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

  it('are the same when the values move to a larger place', () => {
    const whole = new StatsRegistry();
    const { ours, theirs, registry } = worker(whole);
    for (let i = 0; i < 3_000; i++) {
      registry.add(registry.ruleSlot(`d.k_${i}`), i);
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

  it('are bounded in their names as a whole', () => {
    const whole = new StatsRegistry({ maxRuleNameBytes: 5 * 340, maxDomainNameBytes: 3 * 450 });
    for (let index = 0; index < 4; index++) {
      const { ours, theirs, registry } = worker(whole);
      for (let i = 0; i < 4; i++) {
        registry.add(registry.ruleSlot(`w${index}.k${i}`), 1);
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
    const heard: string[] = [];
    whole.onTimer(({ name }, value) => heard.push(`${name} ${value}`));
    const { registry, timers } = worker(whole);
    const [a, b] = [registry.timer('a'), registry.timer('b')];
    b.record(1);
    a.record(2);
    expect(heard).toEqual([]);
    timers.advance(1_000);
    expect(heard).toEqual(['b 1', 'a 2']);
    registry.timer('c').record(3);
    for (let i = 0; i < 10_000; i++) a.record(i);
    timers.advance(1_000);
    expect(heard.slice(2, 5)).toEqual(['c 3', 'a 0', 'a 1']);
    expect(heard).toHaveLength(3 + 10_000);
    expect(heard.at(-1)).toBe('a 9999');
  });
});
