/**
 * An override: a temporary change of the rules. It is read in one way, whatever it came in: a body of the API, a file, `spec`
 * of an object, flags of the CLI.
 */
import type { Capabilities } from './language/capabilities.ts';
import { entryFields, overrideFields } from './language/fields.ts';
import { effectFields, endFields, namesOf } from './language/tables.ts';
import {
  type Entry,
  isObject,
  maxUint32,
  mostRequests,
  type Unit,
  unitFromText,
  unitName,
  wholeFrom,
} from './model.ts';
import { formatManifestError, quoted, type RuleError, RuleErrorList } from './rule-error.ts';
import { windowFromText, windowSeconds, windowText } from './window.ts';
import { readDocument } from './yaml/document.ts';
import { valuePlacer } from './yaml/places.ts';
import { decodeYaml } from './yaml/text.ts';

export type OverrideEffect =
  /** In place of the matched limit's requests; window, algorithm and counter stay. `unit` is for where no rule matches. */
  | { readonly kind: 'limit'; readonly requestsPerUnit: number; readonly unit: Unit | undefined }
  | { readonly kind: 'unlimited' }
  | { readonly kind: 'shadow' }
  | { readonly kind: 'block' }
  /** This many more hits, until the window ends in which it was created, or for the length of a window. */
  | { readonly kind: 'grant'; readonly hits: number };

/** Plain data: it is posted to threads and kept in stores. */
export interface Override {
  /** Different for every override: of an object its uid, of a file its path and place, else random or the caller's. */
  readonly id: string;
  readonly source: 'object' | 'api' | 'file';
  /** For people: `namespace/name`, the id, `file.yaml:3`. */
  readonly name: string;
  readonly domain: string;
  /** The whole list of a descriptor's entries; in values `*` stands for any text, but for grants. */
  readonly match: readonly Entry[];
  /** Which of several limits of the matched rule; empty: all of them, of `limit` and `grant` the only one. */
  readonly limit: string;
  readonly effect: OverrideEffect;
  /** Milliseconds since 1970. */
  readonly createdMs: number;
  /** Undefined: permanent; of a grant its window decides. */
  readonly endsMs: number | undefined;
  readonly reason: string;
  /** The author, for people. Empty if unknown. */
  readonly by: string;
}

export function neededForOverride({ effect }: Override): Capabilities {
  const hits = effect.kind === 'grant' ? effect.hits : effect.kind === 'limit' ? effect.requestsPerUnit : 0;
  return hits > maxUint32 ? ['overrides', 'wide-numbers'] : ['overrides'];
}

/** The place that two overrides cannot share. The older one applies. Grants apply beside all others. */
export function overridePlace({
  id,
  domain,
  match,
  limit,
  effect,
}: Pick<Override, 'id' | 'domain' | 'match' | 'limit' | 'effect'>): string {
  const entries = match.flatMap(({ key, value }) => [key, value]);
  return JSON.stringify([domain, limit, ...entries, ...(effect.kind === 'grant' ? [null, id] : [])]);
}

/** Compares by age and then by id, so that every process agrees which was first. */
export function byAge(a: Override, b: Override): number {
  if (a.createdMs !== b.createdMs) return a.createdMs - b.createdMs;
  return a.id < b.id ? -1 : Number(a.id > b.id);
}

/** Returns whether values of it contain a `*`. */
export function isPattern({ match }: Pick<Override, 'match'>): boolean {
  return match.some(({ value }) => value.includes('*'));
}

export interface OverrideStanding {
  readonly standing: 'InForce' | 'Ended' | 'Conflicted' | 'NoRule';
  /** For people; empty where there is nothing to add. */
  readonly message: string;
  /** The words for what it changes, by the rules in force. Undefined if the rules are unknown. */
  readonly words?: string;
}

/** The form that `/v1/overrides` reports and commands print. For a grant without its own end, its window determines the end. */
export function overrideJson(
  override: Override,
  nowMs: number,
  { standing, message, words }: OverrideStanding = standingByTime(override, nowMs),
): Record<string, unknown> {
  const { id, source, name, domain, match, limit, createdMs, endsMs, reason, by } = override;
  const endsAt = endsMs === undefined ? null : new Date(endsMs).toISOString();
  return {
    ...{ id, source, name, domain, match, limit, ...effectJson(override.effect) },
    ...(endsAt === null ? override.effect.kind !== 'grant' && { permanent: true } : { expiresAt: endsAt }),
    reason,
    createdAt: createdMs === 0 ? null : new Date(createdMs).toISOString(),
    endsAt,
    secondsLeft: endsMs === undefined ? null : Math.max(0, Math.ceil((endsMs - nowMs) / 1000)),
    createdBy: by,
    standing,
    message,
    ...(words !== undefined && { words }),
  };
}

export function standingByTime({ endsMs }: Override, nowMs: number): OverrideStanding {
  return { standing: endsMs !== undefined && endsMs <= nowMs ? 'Ended' : 'InForce', message: '' };
}

/** The one field of its effect, and `unit`. */
export function effectJson(effect: OverrideEffect): Record<string, unknown> {
  if (effect.kind === 'grant') return { grant: effect.hits };
  if (effect.kind !== 'limit') return { [effect.kind]: true };
  const { requestsPerUnit, unit } = effect;
  return { requestsPerUnit, ...(unit !== undefined && { unit: unitName(unit)!.toLowerCase() }) };
}

/** For people: `100 per minute`, `unlimited`, `1000 more`. */
export function effectWords(effect: OverrideEffect): string {
  if (effect.kind === 'grant') return `${effect.hits} more`;
  if (effect.kind !== 'limit') return effect.kind === 'block' ? 'blocked' : effect.kind;
  const { requestsPerUnit, unit } = effect;
  return unit === undefined
    ? `${requestsPerUnit} per window`
    : `${requestsPerUnit} per ${unitName(unit)!.toLowerCase()}`;
}

/** The longest id. */
const mostIdLength = 128;

/** The form of an id that a person chose. */
const idForm = /^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$/;

/** Default of OVERRIDES_MAX_SECONDS: 30 days. */
export const defaultOverridesMaxSeconds = 2_592_000;

export interface OverrideOrigin {
  readonly source: Override['source'];
  /** Where the value has no `id`. */
  readonly id: string;
  /** Defaults to the id. */
  readonly name?: string;
  /** The time that decides which override was first. A file has none, so it is 0. */
  readonly createdMs: number;
  readonly by: string;
  /** Where `for` and the longest time begin: creation, of a file now. */
  readonly fromMs: number;
  /** OVERRIDES_MAX_SECONDS. */
  readonly maxSeconds: number;
  /** Ends that have passed are a mistake, as where somebody sets it now. */
  readonly refusesPast: boolean;
}

/** `path` leads from the value to what is wrong; `formatManifestError` makes a line of both. */
export interface OverrideProblem {
  readonly path: readonly (string | number)[];
  readonly text: string;
}

export type OverrideReading =
  | { readonly override: Override; readonly problems?: undefined }
  | { readonly override?: undefined; readonly problems: readonly OverrideProblem[] };

const fields: readonly string[] = [...namesOf(overrideFields), 'id'];

/** Reports everything that is wrong, each with its field. Without a prototype's fields: the value is JSON or YAML. */
export function readOverride(value: unknown, origin: OverrideOrigin): OverrideReading {
  if (!isObject(value))
    return { problems: [{ path: [], text: `must be an object, not ${typeWord(value)}` }] };
  const reader = new Reader(value, origin);
  const override = reader.read();
  return reader.problems.length === 0 ? { override } : { problems: reader.problems };
}

class Reader {
  readonly problems: OverrideProblem[] = [];
  readonly #value: Record<string, unknown>;
  readonly #origin: OverrideOrigin;

  constructor(value: Record<string, unknown>, origin: OverrideOrigin) {
    this.#value = value;
    this.#origin = origin;
  }

  read(): Override {
    for (const field of Object.keys(this.#value)) {
      if (!fields.includes(field))
        this.#report([field], `is no field of an override: ${fields.join(', ')} are`);
    }
    const { source, createdMs, by } = this.#origin;
    const effect = this.#effect();
    const isGrant = effect.kind === 'grant';
    const id = this.#id(isGrant);
    return {
      id,
      source,
      name: this.#origin.name ?? id,
      domain: this.#text('domain', overrideFields.domain.most) ?? '',
      match: this.#match(isGrant),
      limit: this.#has('limit') ? (this.#text('limit', overrideFields.limit.most, true) ?? '') : '',
      effect,
      createdMs,
      endsMs: this.#endsMs(isGrant),
      reason: this.#text('reason', overrideFields.reason.most) ?? '',
      by,
    };
  }

  /** The value null counts as not written, as for the API server. */
  #has(field: string): boolean {
    return Object.hasOwn(this.#value, field) && this.#value[field] != null;
  }

  #report(path: readonly (string | number)[], text: string): void {
    this.problems.push({ path, text });
  }

  #text(field: string, most: number, mayBeEmpty = false): string | undefined {
    if (!this.#has(field)) {
      this.#report([field], 'is required');
      return undefined;
    }
    return this.#checkedText(this.#value[field], [field], most, mayBeEmpty);
  }

  #checkedText(
    value: unknown,
    path: readonly (string | number)[],
    most: number,
    mayBeEmpty: boolean,
  ): string | undefined {
    if (typeof value !== 'string') this.#report(path, `must be a text, not ${typeWord(value)}`);
    else if (!mayBeEmpty && value.trim() === '') this.#report(path, 'must not be empty');
    else if (value.length > most) this.#report(path, `has ${value.length} characters, and can have ${most}`);
    else return value;
    return undefined;
  }

  #id(isGrant: boolean): string {
    const { source, id } = this.#origin;
    if (!this.#has('id')) {
      if (isGrant && source === 'file')
        this.#report(['id'], 'is required of a grant in a file: it makes the grant happen once');
      return id;
    }
    const given = this.#text('id', mostIdLength);
    if (given !== undefined && !idForm.test(given))
      this.#report(['id'], `must be letters, digits and . _ : / - , beginning with a letter or digit`);
    return given ?? id;
  }

  #match(isGrant: boolean): Entry[] {
    const given = this.#value['match'];
    if (!Array.isArray(given)) {
      this.#report(
        ['match'],
        given == null ? 'is required' : `must be a list of entries, not ${typeWord(given)}`,
      );
      return [];
    }
    const { least, most } = overrideFields.match;
    if (given.length < least || given.length > most) {
      this.#report(['match'], `must have ${least} to ${most} entries, and has ${given.length}`);
      return [];
    }
    return given.map((entry, index) => this.#entry(entry, ['match', index], isGrant));
  }

  #entry(given: unknown, path: readonly (string | number)[], isGrant: boolean): Entry {
    if (!isObject(given)) {
      this.#report(path, `must be an object with key and value, not ${typeWord(given)}`);
      return { key: '', value: '' };
    }
    for (const field of Object.keys(given))
      if (field !== 'key' && field !== 'value')
        this.#report([...path, field], 'is no field of an entry: key and value are');
    const key = this.#checkedText(given['key'], [...path, 'key'], entryFields.key.most, false) ?? '';
    const value =
      this.#checkedText(given['value'] ?? '', [...path, 'value'], entryFields.value.most, true) ?? '';
    if (isGrant && value.includes('*'))
      this.#report([...path, 'value'], 'of a grant must be exact, without *');
    return { key, value };
  }

  #effect(): OverrideEffect {
    // `unlimited: false` says nothing.
    const written = effectFields.filter((field) => this.#has(field) && this.#value[field] !== false);
    if (written.length !== 1) {
      const found = written.length === 0 ? 'none' : written.join(' and ');
      this.#report([], `must have exactly one of ${effectFields.join(', ')}, found ${found}`);
    }
    const [field] = written;
    const unit = this.#unit(field);
    if (field === 'requestsPerUnit') return { kind: 'limit', requestsPerUnit: this.#count(field, 0), unit };
    if (field === 'grant') return { kind: 'grant', hits: this.#count(field, 1) };
    if (field === undefined) return { kind: 'shadow' };
    if (this.#value[field] !== true) this.#report([field], `must be true, not ${quoted(this.#value[field])}`);
    return { kind: field };
  }

  #count(field: string, least: number): number {
    const value = this.#value[field];
    const number = wholeFrom(value);
    if (number !== undefined && number >= least) return number;
    this.#report([field], `must be a whole number from ${least} to ${mostRequests}, not ${quoted(value)}`);
    return least;
  }

  #unit(effect: string | undefined): Unit | undefined {
    if (!this.#has('unit')) return undefined;
    const text = this.#text('unit', 16);
    const unit = text === undefined ? undefined : unitFromText(text);
    if (text !== undefined && unit === undefined)
      this.#report(['unit'], `must be second, minute, hour, day, week, month or year, not ${quoted(text)}`);
    if (effect !== 'requestsPerUnit') this.#report(['unit'], 'is for requestsPerUnit alone');
    return unit;
  }

  #endsMs(isGrant: boolean): number | undefined {
    const { source } = this.#origin;
    const written = endFields.filter((field) => this.#has(field) && this.#value[field] !== false);
    if (isGrant && source !== 'file') {
      for (const field of written) this.#report([field], 'is not for a grant, which ends with its window');
      return undefined;
    }
    const possible = source === 'file' ? (isGrant ? ['expiresAt'] : ['expiresAt', 'permanent']) : endFields;
    if (source === 'file' && written.includes('for')) {
      this.#report(['for'], 'is not for files, which say nothing of when they were made: write expiresAt');
      return undefined;
    }
    if (written.length !== 1 || !possible.includes(written[0]!)) {
      const found = written.length === 0 ? 'none' : written.join(' and ');
      const needed = possible.length === 1 ? possible[0] : `exactly one of ${possible.join(', ')}`;
      this.#report([], `must have ${needed}, found ${found}`);
      return undefined;
    }
    const [field] = written;
    if (field !== 'permanent') return field === 'for' ? this.#afterTime() : this.#atDate();
    if (this.#value['permanent'] !== true)
      this.#report(['permanent'], `must be true, not ${quoted(this.#value['permanent'])}`);
    return undefined;
  }

  #afterTime(): number | undefined {
    const text = this.#text('for', 64);
    if (text === undefined) return undefined;
    const read = windowFromText(text);
    if (typeof read === 'string') {
      this.#report(['for'], `${quoted(text)} ${read}`);
      return undefined;
    }
    return this.#inBounds('for', this.#origin.fromMs + windowSeconds(read.unit, read.multiplier)! * 1000);
  }

  #atDate(): number | undefined {
    const text = this.#text('expiresAt', 64);
    if (text === undefined) return undefined;
    const endsMs = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/.test(text)
      ? Date.parse(text.replace(' ', 'T').toUpperCase())
      : Number.NaN;
    if (Number.isNaN(endsMs)) {
      this.#report(
        ['expiresAt'],
        `must be a date and time such as 2026-01-31T18:00:00Z, not ${quoted(text)}`,
      );
      return undefined;
    }
    if (this.#origin.refusesPast && endsMs <= this.#origin.fromMs)
      this.#report(['expiresAt'], `${text} has passed`);
    return this.#inBounds('expiresAt', endsMs);
  }

  #inBounds(field: string, endsMs: number): number {
    const { fromMs, maxSeconds } = this.#origin;
    if (endsMs - fromMs > maxSeconds * 1000) {
      const most = windowText(1, maxSeconds);
      this.#report(
        [field],
        `is ${Math.ceil((endsMs - fromMs) / 1000)} s away, and can be ${maxSeconds} (${most}, OVERRIDES_MAX_SECONDS): make it permanent for longer`,
      );
    }
    return endsMs;
  }
}

function typeWord(value: unknown): string {
  if (value == null) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'an object' : `the ${typeof value} ${quoted(value)}`;
}

export interface OverrideFileOptions {
  readonly nowMs: number;
  /** OVERRIDES_MAX_SECONDS. */
  readonly maxSeconds: number;
}

/** Returns whether a text is intended as a file of overrides: it has `overrides` where a rule file has `descriptors`. */
export function looksLikeOverrides(text: string | Uint8Array): boolean {
  const decoded = decodeYaml(text);
  return typeof decoded === 'string' && /^["']?overrides["']?[ \t]*:/m.test(decoded);
}

/** A file of `domain` and `overrides`, each with the fields of an object's `spec`. Errors have their places; `name` is the file's. */
export function readOverrideFile(
  name: string,
  text: string | Uint8Array,
  options: OverrideFileOptions,
): { overrides: Override[]; errors: RuleError[] } {
  const list = new RuleErrorList();
  const overrides: Override[] = [];
  const unplaced = { source: name, path: [], line: undefined, column: undefined };
  const decoded = decodeYaml(text);
  if (typeof decoded !== 'string') {
    list.add({ ...unplaced, code: 'syntax', text: 'is no text in UTF-8' });
    return { overrides, errors: list.errors };
  }
  const document = readDocument(decoded, 'typed');
  if (!('tape' in document)) {
    const line = decoded.slice(0, document.offset).split('\n').length;
    list.add({ ...unplaced, code: 'syntax', text: document.text, line, column: 1 });
    return { overrides, errors: list.errors };
  }
  const placeOf = valuePlacer(document.tape);
  const report = (path: readonly (string | number)[], problem: string): void => {
    const { line, column } = placeOf(path);
    list.add({
      code: 'wrong-type',
      source: name,
      text: formatManifestError({ path, text: problem }),
      path,
      line,
      column,
    });
  };
  if (document.hasMore)
    report([], 'only the first document of a file is read: put all overrides into one list');
  const fields = isObject(document.value) ? document.value : {};
  if (fields !== document.value) report([], 'must be a map with domain and overrides');
  for (const field of Object.keys(fields))
    if (field !== 'domain' && field !== 'overrides')
      report([field], 'is no field of a file of overrides: domain and overrides are');
  const { domain, overrides: given } = fields;
  if (!Array.isArray(given)) report(['overrides'], 'must be a list');
  for (const [index, one] of (Array.isArray(given) ? given : []).entries()) {
    const at = ['overrides', index];
    if (isObject(one) && Object.hasOwn(one, 'domain'))
      report([...at, 'domain'], 'stands at the top of the file, once');
    const id = `${name}:${index + 1}`;
    const reading = readOverride(isObject(one) ? { ...one, domain } : one, {
      ...{ source: 'file', id, name: id, createdMs: 0, by: '', fromMs: options.nowMs },
      ...{ maxSeconds: options.maxSeconds, refusesPast: false },
    });
    for (const { path, text: problem } of reading.problems ?? [])
      report(path[0] === 'domain' ? path : [...at, ...path], problem);
    if (reading.override !== undefined) overrides.push(reading.override);
  }
  return { overrides, errors: list.errors };
}
