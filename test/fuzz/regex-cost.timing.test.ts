/**
 * What hostile regular expressions cost: of each as many copies as a profile may have, on the headers that suit it worst,
 * at three lengths up to the largest request.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { maxNameLength } from '../../limiter/stats/registry/name-budget.ts';
import { NameSearch } from '../../limiter/stats/registry/name-search.ts';
import { maxHeadBytes } from '../../process/http/http-connection.ts';
import {
  automatonOf,
  ExpressionError,
  maxTextBytes,
  newCostBudget,
  spend,
} from '../../process/regex/expression.ts';
import { descriptorMaker } from '../../rules/proxy/make-descriptors.ts';
import { readProfilesFile } from '../../rules/proxy/read-profiles.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { machineSlowness } from '../support/machine-slowness.ts';

const maxMs = 10;
const lengths = [maxTextBytes / 4, maxTextBytes / 2, maxTextBytes];

/** Expressions, and the characters that keep most of their states alive. */
const hostile: [expression: string, units: string][] = [
  ['.*/.{1,64}/.{1,64}/export', '/a'],
  ['.*/.{1,64}/.{1,64}/.{1,64}/export', '/a'],
  ['.*a.{20}c', 'ab'],
  ['.*a.{200}c', 'ab'],
  ['.*a.{1,800}x', 'ab'],
  ['.*(a|b).{200}x', 'ab'],
  ['(a|aa)+(.*a)*b?', 'a'],
  ['(a*)*(a*)*(a*)*x', 'a'],
  ['(.*)*(.*)*(.*)*x', 'ab'],
  ['((a{1,9}){1,9}){1,9}x', 'a'],
  ['(a?){200}a{200}', 'a'],
  ['.*(a.{0,30}){11}x', 'ab'],
  ['(.{0,10}a.{0,10}b){0,5}x', 'ab'],
  ['.*(ab|ba|aab|bba){1,8}x', 'ab'],
  ['.*(a?b?c?d?e?f?g?h?i?j?){5}x', 'abcdefghij'],
  ['.*\\b(a|b|aab){1,7}\\bx', 'ab '],
  ['(?i).*(select|union|insert).{0,100}(from|into).*', 'selctunioafrm '],
  ['.*(\\pL|\\pN|\\w){1,80}-', 'éaω1'],
  ['.*\\p{Greek}.{30}\\p{Cyrillic}', 'ωжa'],
  ['(?i).*[^é].{60}k', 'éÉkK\u212a'],
  ['.*[a-m].{50}[n-z].{50}[0-9]', 'amnz09'],
  ['.*(x.{0,5}y.{0,5}z.{0,5}){4}!', 'xyz'],
  ['.*(.a|.b|.c){40}!', 'abc'],
  ['(?s).*\\d.{100}\\D', '0a'],
  ['.*(foo|foobar|foobarbaz)+(.{0,40}foo){3}!', 'fobarz'],
  ['(.+)+(.+)+(.+)+!', 'a'],
  ['(x+x+)+y', 'x'],
  ['.*,.*,.*,.*,.*,.*,.*,.*!', ',a'],
  ['.*𝒳.{30}𝒴', '𝒳𝒴a'],
  ['^(([a-z])+.)+[A-Z]([a-z])+$', 'a'],
];

/** Looks random, and is the same each time. */
function textOf(units: string, bytes: number): string {
  const characters = Array.from(units);
  const chosen: string[] = [];
  let seed = 1;
  for (let length = 0; ; ) {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff;
    const next = characters[(seed >>> 16) % characters.length]!;
    length += Buffer.byteLength(next);
    if (length > bytes) return chosen.join('');
    chosen.push(next);
  }
}

const matcherOf = (regex: string) => ({ name: 'x-text', safe_regex_match: { regex } });

/**
 * Milliseconds of CPU of a run, the least of three measurements, of which the first that is low enough is the last. The system
 * counts them in ticks, so several runs are measured together.
 */
function minCpuMs(run: () => void): number {
  const runs = 5;
  let min = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 3 && min >= maxMs * slowness; round += 1) {
    const took = cpuMs(() => {
      for (let i = 0; i < runs; i += 1) run();
    });
    min = Math.min(min, took / runs);
  }
  return min;
}

/** What a request with these headers costs in a profile with these expressions. */
function costOf(expressions: readonly string[]): (...texts: string[]) => number {
  // Each in a descriptor of its own, so that all of them are asked.
  const rateLimits = expressions.map((regex) => ({
    actions: [{ header_value_match: { descriptor_value: 'hit', headers: [matcherOf(regex)] } }],
  }));
  const profiles = { shop: { domain: 'shop', rate_limits: rateLimits } };
  const file = readProfilesFile(JSON.stringify({ profiles }));
  if (file.problems !== undefined) throw new Error(file.problems[0]?.message);
  const make = descriptorMaker(file.profiles[0]!);
  return (...texts) => {
    const headers = texts.flatMap((text) => ['X-Text', Buffer.from(text).toString('latin1')]);
    return minCpuMs(() => make(headers));
  };
}

/** As many copies as the bounds let a profile have, each with a comment of its own so that none is shared. */
function fullProfile(expression: string): string[] {
  const { max } = newCostBudget();
  const copies = Math.floor(max / automatonOf(expression).stepCost);
  return Array.from({ length: copies }, (_, copy) => `(?P<copy${copy}>${expression})`);
}

let slowness = 1;
beforeAll(() => {
  slowness = machineSlowness();
});

/** The machine's speed changes while tests run: it is asked again before a cost is found too high. */
function expectQuick(took: number): void {
  if (took >= maxMs * slowness) slowness = Math.max(slowness, machineSlowness());
  expect(took).toBeLessThan(maxMs * slowness);
}

it('is bounded for the largest request that there is', () => {
  expect(maxTextBytes).toBe(maxHeadBytes);
});

describe('all hostile expressions of a profile', () => {
  it.each(hostile)('take at most 10 ms of CPU on the largest request: %s', (expression, units) => {
    const cost = costOf(fullProfile(expression));
    for (const length of lengths) {
      const took = cost(textOf(units, length));
      expectQuick(took);
    }
  });

  it('take at most 10 ms of CPU if they are different ones', () => {
    const budget = newCostBudget();
    const chosen = hostile.filter(([expression]) => {
      const { stepCost } = automatonOf(expression);
      if (budget.spent + stepCost > budget.max) return false;
      spend(budget, expression, stepCost);
      return true;
    });
    expect(chosen.length).toBeGreaterThan(4);
    const cost = costOf(chosen.map(([expression]) => expression));
    for (const [, units] of chosen) expectQuick(cost(textOf(units, maxTextBytes)));
  });

  it('take at most 10 ms of CPU on as many lines as a request has', () => {
    const cost = costOf(fullProfile('.*a'));
    // A line has five bytes at least: a name, a colon, a character and its end.
    const lines = new Array<string>(Math.floor(maxTextBytes / 5)).fill('b');
    expectQuick(cost(...lines));
  });
});

describe('names of statistics', () => {
  it.each(hostile)('are searched within 10 ms of CPU: %s', (expression, units) => {
    const search = new NameSearch(expression);
    const name = textOf(units, maxNameLength);
    const took = minCpuMs(() => search.find(name));
    expectQuick(took);
  });

  it.each([40, 90, 180, 380])(
    'have groups within 10 ms of CPU, or none, if %i characters are counted',
    (count) => {
      const search = new NameSearch(`(.*)(a.{1,${count}})b$`);
      for (const length of [maxNameLength / 4, maxNameLength / 2, maxNameLength - 1]) {
        const name = `${textOf('ab', length)}b`;
        const took = minCpuMs(() => search.find(name)?.(1));
        expect(search.find(name)).toBeDefined();
        expectQuick(took);
      }
    },
  );
});

describe('expressions beyond the bounds', () => {
  const extreme: [what: string, expression: string][] = [
    ['parts that may all be missing', '(a?){999}'],
    ['assertions between all characters', '(?m)(^a?\\n?$?){300}x'],
    ['classes of Unicode', '(\\pL{1,30}[^a-z]?){30}'],
    ['repetitions in each other', '((a{1,10}){1,10}){1,10}'],
    ['a repetition', '.{1000000}'],
    ['groups in each other', `${'(a?'.repeat(900)}${')'.repeat(900)}`],
    [
      '900 characters',
      `(${Array.from({ length: 900 }, (_, i) => String.fromCodePoint(0x4e00 + i)).join('?')})*x`,
    ],
    ['many repetitions', 'a{1000}'.repeat(500)],
    ['many classes of Unicode', '\\PL'.repeat(900)],
  ];
  it.each(extreme)('are rejected or cheap, and read within a second: %s', (_, expression) => {
    const took = cpuMs(() => {
      try {
        spend(newCostBudget(), expression, automatonOf(expression).stepCost);
      } catch (error) {
        expect(error).toBeInstanceOf(ExpressionError);
      }
    });
    expect(took).toBeLessThan(1_000 * slowness);
  });
});
