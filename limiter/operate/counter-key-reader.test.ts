import { hash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Algorithm } from '../../rules/algorithms/registry.ts';
import type { CounterKeys } from '../../rules/counter-keys.ts';
import { countedText, defaultTextBytes } from '../../rules/long-text.ts';
import { defaultNames } from '../../rules/match-result.ts';
import { arePlainLimits, type Entry, type RuleSource } from '../../rules/model.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { entriesFor, overlappingRules } from '../../test/support/rule-arbitraries.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { stemOfValues } from '../decide/counter-key.ts';
import { counterWindow } from '../decide/windows.ts';
import { CounterKeyReader, type EntryReading, longTextsIn, readEntries } from './counter-key-reader.ts';

const nowSeconds = 1_700_000_000;

function reader(
  rules: RuleTable,
  domain: string,
  counterKeys: CounterKeys,
  calendarMonth = false,
): CounterKeyReader {
  return new CounterKeyReader({
    rules,
    domain,
    prefix: 'p:',
    counterKeys,
    calendarMonth,
    maxTextBytes: defaultTextBytes,
  });
}

/** The keys that a descriptor counts with, each with its limit. */
function keysOf(table: RuleTable, domain: string, entries: readonly Entry[], counterKeys: CounterKeys) {
  const match = table.match(domain, entries, { ...defaultNames, counterKeys });
  if (match === undefined) return [];
  const options = { counterKeys, useCalendarMonthRateLimit: false };
  const isOwn = !arePlainLimits(match.rule.limits);
  return match.rule.limits.map((one) => ({
    key: `p:${match.counterStem}${counterWindow(one, isOwn, nowSeconds, options).keySuffix}`,
    limit: one,
    rule: match.rule,
  }));
}

const shown = (entries: readonly EntryReading[]) =>
  entries.map(({ key, text, isPattern }) => `${key.text}${isPattern ? '~' : ''}=${text.text}`).join(' ');

const tableOf = (...sources: RuleSource[]) => new RuleTable(compileRules(sources));

describe('keys of a domain', () => {
  const calendar = { unit: 'month', timezone: 'Europe/Zurich', startsOn: 15 } as const;
  const shop = tableOf(
    source('shop', [
      rule({ key: 'remote_address', rateLimit: limit() }),
      rule({
        key: 'plan',
        value: 'free',
        descriptors: [rule({ key: 'user_id', rateLimit: limit({ unit: 'hour' }) })],
      }),
      rule({ key: 'path', value: '/api/*', shareThreshold: true, rateLimit: limit() }),
      rule({ key: 'a', rateLimit: limit() }),
      rule({ key: 'a_b', rateLimit: limit() }),
      rule({ key: 'burst', rateLimit: limit({ algorithm: Algorithm.TOKEN_BUCKET }) }),
      rule({ key: 'team', limits: [limit({ unit: 'month', calendar }), limit({ unit: 'month' })] }),
    ]),
    source('shop_eu', [rule({ key: 'ip', rateLimit: limit() })]),
  );
  const reported = (key: string, form: CounterKeys = 'compatible') =>
    reader(shop, 'shop', form).read(`p:${key}`);

  it.each([
    ['shop_remote_address_203.0.113.7_1699999980', 'remote_address=203.0.113.7', 'shop.remote_address'],
    ['shop_remote_address_a_b_c_1699999980', 'remote_address=a_b_c', 'shop.remote_address'],
    ['shop_remote_address__1699999980', 'remote_address=', 'shop.remote_address'],
    ['shop_plan_free_user_id_u_7_1699999200', 'plan=free user_id=u_7', 'shop.plan_free.user_id'],
    ['shop_path_/api/*_1699999980', 'path~=/api/*', 'shop.path_/api/*'],
    ['1{shop;burst=x%20y}60:bucket', 'burst=x y', 'shop.burst'],
  ])('are reported %s', (key, entries, path) => {
    const found = reported(key);
    expect(shown(found?.entries ?? [])).toBe(entries);
    expect(found).toMatchObject({ doubt: undefined, found: { path } });
  });

  it('say why they are not certain', () => {
    expect(reported('shop_a_b_c_1699999980')).toMatchObject({
      doubt: 'it can also be a_b=c of rule shop.a_b',
      found: { path: 'shop.a' },
    });
    expect(reported('shop_other_x_1699999980')).toMatchObject({ entries: [], found: undefined });
    expect(reported('shop_other_x_1699999980')?.doubt).toContain('no rule in force');
    expect(reported(`shop_${'_'.repeat(300)}_1699999980`)?.doubt).toBe(
      'it has too many possible meanings to try all',
    );
    const long = stemOfValues(
      'unambiguous',
      'shop',
      [{ key: 'burst', value: 'v'.repeat(200) }],
      defaultTextBytes,
    );
    const cut = reported(`${long}60:bucket`);
    expect(cut).toMatchObject({
      found: { path: 'shop.burst' },
      entries: [{ text: { text: 'v'.repeat(32) } }],
    });
    expect(cut?.doubt).toContain('a value was too long');
  });

  it('say the calendar of their window', () => {
    const key = '1{shop;team=a}month@Europe/Zurich@15:1699999200';
    const found = reported(key);
    expect(found).toMatchObject({ windowSeconds: undefined, isCalendarMonth: false, calendar });
    expect(found?.found?.limit.calendar).toEqual(calendar);
    expect(reported(key.replace('@15', '@14'))).toMatchObject({
      calendar: { startsOn: 14 },
      found: undefined,
    });
    expect(reported(key.replace('Zurich', 'Zorich'))).toBeUndefined();
    expect(reported(key.replace('1699999200', 'sliding'))).toBeUndefined();
    expect(reported('1{shop;team=a}2592000:1699488000')?.found?.limit.calendar).toBeUndefined();
  });

  it('cost no more the longer they are', () => {
    const table = tableOf(source('shop', [rule({ key: '_*', rateLimit: limit() })]));
    let chars = 0;
    const counted = {
      walk: (domain: string) => {
        chars += domain.length;
        const walk = table.walk(domain);
        if (walk === undefined) return undefined;
        const step: typeof walk.step = (place, key, value) => {
          chars += key.length + value.length;
          return walk.step(place, key, value);
        };
        return { ...walk, step };
      },
    };
    const own = new CounterKeyReader({
      rules: counted,
      domain: 'shop',
      prefix: '',
      counterKeys: 'compatible',
      maxTextBytes: defaultTextBytes,
      calendarMonth: false,
    });
    const texts = ['_'.repeat(16_000), `${'v'.repeat(100)}_`.repeat(160), `_${'v'.repeat(16_000)}`];
    for (const text of texts) own.read(`shop_${text}_1699999980`);
    expect(chars).toBeLessThan(3 * 64 * 500);
  });

  it('are not those of a domain whose name continues', () => {
    expect(reported('shop_eu_ip_192.0.2.7_1699999980')).toBeUndefined();
    expect(reported('1{shop_eu;ip=192.0.2.7}60:1699999980', 'unambiguous')).toBeUndefined();
  });

  it('begin and end where windows of a rule do', () => {
    expect(reported('shop_remote_address_x_1699999981')?.found).toBeUndefined();
    expect(reported('shop_plan_free_user_id_u_1699999980')?.found).toBeUndefined();
    expect(reported('shop_remote_address_x')).toBeUndefined();
  });

  it('have no rule if it counts in another form or window now', () => {
    expect(reported('1{shop;remote_address=x}60:1699999980')?.found).toBeUndefined();
    expect(reported('1{shop;remote_address=x}60:1699999980', 'unambiguous')?.found?.path).toBe(
      'shop.remote_address',
    );
    expect(reported('1{shop;remote_address=x}3600:1699999200', 'unambiguous')?.found).toBeUndefined();
    expect(reported('1{shop;path=/api/x}60:1699999980', 'unambiguous')?.found).toBeUndefined();
    expect(reported('1{shop;path~=/api/*}60:1699999980', 'unambiguous')?.found?.path).toBe(
      'shop.path_/api/*',
    );
  });

  it('hold months of the calendar if limits do', () => {
    const table = tableOf(source('d', [rule({ key: 'k', rateLimit: limit({ unit: 'month' }) })]));
    const calendar = reader(table, 'd', 'compatible', true);
    expect(calendar.read(`p:d_k_v_${Date.UTC(2026, 10) / 1000}`)).toMatchObject({
      isCalendarMonth: true,
      found: { path: 'd.k' },
    });
    expect(calendar.read(`p:d_k_v_${Date.UTC(2026, 10, 2) / 1000}`)?.found).toBeUndefined();
    expect(reader(table, 'd', 'unambiguous', true).read('p:1{d;k=v}month:1793491200')).toMatchObject({
      isCalendarMonth: true,
      found: { path: 'd.k' },
    });
  });
});

describe('keys of any rules', () => {
  it('are reported as they were counted: unambiguous ones always, compatible ones if it is certain', () => {
    const figures = { unambiguous: 0, compatible: 0, certain: 0 };
    const domains = fc
      .tuple(overlappingRules, overlappingRules)
      .chain(([one, other]) =>
        fc.tuple(
          fc.constant([source('d', one), source('d_a', other)]),
          fc.array(entriesFor(one), { minLength: 5, maxLength: 10 }),
        ),
      );
    fc.assert(
      fc.property(domains, ([sources, requests]) => {
        const table = tableOf(...sources);
        for (const form of ['unambiguous', 'compatible'] as const) {
          for (const entries of requests) {
            for (const { key, limit: one, rule: matched } of keysOf(table, 'd', entries, form)) {
              const reported = reader(table, 'd', form).read(key);
              const isCompatible = form === 'compatible' && arePlainLimits(matched.limits);
              if (isCompatible) figures.compatible += 1;
              // A reading that is reported either reproduces the key or carries a doubt.
              if (isCompatible && reported?.doubt !== undefined) continue;
              figures[isCompatible ? 'certain' : 'unambiguous'] += 1;
              const counted = readEntries(table, 'd', entries, defaultTextBytes)!;
              expect(shown(reported!.entries)).toBe(shown(counted.entries));
              expect(reported!.found?.path).toBe(counted.path);
              expect(reported!.found).toMatchObject({ rule: matched, limit: one });
              expect(reported!.doubt).toBeUndefined();
            }
          }
        }
      }),
      { numRuns: caseCount(250) },
    );
    expect(figures.unambiguous).toBeGreaterThan(caseCount(250));
    expect(figures.certain).toBeGreaterThan(caseCount(20));
  });
});

describe('longTextsIn', () => {
  const max = 16;

  it('finds each long text in a key, and none that a caller made up', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'é', '𝄞', '_', '~'), minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(text, text, (one, other) => {
        const long = [one, other].map((each) => each.padEnd(60, 'x'));
        const key = `d_path_${long.map((each) => countedText(each, max)).join('_path_')}_17`;
        const found = longTextsIn(key, max);
        expect(found.map(({ sha256 }) => sha256)).toEqual(long.map((each) => hash('sha256', each)));
        for (const [n, { head, start, end }] of found.entries()) {
          expect(long[n]!.startsWith(head)).toBe(true);
          expect(key.slice(start, end)).toBe(countedText(long[n]!, max));
        }
      }),
      { numRuns: caseCount(500) },
    );
    expect(longTextsIn(`d_k_v~sha256:${'0'.repeat(64)}_17`, max)).toEqual([]);
  });
});
