/**
 * Reads counter keys back into domain, entries, window and rule. An unambiguous key contains all of these except the rule; of a text
 * that was too long it contains only the beginning and a hash. A compatible key is read in every way in which a rule in force would
 * write it. If there is exactly one way, the reading is certain.
 */
import { hash } from 'node:crypto';
import {
  type Algorithm,
  algorithmOfKeyEnd,
  defaultAlgorithm,
  hasWindows,
} from '../../rules/algorithms/registry.ts';
import { calendarFromText, calendarText } from '../../rules/calendar.ts';
import { type CounterKeys, EntryMark, keyPart } from '../../rules/counter-keys.ts';
import { countedText, isLongText, shownBeginning } from '../../rules/long-text.ts';
import type { MatchedRule, RuleStep, RuleWalk } from '../../rules/match-result.ts';
import { arePlainLimits, type Calendar, type Entry, type Limit, Unit } from '../../rules/model.ts';
import { lengthInKeys } from '../../rules/window.ts';

/** A domain, a key, a value or a pattern that was read out of an unambiguous key. */
export interface CounterPart {
  /** The text, or its beginning if it was too long. */
  text: string;
  /** The hash of a text that was too long, in hexadecimal digits as in the key; undefined if `text` is complete. */
  sha256: string | undefined;
  /** The complete text, if it is known. */
  whole?: string;
}

interface ParsedEntry {
  key: CounterPart;
  mark: EntryMark;
  text: CounterPart;
}

interface ParsedCounterKey {
  prefix: string;
  domain: CounterPart;
  /** A single part if the entries together were too long: their beginning, as it appears in the key. */
  entries: readonly ParsedEntry[] | CounterPart;
  algorithm: Algorithm;
  /** Undefined for a calendar month, and if `calendar` is set. */
  windowSeconds: number | undefined;
  calendar: Calendar | undefined;
  /** Undefined if one key counts for all time. */
  windowStartSeconds: number | undefined;
}

const wholeKey = /^([^{}]*)1\{([^{};]*)(?:;([^{}]*))?\}(month|\d+|[a-z]+@[^@:]+@\d+):(\d+|[a-z]+)$/s;
const cutEntries = /^(.*)~~([0-9a-f]{64})$/s;
const oneEntry = /^([^=~]*(?:~[0-9a-f]{64})?)(=|~=|~\*=)([^=~]*(?:~[0-9a-f]{64})?)$/s;
const onePart = /^([^~]*)(?:~([0-9a-f]{64}))?$/s;

/** Parses an unambiguous key. Returns undefined for any other text. */
export function parseCounterKey(key: string): ParsedCounterKey | undefined {
  const [, prefix, domain, entries, length, start = ''] = wholeKey.exec(key) ?? [];
  if (prefix === undefined || domain === undefined) return undefined;
  const parsed = entries === undefined ? [] : parseEntries(entries);
  if (parsed === undefined) return undefined;
  const algorithm = algorithmOfKeyEnd(start);
  const isCalendar = length?.includes('@') === true;
  const calendar = isCalendar ? calendarFromText(length) : undefined;
  const isSteady = algorithm !== undefined && !hasWindows({ algorithm });
  if (algorithm === undefined || (isCalendar && (calendar === undefined || isSteady))) return undefined;
  return {
    prefix,
    domain: parsePart(domain),
    entries: parsed,
    algorithm,
    windowSeconds: isCalendar || length === 'month' ? undefined : Number(length),
    calendar,
    windowStartSeconds: isSteady ? undefined : Number(start),
  };
}

function parseEntries(written: string): ParsedCounterKey['entries'] | undefined {
  const [, kept, sha256] = cutEntries.exec(written) ?? [];
  if (kept !== undefined) return { text: kept, sha256 };
  const entries: ParsedEntry[] = [];
  for (const one of written.split(';')) {
    const [, key, mark, text] = oneEntry.exec(one) ?? [];
    if (key === undefined || text === undefined) return undefined;
    entries.push({ key: parsePart(key), mark: mark as EntryMark, text: parsePart(text) });
  }
  return entries;
}

function parsePart(written: string): CounterPart {
  const [, text = '', sha256] = onePart.exec(written) ?? [];
  const whole = text.replace(/%u([0-9A-F]{4})|%([0-9A-F]{2})/g, (_, wide, narrow) =>
    String.fromCharCode(Number.parseInt(wide ?? narrow, 16)),
  );
  return { text: whole, sha256 };
}

/** An entry as it is counted. If it was too long, this is its beginning with the hash of the whole. */
export interface EntryReading {
  readonly key: CounterPart;
  /** The value, or the pattern that values share. */
  readonly text: CounterPart;
  readonly isPattern: boolean;
}

export interface CounterReading {
  readonly entries: readonly EntryReading[];
  /** The beginning of the entries and the hash of all of them, if the entries together were too long. */
  readonly cutEntries: CounterPart | undefined;
  readonly algorithm: Algorithm;
  /** Undefined if it is not known, for a calendar month, and if `calendar` is set. */
  readonly windowSeconds: number | undefined;
  /** Whether the window is a month in UTC, as with USE_CALENDAR_MONTH_RATE_LIMIT. */
  readonly isCalendarMonth: boolean;
  readonly calendar: Calendar | undefined;
  /** Undefined if one key counts for all time. */
  readonly startSeconds: number | undefined;
  /** The rule and the limit that count with this key now; undefined: none does. */
  readonly found: { readonly rule: MatchedRule; readonly limit: Limit; readonly path: string } | undefined;
  /** Why the reading may be wrong; undefined: it is certain. */
  readonly doubt: string | undefined;
}

/** The part of the rules in force that reading keys needs. */
export interface WalkableRules {
  /** Returns undefined if there is no such domain. */
  walk(domain: string): RuleWalk | undefined;
}

export interface CounterKeyReaderOptions {
  rules: WalkableRules;
  domain: string;
  /** CACHE_KEY_PREFIX. */
  prefix: string;
  counterKeys: CounterKeys;
  /** USE_CALENDAR_MONTH_RATE_LIMIT. */
  calendarMonth: boolean;
  /** REQUEST_MAX_TEXT_BYTES. */
  maxTextBytes: number;
}

/** Chosen: the steps over rules that one compatible key may take, about 0.1 ms. Most keys take ten; a long part counts as several. */
const maxSteps = 400;
const charsPerStep = 64;
const tooMany = 'it has too many possible meanings to try all';
const cutValueDoubt = 'a value was too long, so its rule is the one for values with this prefix';

interface Reading {
  readonly entries: readonly EntryReading[];
  readonly rule: MatchedRule;
  readonly path: string;
}

/** Reads the keys of one domain. */
export class CounterKeyReader {
  /** The prefixes of its keys, including the CACHE_KEY_PREFIX. */
  readonly prefixes: readonly string[];
  readonly #options: CounterKeyReaderOptions;
  readonly #part: string;
  #steps = 0;
  /** The long texts of the key that is being read, by the text that replaces each in its body. */
  #longTexts: ReadonlyMap<string, { head: string; sha256: string }> = new Map();

  constructor(options: CounterKeyReaderOptions) {
    const { prefix, counterKeys, maxTextBytes } = options;
    const domain = countedText(options.domain, maxTextBytes);
    this.#options = options;
    this.#part = keyPart(domain);
    const unambiguous = `${prefix}1{${this.#part}`;
    this.prefixes = counterKeys === 'compatible' ? [`${prefix}${domain}_`, unambiguous] : [unambiguous];
  }

  /** Returns undefined if the text is not the key of a counter of this domain. */
  read(key: string): CounterReading | undefined {
    const own = key.slice(this.#options.prefix.length);
    if (own.startsWith(`1{${this.#part}`)) {
      const next = own[2 + this.#part.length];
      const parsed = next === ';' || next === '}' ? parseCounterKey(own) : undefined;
      if (parsed !== undefined) return this.#readUnambiguous(parsed);
    }
    const [, body, start] = /^(.*)_(\d{1,12})$/s.exec(own) ?? [];
    return body === undefined || this.#options.counterKeys !== 'compatible'
      ? undefined
      : this.#readCompatible(body, Number(start));
  }

  #readUnambiguous(parsed: ParsedCounterKey): CounterReading {
    const { algorithm, windowSeconds: seconds, calendar, windowStartSeconds: startSeconds } = parsed;
    const length = calendar === undefined ? (seconds ?? 'month') : calendarText(calendar);
    const isCut = 'text' in parsed.entries;
    const entries = 'text' in parsed.entries ? [] : parsed.entries;
    const found = isCut ? undefined : this.#follow(entries);
    const limit = found?.rule.limits.find(
      (one) => one.algorithm === algorithm && this.#lengthOf(one) === length,
    );
    // With compatible keys, plain rules do not count with unambiguous ones.
    const isOfNow =
      this.#options.counterKeys === 'unambiguous' || (found && !arePlainLimits(found.rule.limits));
    const cutValue = entries.some(({ mark, text }) => mark === EntryMark.value && text.sha256 !== undefined);
    return {
      entries: entries.map(({ key, mark, text }) => ({ key, text, isPattern: mark !== EntryMark.value })),
      cutEntries: 'text' in parsed.entries ? parsed.entries : undefined,
      algorithm,
      windowSeconds: seconds,
      isCalendarMonth: length === 'month',
      calendar,
      startSeconds,
      found: found && limit && isOfNow ? { ...found, limit } : undefined,
      doubt: isCut
        ? 'its entries were too long, so it only has their hash'
        : cutValue && found
          ? cutValueDoubt
          : undefined,
    };
  }

  /** Returns the rule that counts these entries. */
  #follow(entries: readonly ParsedEntry[]): { rule: MatchedRule; path: string } | undefined {
    const walk = this.#options.rules.walk(this.#options.domain);
    if (walk === undefined) return undefined;
    let place = walk.start;
    let path = this.#options.domain;
    let rule: MatchedRule | undefined;
    for (const { key, mark, text } of entries) {
      const step = stepOf(walk, place, { key, mark, text });
      if (step === undefined) return undefined;
      place = step.place;
      path += `.${step.composite}`;
      rule = step.rule;
    }
    return rule && { rule, path };
  }

  #readCompatible(written: string, startSeconds: number): CounterReading | undefined {
    const { rules, domain } = this.#options;
    const { body, longTexts } = this.#withoutLongTexts(written);
    this.#longTexts = longTexts;
    const cuts: number[] = [];
    for (let at = body.indexOf('_'); at !== -1; at = body.indexOf('_', at + 1)) cuts.push(at);
    const readings: Reading[] = [];
    let others = 0;
    let isOfOther = '';
    this.#steps = 0;
    for (const cut of cuts) {
      if (!this.#mayStep(cut)) break;
      const name = body.slice(0, cut);
      const walk = rules.walk(name);
      if (walk === undefined) continue;
      const found: Reading[] = [];
      this.#readRest(
        { walk, body, cuts, startSeconds, found },
        { place: walk.start, from: cut + 1, path: name, entries: [] },
      );
      if (name === domain) readings.push(...found);
      else if (found.length > 0) {
        others += found.length;
        isOfOther = name;
      }
    }
    const [first, second] = readings;
    if (first === undefined && others > 0 && this.#steps <= maxSteps) return undefined;
    const limit = first?.rule.limits[0];
    const length = limit && this.#lengthOf(limit);
    return {
      entries: first?.entries ?? [],
      cutEntries: undefined,
      algorithm: defaultAlgorithm,
      windowSeconds: typeof length === 'number' ? length : undefined,
      isCalendarMonth: length === 'month',
      calendar: undefined,
      startSeconds,
      found: first && limit && { rule: first.rule, limit, path: first.path },
      doubt: this.#doubt(first, second, isOfOther) ?? (first && cutDoubt(first)),
    };
  }

  #doubt(first: Reading | undefined, second: Reading | undefined, otherDomain: string): string | undefined {
    if (this.#steps > maxSteps) return tooMany;
    if (first === undefined) return 'no rule in force has such a key, and its parts are ambiguous';
    if (second !== undefined) return `it can also be ${readingText(second)} of rule ${second.path}`;
    return otherDomain === '' ? undefined : `it can also be one of domain ${otherDomain}`;
  }

  /** Continues at a place with the rest of the key. Tries every way to take a key and a value from it for which there is a rule. */
  #readRest(
    key: { walk: RuleWalk; body: string; cuts: readonly number[]; startSeconds: number; found: Reading[] },
    at: { place: number; from: number; path: string; entries: readonly EntryReading[] },
  ): void {
    const { walk, body, cuts } = key;
    for (const [index, keyEnd] of cuts.entries()) {
      if (keyEnd < at.from) continue;
      const entryKey = body.slice(at.from, keyEnd);
      for (let next = index + 1; next <= cuts.length; next += 1) {
        const end = cuts[next] ?? body.length;
        if (!this.#mayStep(end - at.from)) return;
        const value = body.slice(keyEnd + 1, end);
        const long = this.#longTexts.get(value);
        const matched = long === undefined ? value : `${long.head}\0`;
        const text = long ? { text: shownBeginning(long.head), sha256: long.sha256 } : whole(value);
        for (const { step, isPattern } of compatibleSteps(walk, at.place, entryKey, matched)) {
          const entry = { key: whole(entryKey), text, isPattern };
          const below = {
            place: step.place,
            path: `${at.path}.${step.composite}`,
            entries: [...at.entries, entry],
          };
          if (end < body.length) this.#readRest(key, { ...below, from: end + 1 });
          else if (step.rule !== undefined && this.#writes(step.rule, key.startSeconds))
            key.found.push({ entries: below.entries, path: below.path, rule: step.rule });
        }
      }
    }
  }

  /** Replaces each long text by a short one, so that the key is read like others. */
  #withoutLongTexts(written: string): {
    body: string;
    longTexts: ReadonlyMap<string, { head: string; sha256: string }>;
  } {
    const longTexts = new Map<string, { head: string; sha256: string }>();
    let body = '';
    let end = 0;
    for (const found of longTextsIn(written, this.#options.maxTextBytes)) {
      const stand = `\0${longTexts.size}\0`;
      longTexts.set(stand, found);
      body += written.slice(end, found.start) + stand;
      end = found.end;
    }
    return { body: body + written.slice(end), longTexts };
  }

  /** Whether one more step over this number of characters is within the bound. */
  #mayStep(chars: number): boolean {
    this.#steps += 1 + Math.floor(chars / charsPerStep);
    return this.#steps <= maxSteps;
  }

  /** Whether a rule counts in compatible keys, in a window that begins at this time. */
  #writes(rule: MatchedRule, startSeconds: number): boolean {
    const [limit] = rule.limits;
    if (limit === undefined || !arePlainLimits(rule.limits)) return false;
    const length = this.#lengthOf(limit);
    if (typeof length === 'number') return startSeconds % length === 0;
    const start = new Date(startSeconds * 1000);
    return startSeconds === Date.UTC(start.getUTCFullYear(), start.getUTCMonth()) / 1000;
  }

  /** The length of the window, as written in keys. */
  #lengthOf(limit: Limit): number | string {
    const isMonth = limit.calendar === undefined && limit.unit === Unit.MONTH;
    return isMonth && this.#options.calendarMonth ? 'month' : lengthInKeys(limit);
  }
}

/** Returns entries as they are counted now, and the rule that they match; undefined: there is none. */
export function readEntries(
  rules: WalkableRules,
  domain: string,
  entries: readonly Entry[],
  maxTextBytes: number,
): { entries: readonly EntryReading[]; path: string } | undefined {
  const walk = rules.walk(domain);
  if (walk === undefined) return undefined;
  let place = walk.start;
  let path = domain;
  const reported: EntryReading[] = [];
  for (const { key, value } of entries) {
    const step = walk.step(place, key, value);
    if (step === undefined) return undefined;
    const { composite } = step;
    const isPattern = step.shares && step.how !== 'key';
    const pattern = composite.startsWith(`${key}_`) ? composite.slice(key.length + 1) : composite;
    const part = (text: string): CounterPart =>
      isLongText(text, maxTextBytes)
        ? { text: shownBeginning(text), sha256: hash('sha256', text), whole: text }
        : whole(text);
    reported.push({ key: part(key), text: isPattern ? whole(pattern) : part(value), isPattern });
    place = step.place;
    path += `.${composite}`;
  }
  return { entries: reported, path };
}

/** The replacement of a long text in a key that does not mark where its parts end. */
interface FoundLongText {
  /** The position in the key where the text begins, and where it ends. */
  readonly start: number;
  readonly end: number;
  /** The first bytes of the text, as many as its identity has. */
  readonly head: string;
  readonly sha256: string;
}

/** Returns the long texts in a compatible key, as `countedText` writes them. Each is behind a `_`. */
export function longTextsIn(key: string, maxBytes: number): FoundLongText[] {
  const found: FoundLongText[] = [];
  for (const { 0: whole, 1: sha256 = '', index } of key.matchAll(/~sha256:([0-9a-f]{64})/g)) {
    const before = Buffer.from(key.slice(0, index));
    // A character takes up to four bytes, and must not be cut.
    for (let start = before.length - maxBytes; start <= before.length - maxBytes + 3; start++) {
      if (start < 1 || before[start - 1] !== 0x5f) continue;
      const head = before.toString('utf8', start);
      found.push({ start: index - head.length, end: index + whole.length, head, sha256 });
      break;
    }
  }
  return found;
}

function cutDoubt({ entries }: Reading): string | undefined {
  return entries.some(({ text }) => text.sha256 !== undefined) ? cutValueDoubt : undefined;
}

function whole(text: string): CounterPart {
  return { text, sha256: undefined };
}

/**
 * The step for an entry of an unambiguous key. The end of a cut value is unknown, so it is assumed to match no value that a rule names.
 */
function stepOf(walk: RuleWalk, place: number, { key, mark, text }: ParsedEntry): RuleStep | undefined {
  if (key.sha256 !== undefined) return undefined;
  if (mark === EntryMark.value) {
    const step = walk.step(place, key.text, text.sha256 === undefined ? text.text : `${text.text}\0`);
    return step?.shares && step.how !== 'key' ? undefined : step;
  }
  if (text.sha256 !== undefined) return undefined;
  const composite = mark === EntryMark.pattern ? `${key.text}_${text.text}` : text.text;
  const child = walk.child(place, composite);
  return child?.shares ? child : undefined;
}

/** Returns the rules that write an entry in this way. A pattern that several values share is returned as a pattern. */
function compatibleSteps(
  walk: RuleWalk,
  place: number,
  key: string,
  value: string,
): { step: RuleStep; isPattern: boolean }[] {
  const found: { step: RuleStep; isPattern: boolean }[] = [];
  const step = walk.step(place, key, value);
  const isPattern = step?.shares === true && step.how === 'exact';
  if (step !== undefined && !(step.shares && step.how === 'wildcard')) found.push({ step, isPattern });
  // A pattern for key and value together follows the request's own key.
  const ofBoth = value.includes('*') ? walk.child(place, value) : undefined;
  if (ofBoth?.shares && !value.startsWith(`${key}_`) && mayMatchKey(value, key)) {
    found.push({ step: ofBoth, isPattern: true });
  }
  return found;
}

/** Whether some value makes the pattern match `key_value`. */
function mayMatchKey(pattern: string, key: string): boolean {
  const literal = pattern.slice(0, pattern.indexOf('*'));
  return `${key}_`.startsWith(literal) || literal.startsWith(`${key}_`);
}

function readingText({ entries }: Reading): string {
  return entries.map(({ key, text }) => `${key.text}=${text.text}`).join(' ');
}
