/** `/v1/counters`: lists the counters of a domain page by page, or those of one descriptor, and resets them. */
import { setImmediate as nextTurn, setTimeout as rest } from 'node:timers/promises';
import {
  type ApiCall,
  ApiProblem,
  type ApiRoute,
  domainOf,
  entryOf,
  type OperatorChange,
  type ReportChange,
  shown,
} from '../../process/http/api-route.ts';
import { errorText } from '../../process/log/error-text.ts';
import type { Clock } from '../../process/time/clock.ts';
import { defaultTextBytes, shownKey, shownText } from '../../rules/long-text.ts';
import type { RuleMatch, RuleMatcher } from '../../rules/match-result.ts';
import { arePlainLimits, type Entry, type Limit } from '../../rules/model.ts';
import type { PlanSettings } from '../decide/plan.ts';
import { counterWindow, isCalendarMonth, lengthOf, type Window } from '../decide/windows.ts';
import { StoreError } from '../stores/store-error.ts';
import {
  CounterKeyReader,
  type CounterReading,
  readEntries,
  type WalkableRules,
} from './counter-key-reader.ts';
import { type CounterJson, counterJson, type EffectiveLimit, endOf } from './counter-view.ts';
import { ListGate } from './list-gate.ts';
import type { CounterResets, ResetOutcome } from './resets.ts';
import { type CounterRef, type StoreAdmin, StoreAdminRejection } from './store-admin/store-admin.ts';

export interface CounterParts {
  storeAdmin: StoreAdmin;
  /** The rules in force; undefined: none are loaded yet. */
  rules: () => (RuleMatcher & WalkableRules & { domainNames(): string[] }) | undefined;
  settings: PlanSettings;
  clock: Clock;
  limitOf?: EffectiveLimit | undefined;
}

export interface CountersQuery {
  readonly domain: string;
  /** The entries of one descriptor; undefined: all counters of the domain that are found. */
  readonly entries: readonly Entry[] | undefined;
  readonly over: boolean;
  /** A page ends with the slice that reaches this number. */
  readonly limit: number;
  readonly cursor: string | undefined;
  /** Whether a list may contain counters that, by their ambiguous keys, may belong to this other domain. */
  mayHave(other: string): boolean;
}

export interface FoundCounter {
  readonly ref: CounterRef;
  readonly json: CounterJson;
}

export interface CounterPage {
  readonly counters: FoundCounter[];
  /** An opaque position; undefined: the list has ended. */
  readonly cursor: string | undefined;
  /** The number of keys that were read. */
  readonly scanned: number;
  readonly notes: string[];
}

/** The time that a page may take. */
const pageMs = 150;
const defaultLimit = 100;
const maxLimit = 1_000;
/** The number of reset counters that the answer of a page lists. */
const maxShown = 100;
/** Chosen: keys of a slice, which take Redis and this thread about 0.2 ms (`npm run bench:listing`). */
const sliceKeys = 32;
/** Chosen: the pause between two slices, so that lists take a small share of Redis and of this thread, however many pages are read. */
const restMs = 2;
/** Chosen: the time for which reporting keys may block the thread. */
const heldMs = 0.3;
/** The size of slices where none has keys of the domain, which cost little here. */
const maxSliceKeys = 200;

/** Orders of counters, by the value of `sort`. */
const orders: Readonly<Record<string, (a: CounterJson, b: CounterJson) => number>> = {
  used: (a, b) => (b.used ?? -1) - (a.used ?? -1),
  left: (a, b) => (a.left ?? Number.MAX_VALUE) - (b.left ?? Number.MAX_VALUE),
  reset: (a, b) => (a.reset ?? Number.MAX_VALUE) - (b.reset ?? Number.MAX_VALUE),
  key: (a, b) => (a.key < b.key ? -1 : 1),
};

export function counterRoutes(
  parts: CounterParts,
  { resets, report }: { resets: Pick<CounterResets, 'reset'>; report: ReportChange },
): ApiRoute[] {
  const gate = new ListGate();
  const found = (question: CountersQuery): Promise<CounterPage> =>
    question.entries === undefined
      ? gate.pass(() => readCounters(parts, question))
      : readCounters(parts, question);
  return [
    {
      method: 'DELETE',
      path: '/v1/counters',
      right: 'admin',
      parameters: ['domain', 'entry', 'all', 'over', 'cursor', 'limit'],
      answer: async (call) => {
        // A counter that may belong to another domain is not reset with this one.
        const question = { ...parseCountersQuery(call, 'admin', maxLimit), mayHave: () => false };
        const isAll = oneOf(call.query, 'all', ['true', 'false']) === 'true';
        if (isAll === (question.entries !== undefined)) {
          throw new ApiProblem(
            400,
            'a reset is for one descriptor (entry=key=value, in their order), or with all=true for the whole domain, never both',
          );
        }
        const { counters, cursor, notes } = await found(question);
        const refs = counters.map(({ ref }) => ref);
        const reported = (after: string): void => {
          if (refs.length > 0) report(resetChange(call, question, counters, after));
        };
        const outcome = await resets.reset(refs).catch((error: unknown) => {
          reported(`failed: ${errorText(error)} (of ${refs.length}; none, some or all of them may be reset)`);
          throw counterProblem(parts.storeAdmin, error);
        });
        reported(outcomeText(outcome));
        const { reset, limiters, missing } = outcome;
        const shownOnes = counters.slice(0, maxShown).map(({ json }) => json);
        return { body: { reset, counters: shownOnes, cursor: cursor ?? null, limiters, missing, notes } };
      },
    },
    {
      method: 'GET',
      path: '/v1/counters',
      right: 'read',
      parameters: ['domain', 'entry', 'over', 'sort', 'cursor', 'limit'],
      answer: async (call) => {
        const question = parseCountersQuery(call, 'read');
        const order = oneOf(call.query, 'sort', Object.keys(orders));
        const { counters, cursor, scanned, notes } = await found(question);
        const shownOnes = counters.map(({ json }) => json);
        if (order !== undefined) shownOnes.sort(orders[order]);
        return { lines: pageLines(shownOnes, { cursor: cursor ?? null, scanned, notes }) };
      },
    },
  ];
}

function resetChange(
  { actor }: ApiCall,
  { domain, entries }: CountersQuery,
  counters: readonly FoundCounter[],
  after: string,
): OperatorChange {
  const target =
    entries?.map(({ key, value }) => `${key}=${shownText(value, defaultTextBytes)}`).join(', ') ??
    'all counters';
  const before = counters.map(
    ({ json: { key, used, limit } }) => `${shownKey(key)}: ${used ?? '?'} of ${limit ?? '?'}`,
  );
  return { actor, what: 'counters-reset', domain, target, before: before.join(', '), after };
}

function outcomeText({ reset, limiters }: ResetOutcome): string {
  const confirmed = limiters.filter((limiter) => limiter.confirmed).length;
  return `${reset} reset, confirmed by ${confirmed} of ${limiters.length} limiters`;
}

/** Makes the text in pieces: a thousand counters at once would delay decisions by milliseconds. */
function* pageLines(counters: readonly CounterJson[], rest: object): Generator<string> {
  yield '{"counters":[';
  for (const [i, counter] of counters.entries())
    yield JSON.stringify(counter) + (i < counters.length - 1 ? ',' : '');
  yield `],${JSON.stringify(rest).slice(1)}`;
}

/** @throws ApiProblem if the question is invalid */
export function parseCountersQuery(
  call: ApiCall,
  right: ApiRoute['right'],
  limit = defaultLimit,
): CountersQuery {
  const { query } = call;
  const domain = domainOf(call, right);
  const texts = query.getAll('entry');
  const cursor = query.get('cursor') || undefined;
  if (texts.length > 0 && cursor !== undefined) {
    throw new ApiProblem(400, 'cursor is only for lists, not for the counters of one descriptor');
  }
  return {
    domain,
    entries: texts.length === 0 ? undefined : texts.map(entryOf),
    over: oneOf(query, 'over', ['true', 'false']) === 'true',
    limit: limitOf(query.get('limit') ?? String(limit)),
    cursor: cursor && Buffer.from(cursor, 'base64url').toString(),
    mayHave: (other) => call.actor.mayRead(other),
  };
}

function limitOf(text: string): number {
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= maxLimit) return limit;
  throw new ApiProblem(400, `limit must be from 1 to ${maxLimit}, not ${shown(text)}`);
}

function oneOf(query: URLSearchParams, name: string, values: readonly string[]): string | undefined {
  const value = query.get(name) || undefined;
  if (value === undefined || values.includes(value)) return value;
  throw new ApiProblem(400, `${name} must be one of ${values.join(', ')}, not ${shown(value)}`);
}

/** Returns a page of counters. Rejects with an `ApiProblem` if the store is unavailable or cannot list, or if the cursor is invalid. */
async function readCounters(parts: CounterParts, question: CountersQuery): Promise<CounterPage> {
  try {
    return question.entries === undefined
      ? await listCounters(parts, question)
      : await countersOf(parts, question, question.entries);
  } catch (error) {
    throw counterProblem(parts.storeAdmin, error);
  }
}

/** Turns the errors of a store into answers, and returns other errors unchanged. */
export function counterProblem(storeAdmin: StoreAdmin, error: unknown): unknown {
  if (error instanceof StoreAdminRejection)
    return new ApiProblem(error.isQuestions ? 400 : 501, error.message);
  if (!(error instanceof StoreError)) return error;
  const missing = storeAdmin.missing.filter(({ message }) => message === error.message);
  const shownText = error.textForCallers;
  if (error.transient) return new ApiProblem(503, `the store does not answer: ${shownText}`);
  if (missing.length === 0) return new ApiProblem(503, shownText);
  const commands = missing.map(({ command }) => command).join(', ');
  return new ApiProblem(501, `${shownText} (denied by the store: ${commands})`, { missing });
}

async function listCounters(parts: CounterParts, question: CountersQuery): Promise<CounterPage> {
  const { storeAdmin, clock, settings, rules } = parts;
  const { domain, over, limit } = question;
  const table = rules();
  const reader = new CounterKeyReader({
    rules: table ?? { walk: () => undefined },
    domain,
    prefix: settings.cacheKeyPrefix,
    counterKeys: settings.counterKeys,
    calendarMonth: settings.useCalendarMonthRateLimit,
    maxTextBytes: settings.maxTextBytes,
  });
  // Compatible keys of `shop_eu` begin like those of `shop`.
  const foreign = (table?.domainNames() ?? [])
    .filter((other) => other.startsWith(`${domain}_`) && !question.mayHave(other))
    .map((other) => `${settings.cacheKeyPrefix}${other}_`);
  let leftOut = 0;
  const isForeign = (key: string, { doubt }: CounterReading): boolean => {
    const isLeftOut = doubt !== undefined && foreign.some((beginning) => key.startsWith(beginning));
    leftOut += Number(isLeftOut);
    return isLeftOut;
  };
  const endMs = clock.monotonicMs() + pageMs;
  const counters: FoundCounter[] = [];
  const notes: string[] = [];
  let from = question.cursor;
  let count = Math.min(sliceKeys, limit);
  let scanned = 0;
  do {
    const slice = await storeAdmin.scan({ prefixes: reader.prefixes, from, count });
    scanned += slice.scanned;
    notes.push(...slice.notes);
    const found = await readSlice(parts, { domain, reader, isForeign }, slice.counters);
    counters.push(...(over ? found.filter(({ json }) => json.over) : found));
    from = slice.place;
    if (slice.counters.length === 0) count = Math.min(maxSliceKeys, 2 * count);
    // Requests that wait for a decision go first.
    await rest(restMs);
  } while (from !== undefined && counters.length < limit && clock.monotonicMs() < endMs);
  // Counters may outlive the rules of their domain.
  if (table !== undefined && !table.hasDomain(domain) && counters.length === 0 && from === undefined)
    notes.push(`no rules are in force for the domain ${shown(domain)}`);
  if (leftOut > 0)
    notes.push(
      `${leftOut} keys are omitted because they may belong to another domain (COUNTER_KEYS=compatible)`,
    );
  return { counters, cursor: from && Buffer.from(from).toString('base64url'), scanned, notes };
}

/** Returns the counters of the domain in one slice that have not expired. */
async function readSlice(
  { storeAdmin, clock, limitOf }: CounterParts,
  {
    domain,
    reader,
    isForeign,
  }: {
    domain: string;
    reader: CounterKeyReader;
    isForeign: (key: string, reported: CounterReading) => boolean;
  },
  refs: readonly CounterRef[],
): Promise<FoundCounter[]> {
  const counting: { ref: CounterRef; reported: CounterReading }[] = [];
  const nowMs = clock.nowMs();
  let sinceMs = clock.monotonicMs();
  for (const ref of refs) {
    // Keys made up by callers can take long to report.
    if (clock.monotonicMs() - sinceMs > heldMs) {
      await nextTurn();
      sinceMs = clock.monotonicMs();
    }
    const reported = reader.read(ref.key);
    if (reported === undefined || (endOf(reported) ?? Number.POSITIVE_INFINITY) * 1000 <= nowMs) continue;
    if (isForeign(ref.key, reported)) continue;
    counting.push({ ref, reported });
  }
  if (counting.length === 0) return [];
  const held = await storeAdmin.read(counting.map(({ ref }) => ref));
  return counting.flatMap(({ ref, reported }, i) => {
    const one = held[i];
    if (one === undefined) return [];
    return [{ ref, json: counterJson({ domain, ref, reported, held: one, nowMs, limitOf }) }];
  });
}

/** The counters of all limits of the rule that matched, in their current windows, whether they exist or not. */
export function countersNow(
  { rule, counterStem }: RuleMatch,
  nowMs: number,
  settings: PlanSettings,
): { ref: CounterRef; limit: Limit; window: Window }[] {
  const isOwn = !arePlainLimits(rule.limits);
  const perSecond = rule.limits.every((limit) => lengthOf(limit) < 60);
  return rule.limits.map((limit) => {
    const window = counterWindow(limit, isOwn, Math.floor(nowMs / 1000), settings);
    return {
      ref: { key: `${settings.cacheKeyPrefix}${counterStem}${window.keySuffix}`, perSecond },
      limit,
      window,
    };
  });
}

/** The counters of all limits of the rule in force, in their current windows, whether they exist or not. */
async function countersOf(
  { storeAdmin, clock, settings, rules, limitOf }: CounterParts,
  { domain, over }: CountersQuery,
  entries: readonly Entry[],
): Promise<CounterPage> {
  const table = rules();
  const match = table?.match(domain, entries, settings);
  const reported = table && readEntries(table, domain, entries, settings.maxTextBytes);
  if (match === undefined || reported === undefined || match.rule.unlimited) {
    const note = !table?.hasDomain(domain)
      ? `no rules are in force for the domain ${shown(domain)}`
      : match === undefined
        ? 'no rule matches these entries'
        : `rule ${reported?.path} is unlimited: it counts nothing`;
    return { counters: [], cursor: undefined, scanned: 0, notes: [note] };
  }
  const { rule } = match;
  const nowMs = clock.nowMs();
  const counting = countersNow(match, nowMs, settings).map(({ ref, limit, window }) => {
    const isMonth = isCalendarMonth(limit, settings);
    return {
      ref,
      reported: {
        entries: reported.entries,
        cutEntries: undefined,
        algorithm: limit.algorithm,
        windowSeconds: isMonth || limit.calendar !== undefined ? undefined : lengthOf(limit),
        isCalendarMonth: isMonth,
        calendar: limit.calendar,
        startSeconds: Number.isFinite(window.startSeconds) ? window.startSeconds : undefined,
        found: { rule, limit, path: reported.path },
        doubt: undefined,
      },
    };
  });
  const held = await storeAdmin.read(counting.map(({ ref }) => ref));
  const counters = counting.map(({ ref, reported: one }, i) => ({
    ref,
    json: counterJson({ domain, ref, reported: one, held: held[i], nowMs, limitOf }),
  }));
  const shownOnes = over ? counters.filter(({ json }) => json.over) : counters;
  return { counters: shownOnes, cursor: undefined, scanned: counters.length, notes: [] };
}
