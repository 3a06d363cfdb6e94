import { describe, expect, it } from 'vitest';
import { limit, rule, source, validateSources } from '../test/support/rule-builder.ts';
import { Algorithm } from './algorithms/registry.ts';
import { readCalendar } from './calendar.ts';
import { limitWords } from './describe.ts';
import type { calendarFields } from './language/fields.ts';
import { type Calendar, makeLimit, maxRequests, type Rule, readWholeNumber, type Written } from './model.ts';
import { readRuleFiles } from './reader/read-rule-files.ts';
import { readReserve, reserveWords } from './reserve.ts';
import type { RuleSupport } from './validate-limits.ts';

type WrittenCalendar = Written<typeof calendarFields>;

function calendarOf(written: WrittenCalendar): Calendar | string[] {
  const problems: string[] = [];
  const read = readCalendar(
    { unit: 'month', timezone: undefined, startsOn: undefined, ...written },
    (field, text) => problems.push(`${field}: ${text}`),
  );
  return read ?? problems;
}

describe('a calendar', () => {
  it.each<[WrittenCalendar, Calendar]>([
    [{}, { unit: 'month', timezone: 'UTC', startsOn: 1 }],
    [
      { unit: 'Year', timezone: 'europe/zurich' },
      { unit: 'year', timezone: 'Europe/Zurich', startsOn: 1 },
    ],
    [
      { timezone: 'Asia/Kathmandu', startsOn: '31' },
      { unit: 'month', timezone: 'Asia/Kathmandu', startsOn: 31 },
    ],
    [
      { timezone: 'Asia/Katmandu', startsOn: 15 },
      { unit: 'month', timezone: 'Asia/Katmandu', startsOn: 15 },
    ],
    [
      { unit: 'week', startsOn: 'Sunday' },
      { unit: 'week', timezone: 'UTC', startsOn: 7 },
    ],
    [
      { unit: 'week', startsOn: '1' },
      { unit: 'week', timezone: 'UTC', startsOn: 1 },
    ],
    [
      { unit: 'day', startsOn: 1 },
      { unit: 'day', timezone: 'UTC', startsOn: 1 },
    ],
  ])('is read from %j', (written, calendar) => {
    expect(calendarOf(written)).toEqual(calendar);
  });

  it.each<[WrittenCalendar, string]>([
    [{ unit: undefined }, "unit: a calendar has the unit day, week, month or year, found ''"],
    [{ unit: 'hour' }, "unit: a calendar has the unit day, week, month or year, found 'hour'"],
    [
      { timezone: '' },
      "timezone: timezone must be a name of the IANA database, such as Europe/Zurich, found ''",
    ],
    [
      { timezone: '+01:00' },
      "timezone: timezone must be a name of the IANA database, such as Europe/Zurich, found '+01:00'",
    ],
    [
      { timezone: 'Mars/Base' },
      "timezone: timezone must be a name of the IANA database, such as Europe/Zurich, found 'Mars/Base'",
    ],
    [{ startsOn: 0 }, "starts_on: starts_on of a month must be a day from 1 to 31, found '0'"],
    [{ startsOn: 32 }, "starts_on: starts_on of a month must be a day from 1 to 31, found '32'"],
    [{ startsOn: 1.5 }, "starts_on: starts_on of a month must be a day from 1 to 31, found '1.5'"],
    [{ startsOn: 'monday' }, "starts_on: starts_on of a month must be a day from 1 to 31, found 'monday'"],
    [
      { unit: 'week', startsOn: 8 },
      "starts_on: starts_on of a week must be monday to sunday, or 1 to 7, found '8'",
    ],
    [
      { unit: 'year', startsOn: 2 },
      "starts_on: starts_on is for weeks and months; a year begins with its first day, found '2'",
    ],
  ])('is rejected as %j', (written, problem) => {
    expect(calendarOf(written)).toEqual([problem]);
  });
});

describe('the terms of reservations', () => {
  const termsOf = (ttl: string | undefined, onExpiry?: string) => {
    const problems: string[] = [];
    const terms = readReserve({ ttl, estimate: undefined, onExpiry }, (field, text) =>
      problems.push(`${field}: ${text}`),
    );
    return problems.length > 0 ? problems : terms;
  };

  it.each([
    [undefined, 60],
    ['1s', 1],
    ['1h30m', 5400],
    ['70001s', 70_001],
    ['24h', 86_400],
    ['1d', 86_400],
  ])('hold for the ttl %s', (ttl, ttlSeconds) => {
    expect(termsOf(ttl)).toEqual({ ttlSeconds, estimate: undefined, onExpiry: 'release' });
  });

  it.each([
    ['0s', "ttl: the ttl '0s' is zero"],
    ['60', "ttl: the ttl '60' is not a duration such as 30s, 5m, 1h30m, 1d, 2w, 1mo or 1y"],
    ['500ms', "ttl: the ttl '500ms' is not a whole number of seconds"],
    ['86401s', "ttl: the ttl '86401s' is 86401 seconds, and a reservation lasts at most 86400 (24h)"],
    ['1mo', "ttl: the ttl '1mo' is 2592000 seconds, and a reservation lasts at most 86400 (24h)"],
  ])('are rejected with the ttl %s', (ttl, problem) => {
    expect(termsOf(ttl)).toEqual([problem]);
  });

  it('say what becomes of what was not committed', () => {
    expect(termsOf('5s', 'Charge')).toMatchObject({ onExpiry: 'charge' });
    expect(termsOf('5s', 'keep')).toEqual(["on_expiry: on_expiry must be release or charge, found 'keep'"]);
    expect(reserveWords({ ttlSeconds: 60, estimate: 2000, onExpiry: 'release' })).toBe(
      'held for 60s, 2000 if a request has no amount, given back if no request commits',
    );
  });
});

describe('a limit of a budget', () => {
  const problemsOf = (traits: Omit<Partial<Rule>, 'key'>, support?: Partial<RuleSupport>) =>
    validateSources([source('d', [rule({ key: 'k', ...traits })])], {
      mergeDomains: false,
      support: support && { admission: undefined, groups: undefined, calendarMonths: false, ...support },
    }).map(({ code, text, path }) => `${path.slice(2).join('.')} ${code}: ${text}`);
  const month: Calendar = { unit: 'month', timezone: 'Europe/Zurich', startsOn: 15 };
  const monthly = limit({ unit: 'month', calendar: month });
  const reserve = { ttlSeconds: 60, estimate: undefined, onExpiry: 'release' as const };

  it('may have all of it', () => {
    const all = { ...monthly, requestsPerUnit: maxRequests, hitsUnit: 'tokens' as const, warnAt: [50, 100] };
    const limits = [
      all,
      limit({ unit: 'month' }),
      limit({ unit: 'month', calendar: { ...month, startsOn: 1 } }),
    ];
    expect(problemsOf({ limits: [all], reserve })).toEqual([]);
    expect(problemsOf({ limits, reserve }, { calendarMonths: true })).toEqual([]);
  });

  it.each<[string, Omit<Partial<Rule>, 'key'>, string]>([
    [
      'a sliding calendar',
      { limits: [{ ...monthly, algorithm: Algorithm.SLIDING_WINDOW }] },
      'rate_limit.calendar invalid-calendar: calendar is only for algorithm fixed_window',
    ],
    [
      'a multiplied calendar',
      { limits: [{ ...monthly, unitMultiplier: 2 }] },
      'rate_limit.calendar invalid-calendar: calendar replaces unit_multiplier, found both',
    ],
    [
      'the same calendar twice',
      {
        limits: [
          { ...monthly, name: 'a' },
          { ...monthly, name: 'b' },
        ],
      },
      'rate_limits.1.unit duplicate-limit: two of its rate_limits have the same calendar',
    ],
    [
      'marks that do not ascend',
      { limits: [limit({ warnAt: [50, 50] })] },
      'rate_limit.warn_at invalid-marks: warn_at must ascend, each mark once, found 50 behind 50',
    ],
    [
      'a mark of nothing',
      { limits: [limit({ warnAt: [0] })] },
      'rate_limit.warn_at invalid-marks: warn_at has whole percentages from 1 to 100, found 0',
    ],
    [
      'a mark beyond the limit',
      { limits: [limit({ warnAt: [101] })] },
      'rate_limit.warn_at invalid-marks: warn_at has whole percentages from 1 to 100, found 101',
    ],
    [
      'too many marks',
      { limits: [limit({ warnAt: [1, 2, 3, 4, 5, 6, 7, 8, 9] })] },
      'rate_limit.warn_at invalid-marks: warn_at has at most 8 marks, found 9',
    ],
    ['reserve without limit', { reserve }, 'reserve invalid-reserve: reserve needs a rate_limit beside it'],
    [
      'reserve beside unlimited',
      { limits: [{ ...makeLimit({}), unlimited: true }], reserve },
      'reserve invalid-reserve: should not specify reserve when unlimited',
    ],
    [
      'a calendar beside unlimited',
      { limits: [{ ...makeLimit({}), unlimited: true, calendar: month }] },
      'rate_limit.calendar unit-when-unlimited: should not specify calendar when unlimited',
    ],
  ])('is rejected with %s', (_, traits, problem) => {
    expect(problemsOf(traits)).toEqual([problem]);
  });

  it('is rejected with reserve if the store supports no reservations', () => {
    expect(problemsOf({ limits: [limit()], reserve }, { reservations: 'REDIS_SCRIPTS=never' })).toEqual([
      "reserve uncountable: reserve of 'd.k' cannot be stored: REDIS_SCRIPTS=never",
    ]);
  });

  it('is reported in words', () => {
    expect(limitWords({ ...monthly, hitsUnit: 'tokens', warnAt: [50, 80] })).toBe(
      '10 tokens per calendar month (Europe/Zurich, from day 15), marks at 50, 80%',
    );
    const week = { unit: 'week', timezone: 'UTC', startsOn: 5 } as const;
    expect(limitWords(limit({ unit: 'week', calendar: week }))).toBe(
      '10 per calendar week (UTC, from friday)',
    );
    expect(limitWords(limit({ unit: 'day', requestsPerUnit: 600_000, hitsUnit: 'tokens' }))).toBe(
      '600000 tokens per day',
    );
  });
});

describe('rule files', () => {
  const errorsOf = (rate: string, beside = '') => {
    const text = `domain: d\ndescriptors:\n- key: k\n  rate_limit: {${rate}}\n${beside}`;
    return readRuleFiles([{ name: 'f.yaml', text: Buffer.from(text) }], { mergeDomains: false }).errors.map(
      ({ line, column, text: words }) => `${line}:${column}: ${words}`,
    );
  };

  it.each([
    ['requests_per_unit: 9007199254740991, unit: day', '', []],
    [
      'requests_per_unit: 9007199254740992, unit: day',
      '',
      ['4:35: requests_per_unit can be at most 9007199254740991 (2^53 - 1), found 9007199254740992'],
    ],
    [
      'calendar: { unit: month }, unit: day',
      '',
      ['4:26: calendar replaces unit, unit_multiplier and window, found unit beside it'],
    ],
    [
      'window: 1d, calendar: { unit: month }',
      '',
      ['4:38: calendar replaces unit, unit_multiplier and window, found window beside it'],
    ],
    [
      'calendar: { unit: month, unit_multiplier: 2 }',
      '',
      ["4:41: config error, key 'unit_multiplier' belongs to rate_limit"],
    ],
    ['calendar:', '', ['4:25: calendar must be a map, found null']],
    ['unit: day, warn_at: [50, 80, 95]', '', []],
    ['unit: day, warn_at: ', '', []],
    [
      'unit: day, hits_unit: token',
      '',
      ["4:38: hits_unit must be requests, tokens, micro-dollars or bytes, found 'token'"],
    ],
    ['unit: day', '  reserve: { ttl: 60s, estimate: 2000, on_expiry: charge }\n', []],
    ['unit: day', '  reserve: {}\n', []],
    ['unit: day', '  reserve:\n', ['5:11: reserve must be a map, found null']],
    ['unit: day', '  ttl: 60s\n', ["5:3: config error, key 'ttl' belongs to reserve"]],
    ['unit: day', '  reserve: { key: k }\n', ["5:14: config error, key 'key' belongs to a descriptor"]],
    ['unlimited: true, warn_at: [1]', '', ['4:42: should not specify warn_at when unlimited']],
  ])('with {%s}%s are reported at their place', (rate, beside, errors) => {
    expect(errorsOf(rate, beside)).toEqual(errors);
  });
});

describe('numbers that may be texts', () => {
  it.each([
    [0, 0],
    ['0', 0],
    ['9007199254740991', maxRequests],
    ['9007199254740992', undefined],
    [2 ** 53, undefined],
    ['-1', undefined],
    [1.5, undefined],
    ['', undefined],
    ['1e3', undefined],
    [null, undefined],
  ])('%j is %s', (given, read) => {
    expect(readWholeNumber(given)).toBe(read);
  });
});
