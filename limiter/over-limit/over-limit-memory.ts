/** Recently rate-limited requests of one thread: a row for each counter and second, in memory of a fixed size. */
import { algorithmNames } from '../../rules/algorithms/registry.ts';
import { type OptionalLimitFields, optionalFieldsJson } from '../../rules/describe.ts';
import { defaultTextBytes, shownEntries } from '../../rules/long-text.ts';
import { type Entry, type Limit, unitName } from '../../rules/model.ts';
import { windowSeconds } from '../../rules/window.ts';
import { boundedText } from '../capabilities/bounded-text.ts';

/** The part of a rejected hit that is remembered. */
export interface OverLimitHit {
  /** The counter of the limit that rejected the request. */
  readonly counter: {
    readonly rule: { readonly domain: string; readonly path: string };
    readonly limit: Limit;
    readonly override: { readonly id: string; readonly effect?: { readonly kind: string } } | undefined;
    readonly key: string;
    rejection: number;
  };
  /** The end of the window. 0 if the counter has no window that ends. */
  readonly windowEndSeconds: number;
  /** The time from the request to that end. */
  readonly secondsToReset: number;
}

/** The caller of the request: its header section, as name, value, name, value. */
export interface OverLimitCaller {
  readonly fields?: readonly string[] | undefined;
}

/** One row, or the joined rows of several threads for one counter and second. Plain data. */
export interface OverLimitRow {
  /** The time in seconds since 1970. */
  readonly second: number;
  readonly domain: string;
  /** The rule. Null for a limit that belongs to no rule. */
  readonly rule: string | null;
  readonly limitName: string;
  /** The entries. Null if they are too large to store. */
  readonly entries: readonly Entry[] | null;
  readonly used: number;
  readonly limit: number;
  readonly unit: number;
  readonly unitMultiplier: number;
  readonly algorithm: number;
  /** More fields of the limit. */
  readonly more: OptionalLimitFields;
  readonly override: string | null;
  /** Whether an override rejects all hits, regardless of use. */
  readonly blocked?: true;
  /** The version of the rules that rejected the request. Null if too many versions have followed since. */
  readonly rulesVersion: string | null;
  readonly count: number;
  /** The id of the last request. Null if its call had none. */
  readonly requestId: string | null;
  readonly traceId: string | null;
  /** The key of the counter, if there is room for it. */
  readonly key: string | null;
}

export interface OverLimitQuery {
  readonly domain?: string | undefined;
  /** The domains to search. All others are treated as absent. Undefined for all domains. */
  readonly domains?: readonly string[] | undefined;
  /** Entries that a row must have, in any order. It may have others, too. */
  readonly entries?: readonly Entry[] | undefined;
  /** The value of `x-request-id`, or the trace id of `traceparent`. */
  readonly requestId?: string | undefined;
  /** The bounds in seconds since 1970, both included. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  readonly limit: number;
}

export interface FoundOverLimitRows {
  readonly rows: OverLimitRow[];
  /** The number of stored rows of these domains. */
  readonly stored: number;
  /** The second of the oldest of these rows. Undefined if there are none. */
  readonly since: number | undefined;
  /** All domains with stored rows, regardless of the question. */
  readonly domains: string[];
}

/** The size of a row, including its numbers. */
export const overLimitRowBytes = 512;
/** The size of a row's numbers in the arrays below, with some room. */
const numberBytes = 48;
/** Chosen: the stored length of an id. A longer id is cut. A version 00 of `traceparent` has 55 characters. */
const idCharacters = 64;
/** The two of a row: what V8 takes for such a string, and for a reference to it. */
const idBytes = 2 * (16 + idCharacters + 8);
const textBytes = overLimitRowBytes - numberBytes - idBytes;

/**
 * Chosen: the divisor that determines the share of rows that may be new within a second, so that a flood of made-up values leaves rows of
 * earlier seconds.
 */
const newPart = 8;
const fewestNew = 16;
/** Chosen. */
const maxVersions = 64;

const noFields: readonly string[] = [];
const traceForm = /^[0-9a-f]{2}-([0-9a-f]{32})-/;

export class OverLimitMemory {
  readonly #capacity: number;
  readonly #clock: { nowMs(): number };
  readonly #maxTextBytes: number;
  /** The serial number of each row, from 1. 0 if the row is empty. */
  readonly #serials: Float64Array;
  readonly #seconds: Uint32Array;
  readonly #counts: Uint32Array;
  readonly #used: Float64Array;
  readonly #limits: Float64Array;
  /** Unit, algorithm and multiplier, from the lowest bits on. */
  readonly #windows: Uint32Array;
  readonly #versions: Uint32Array;
  /** Ids of domains in `#domainIds`. */
  readonly #domains: Uint32Array;
  /** Ids of the domains with rows, by name. */
  readonly #domainIds = new Map<string, number>();
  readonly #domainRows = new Map<number, { readonly name: string; rows: number }>();
  #lastDomain = 0;
  readonly #lengths: Uint16Array;
  readonly #texts: Buffer;
  /** Request ids as strings of their calls. Writing them among the texts would take a third of the time of a rejection. */
  readonly #requestIds: (string | undefined)[];
  readonly #traceParents: (string | undefined)[];
  readonly #versionNames = new Map<number, string>();
  #version = 0;
  #last = 0;
  #newIn = 0;
  #newSecond = 0;
  #leftOut = 0;

  /** `capacity`: the number of rows, at least 1. `maxTextBytes`: REQUEST_MAX_TEXT_BYTES. */
  constructor(capacity: number, clock: { nowMs(): number }, maxTextBytes = defaultTextBytes) {
    this.#maxTextBytes = maxTextBytes;
    this.#capacity = capacity;
    this.#clock = clock;
    this.#serials = new Float64Array(capacity);
    this.#seconds = new Uint32Array(capacity);
    this.#counts = new Uint32Array(capacity);
    this.#used = new Float64Array(capacity);
    this.#limits = new Float64Array(capacity);
    this.#windows = new Uint32Array(capacity);
    this.#versions = new Uint32Array(capacity);
    this.#domains = new Uint32Array(capacity);
    this.#lengths = new Uint16Array(capacity);
    this.#requestIds = new Array<string | undefined>(capacity).fill(undefined);
    this.#traceParents = new Array<string | undefined>(capacity).fill(undefined);
    // Rows that were never written occupy no physical memory.
    this.#texts = Buffer.alloc(capacity * textBytes);
  }

  /** The number of stored rows. */
  get size(): number {
    return Math.min(this.#last, this.#capacity);
  }

  /** The maximum memory that it takes. */
  get bytes(): number {
    const arrays = [this.#serials, this.#seconds, this.#counts, this.#used, this.#limits, this.#windows];
    const more = [this.#versions, this.#domains, this.#lengths, this.#texts];
    return [...arrays, ...more].reduce((sum, { byteLength }) => sum + byteLength, this.#capacity * idBytes);
  }

  /** The number of rejections without a row, because their second had too many new rows. */
  get leftOut(): number {
    return this.#leftOut;
  }

  /** Sets the version of the rules for all further rejections. */
  useRules(version: string): void {
    this.#version++;
    this.#versionNames.set(this.#version, version);
    this.#versionNames.delete(this.#version - maxVersions);
  }

  note(hit: OverLimitHit, entries: readonly Entry[], used: number, { fields }: OverLimitCaller): void {
    const { counter: plan } = hit;
    const second = this.#secondOf(hit);
    const row = (plan.rejection - 1) % this.#capacity;
    if (plan.rejection !== 0 && this.#serials[row] === plan.rejection && this.#seconds[row] === second) {
      this.#counts[row]!++;
      this.#used[row] = used;
      if (fields !== undefined) this.#keepIds(row, fields);
    } else {
      this.#add(plan, entries, { used, fields, second });
    }
  }

  /**
   * Returns the second of a hit. Reading the system's clock takes half as long as all other work here, and the hit usually has the time.
   */
  #secondOf({ windowEndSeconds, secondsToReset }: OverLimitHit): number {
    if (windowEndSeconds !== 0) return windowEndSeconds - secondsToReset;
    return Math.floor(this.#clock.nowMs() / 1000);
  }

  #add(
    plan: OverLimitHit['counter'],
    entries: readonly Entry[],
    { used, fields, second }: { used: number; second: number } & OverLimitCaller,
  ): void {
    // A late reply of a store belongs to the second before.
    if (second !== this.#newSecond && second !== this.#newSecond - 1) {
      this.#newSecond = second;
      this.#newIn = 0;
    }
    if (++this.#newIn > Math.max(fewestNew, this.#capacity / newPart)) {
      this.#leftOut++;
      return;
    }
    const { limit } = plan;
    const serial = ++this.#last;
    const row = (serial - 1) % this.#capacity;
    plan.rejection = serial;
    if (this.#serials[row] !== 0) this.#leaveDomain(this.#domains[row]!);
    this.#domains[row] = this.#enterDomain(plan.rule.domain);
    this.#serials[row] = serial;
    this.#seconds[row] = second;
    this.#counts[row] = 1;
    this.#used[row] = used;
    this.#limits[row] = limit.requestsPerUnit;
    this.#windows[row] = limit.unit + limit.algorithm * 8 + limit.unitMultiplier * 32;
    this.#versions[row] = this.#version;
    const text = rowText(plan, shownEntries(entries, this.#maxTextBytes));
    this.#lengths[row] = this.#texts.write(text, row * textBytes, textBytes, 'utf8');
    this.#keepIds(row, fields ?? noFields);
  }

  #enterDomain(name: string): number {
    const id = this.#domainIds.get(name) ?? ++this.#lastDomain;
    const known = this.#domainRows.get(id);
    if (known === undefined) {
      this.#domainIds.set(name, id);
      this.#domainRows.set(id, { name, rows: 1 });
    } else known.rows++;
    return id;
  }

  #leaveDomain(id: number): void {
    const known = this.#domainRows.get(id)!;
    if (--known.rows > 0) return;
    this.#domainRows.delete(id);
    this.#domainIds.delete(known.name);
  }

  #keepIds(row: number, fields: readonly string[]): void {
    let requestId: string | undefined;
    let traceParent: string | undefined;
    for (let index = 0; index < fields.length; index += 2) {
      const name = fields[index];
      if (name === 'x-request-id') requestId = fields[index + 1];
      else if (name === 'traceparent') traceParent = fields[index + 1];
    }
    this.#requestIds[row] = boundedId(requestId);
    this.#traceParents[row] = boundedId(traceParent);
  }

  /** The newest first. */
  find({ entries, ...about }: OverLimitQuery): FoundOverLimitRows {
    const question = { ...about, entries: entries && shownEntries(entries, this.#maxTextBytes) };
    const rows: OverLimitRow[] = [];
    const ids = this.#idsOf(question.domains ?? this.#domainIds.keys());
    const asked = question.domain === undefined ? ids : this.#idsOf([question.domain]);
    const wanted = asked.intersection(ids);
    for (let serial = this.#last; serial > this.#last - this.size && wanted.size > 0; serial--) {
      const row = (serial - 1) % this.#capacity;
      const rejection = wanted.has(this.#domains[row]!) ? this.#rejection(row, question) : undefined;
      if (rejection !== undefined) rows.push(rejection);
      if (rows.length === question.limit) break;
    }
    const stored = [...ids].reduce((sum, id) => sum + this.#domainRows.get(id)!.rows, 0);
    return { rows, stored, since: this.#oldestOf(ids), domains: [...this.#domainIds.keys()] };
  }

  #idsOf(names: Iterable<string>): Set<number> {
    return new Set([...names].flatMap((name) => this.#domainIds.get(name) ?? []));
  }

  #oldestOf(ids: ReadonlySet<number>): number | undefined {
    if (ids.size === 0) return undefined;
    let serial = this.#last - this.size;
    while (!ids.has(this.#domains[serial % this.#capacity]!)) serial++;
    return this.#seconds[serial % this.#capacity]!;
  }

  #rejection(row: number, question: OverLimitQuery): OverLimitRow | undefined {
    const second = this.#seconds[row]!;
    const { entries, requestId, since = 0, until = Number.POSITIVE_INFINITY } = question;
    if (second < since || second > until) return undefined;
    const itsId = this.#requestIds[row];
    const traceId = traceForm.exec(this.#traceParents[row] ?? '')?.[1];
    if (requestId !== undefined && itsId !== boundedId(requestId) && traceId !== requestId) return undefined;
    const at = row * textBytes;
    const texts = this.#texts.toString('utf8', at, at + this.#lengths[row]!);
    const [itsDomain, rule, limitName, override, key, pairs, blocked, more = {}] = JSON.parse(
      texts,
    ) as RowTexts;
    const its = pairs?.map(([name, value]) => ({ key: name, value })) ?? null;
    if (entries !== undefined && !entries.every((one) => its?.some((other) => isSame(one, other))))
      return undefined;
    const window = this.#windows[row]!;
    return {
      second,
      domain: itsDomain,
      rule: rule || null,
      limitName,
      entries: its,
      used: this.#used[row]!,
      limit: this.#limits[row]!,
      unit: window & 7,
      unitMultiplier: window >>> 5,
      algorithm: (window >>> 3) & 3,
      more,
      override: override || null,
      ...(blocked === 1 && { blocked: true as const }),
      rulesVersion: this.#versionNames.get(this.#versions[row]!) ?? null,
      count: this.#counts[row]!,
      requestId: itsId || null,
      traceId: traceId ?? null,
      key: key || null,
    };
  }
}

/** Copies the beginning, because a substring would keep the whole string in memory. */
function boundedId(id: string | undefined): string | undefined {
  if (id === undefined || id.length <= idCharacters) return id;
  return Buffer.from(id.slice(0, idCharacters), 'latin1').toString('latin1');
}

type RowTexts = [
  domain: string,
  rule: string,
  limitName: string,
  override: string,
  key: string,
  entries: [string, string][] | null,
  blocked?: 0 | 1,
  more?: OptionalLimitFields,
];

/** A longer value is stored as its beginning and a fingerprint, in the same form as in `/top`. Searches use this form, too. */
function isSame(asked: Entry, stored: Entry): boolean {
  if (asked.key !== stored.key) return false;
  return asked.value === stored.value || boundedText(asked.value, longestValue) === stored.value;
}

/** The maximum length in characters, as `boundedText` cuts. */
const longestValue = 128;
const longestName = 96;

/** Returns as much of the row's text as fits: without the key, then without entries, with short names, and finally without names. */
function rowText({ rule, limit, override, key }: OverLimitHit['counter'], entries: readonly Entry[]): string {
  const pairs = entries.map(({ key: name, value }) => [name, boundedText(value, longestValue)]);
  const names = [rule.domain, rule.path, limit.name, override?.id ?? ''];
  const isBlocked = override?.effect?.kind === 'block';
  const more = optionalFieldsJson(limit);
  const hasMore = Object.keys(more).length > 0;
  const rest = hasMore ? [isBlocked ? 1 : 0, more] : isBlocked ? [1] : [];
  const forms: unknown[][] = [
    [...names, key, pairs, ...rest],
    [...names, '', pairs, ...rest],
    [...names, '', null, ...rest],
  ];
  for (const form of forms) {
    const text = JSON.stringify(form);
    if (text.length <= textBytes && Buffer.byteLength(text) <= textBytes) return text;
  }
  const short = names.map((name) => boundedText(name, longestName));
  const text = JSON.stringify([...short, '', null, ...rest]);
  return Buffer.byteLength(text) <= textBytes ? text : JSON.stringify(['', '', '', '', '', null]);
}

/** Returns a row with the field names of the admin API. */
export function overLimitJson(rejection: OverLimitRow, limiter: string): Record<string, unknown> {
  const { second, unit, unitMultiplier, algorithm, more, ...same } = rejection;
  const { calendar, ...others } = more;
  return {
    at: new Date(second * 1000).toISOString(),
    ...same,
    ...others,
    window: {
      unit: unitName(unit)!.toLowerCase(),
      multiplier: unitMultiplier,
      seconds: calendar === undefined ? windowSeconds(unit, unitMultiplier) : null,
      ...(calendar && { calendar }),
    },
    algorithm: algorithmNames[algorithm],
    limiter,
  };
}
