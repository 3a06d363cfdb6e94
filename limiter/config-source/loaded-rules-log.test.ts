import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createLogger } from '../../process/log/pino-logger.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { LoadedRulesLog, linesPerTurn, maxWarnings, ReviewLog } from './rules-in-force.ts';

function logTo(lines: string[], level: 'debug' | 'info' = 'debug'): LoadedRulesLog {
  const destination = { write: (line: string) => lines.push(/msg="(.*)"$/.exec(line.trimEnd())![1]!) };
  return new LoadedRulesLog(createLogger({ level, format: 'text', clock: new ManualClock(), destination }));
}

function tableOf(domain: string, rules: number): RuleTable {
  const descriptors = Array.from({ length: rules }, (_, n) => rule({ key: `k${n}`, rateLimit: limit() }));
  return new RuleTable(compileRules([source(domain, descriptors)]));
}

describe('the lines of loaded rules', () => {
  it('name each domain, and after it its rules with their limits', async () => {
    const users = rule({ key: 'users', rateLimit: limit({ unit: 'second', requestsPerUnit: 5 }) });
    const free = rule({
      key: 'free',
      value: 'a*',
      rateLimit: limit({ unit: '', unlimited: true, requestsPerUnit: 0 }),
    });
    const parent = rule({ key: 'database', shadowMode: true, rateLimit: limit(), descriptors: [users] });
    const table = new RuleTable(
      compileRules([source('b', [rule({ key: 'bare' })]), source('a', [parent, free])]),
    );
    const lines: string[] = [];
    await logTo(lines).list(table);
    expect(lines).toEqual([
      'loading domain: a',
      'loading descriptor: key=a.database ratelimit={requests_per_unit=10, unit=MINUTE, unlimited=false, shadow_mode=true, quota_mode=false}',
      'loading descriptor: key=a.database.users ratelimit={requests_per_unit=5, unit=SECOND, unlimited=false, shadow_mode=false, quota_mode=false}',
      'loading descriptor: key=a.free_a* ratelimit={requests_per_unit=0, unit=UNKNOWN, unlimited=true, shadow_mode=false, quota_mode=false}',
      'loading domain: b',
      'loading descriptor: key=b.bare',
    ]);
  });

  it('are not put together above the level debug', async () => {
    const lines: string[] = [];
    const listedRules = (): never => {
      throw new Error('was asked');
    };
    await logTo(lines, 'info').list({ listedRules });
    expect(lines).toEqual([]);
  });

  it('come in slices between which other things happen', async () => {
    const lines: string[] = [];
    const listing = logTo(lines).list(tableOf('d', 20_000));
    let longestSlice = lines.length;
    for (let seen = 0; seen < 20_001; seen = lines.length) {
      longestSlice = Math.max(longestSlice, lines.length - seen);
      await nextTurn();
    }
    await listing;
    expect(longestSlice).toBe(linesPerTurn);
    expect(lines).toHaveLength(20_001);
  });

  it('make room for those of newer rules, and say so', async () => {
    const lines: string[] = [];
    const log = logTo(lines);
    await Promise.all([log.list(tableOf('old', 1_000)), log.list(tableOf('new', 300))]);
    expect(lines.filter((line) => line.includes('old'))).toHaveLength(linesPerTurn);
    expect(lines[linesPerTurn]).toBe('newer rules were loaded before all rules were listed');
    expect(lines.slice(linesPerTurn + 1)).toHaveLength(301);
  });

  it('end when the limiter does', async () => {
    const lines: string[] = [];
    const log = logTo(lines);
    const listing = log.list(tableOf('d', 1_000));
    log.stop();
    await listing;
    expect(lines).toHaveLength(linesPerTurn);
  });
});

describe('the lines of what a review found', () => {
  const warning = (name: string, line: number) => ({
    ...{
      identity: name,
      domain: 'd',
      source: 'a.yaml',
      text: name,
      line,
      column: 1,
      rule: undefined,
      hint: undefined,
    },
  });
  const review = (names: string[], total = names.length) => ({
    ...{ warnings: names.map((name, index) => warning(name, index)), total, collisions: undefined },
  });
  const reported = (...reviews: Parameters<ReviewLog['report']>[0][]): string[][] => {
    const lines: string[] = [];
    const destination = {
      write: (line: string) => lines.push(line.replace(/^.*msg="?|"? line=.*\n|\n/g, '')),
    };
    const clock = new ManualClock();
    const log = new ReviewLog(createLogger({ level: 'info', format: 'text', clock, destination }));
    return reviews.map((one) => {
      log.report(one);
      return lines.splice(0);
    });
  };

  it('come once, wherever the lines of a file move to, and again after they were away', () => {
    expect(
      reported(review(['a', 'b']), review(['c', 'b', 'a']), review(['c']), review(['c']), review(['a', 'c'])),
    ).toEqual([['a.yaml: a', 'a.yaml: b'], ['a.yaml: c'], [], [], ['a.yaml: a']]);
  });

  it('are bounded, with the number of the others', () => {
    const names = Array.from({ length: maxWarnings + 5 }, (_, n) => `w${n}`);
    const [first, second, third] = reported(review(names, 5_000), review(names, 5_000), review(names, 5_001));
    expect(first).toHaveLength(maxWarnings + 1);
    const more = 'There are more warnings about the rules: run weir check to see all"';
    expect(first!.at(-1)).toBe(`${more} more=4900 total=5000`);
    expect([second, third]).toEqual([[], [`${more} more=4896 total=5001`]]);
  });

  it('say when it changes which counters could share a key, and that they could not be checked', () => {
    const collision = (count: string, first = 'a.yaml:5:10: rule a_b') => ({
      ...review([]),
      collisions: { identity: count, count, first },
    });
    const moved = collision('2', 'a.yaml:6:10: rule a_b');
    const lines = reported(
      collision('1'),
      collision('1'),
      collision('2'),
      { problem: 'it broke off' },
      moved,
    );
    expect(lines.map((some) => some.length)).toEqual([1, 0, 1, 1, 0]);
    expect(lines[3]![0]).toContain('Could not check the rules');
  });
});
