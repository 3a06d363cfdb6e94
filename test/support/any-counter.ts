/** Counters with the most confusing names that callers and rules could think of. */
import fc from 'fast-check';
import { windowAt } from '../../limiter/decide/windows.ts';
import { countedEntry, EntryMark, unambiguousStem } from '../../rules/counter-keys.ts';
import { Unit } from '../../rules/model.ts';

/** What makes a counter another one, limits and places of rules apart. */
export interface NamedCounter {
  domain: string;
  entries: { key: string; mark: EntryMark; text: string }[];
  unit: Unit;
  calendarMonth: boolean;
  nowSeconds: number;
}

const special = ['_', '=', '~=', '~*=', ';', '{', '}', '~', '~~', '%', '%20', '%u0085', '1{', '}60:0', ':'];
const foreign = [' ', '\n', '\0', '\x7f', '\u0085', 'é', '€', '\u{1f600}', '\ud83d', '\ude00', '\ufffd', '#'];
const piece = fc.constantFrom('a', 'b', 'a', 'b', 'ip', 'month', '*', ...special, ...foreign);
const short = fc.array(piece, { maxLength: 5 }).map((pieces) => pieces.join(''));
/** Equal for long, and other at the end. */
const long = fc.tuple(fc.constantFrom('a', 'é', ' ', '\ud83d'), fc.integer({ min: 30, max: 260 }), short);

export const anyPart = fc.oneof(
  { weight: 9, arbitrary: short },
  { weight: 1, arbitrary: long.map(([unit, length, end]) => unit.repeat(length) + end) },
);

const entry = fc.record({ key: anyPart, mark: fc.constantFrom(...Object.values(EntryMark)), text: anyPart });

export const anyCounter: fc.Arbitrary<NamedCounter> = fc.record({
  domain: anyPart.filter((domain) => domain !== ''),
  entries: fc.oneof(
    { weight: 9, arbitrary: fc.array(entry, { maxLength: 3 }) },
    { weight: 1, arbitrary: fc.array(entry, { minLength: 20, maxLength: 30 }) },
  ),
  unit: fc.constantFrom(Unit.SECOND, Unit.MINUTE, Unit.HOUR, Unit.DAY, Unit.WEEK, Unit.MONTH, Unit.YEAR),
  calendarMonth: fc.boolean(),
  // Windows of all lengths begin at 0.
  nowSeconds: fc.constantFrom(0, 59, 1_700_000_000),
});

export function unambiguousKey(counter: NamedCounter, prefix = ''): string {
  const { domain, entries, unit, calendarMonth, nowSeconds } = counter;
  const text = entries.map((one) => countedEntry(one.key, one.mark, one.text)).join('');
  const { keySuffix } = windowAt({ unit, unitMultiplier: 1 }, nowSeconds, {
    useCalendarMonthRateLimit: calendarMonth,
    counterKeys: 'unambiguous',
  });
  return prefix + unambiguousStem(domain, text) + keySuffix;
}

/** Equal for equal counters. */
export function identityOf({ domain, entries, unit, calendarMonth, nowSeconds }: NamedCounter): string {
  const { startSeconds, lifeSeconds, endSeconds } = windowAt({ unit, unitMultiplier: 1 }, nowSeconds, {
    useCalendarMonthRateLimit: calendarMonth,
    counterKeys: 'compatible',
  });
  const texts = entries.map(({ key, mark, text }) => [key, mark, text]);
  return JSON.stringify([
    domain,
    texts,
    lifeSeconds === undefined ? 'month' : endSeconds - startSeconds,
    startSeconds,
  ]);
}
