/** Reads overrides in the same way from all sources: a body of the API, a file, `spec` of an object, a resource, or flags of the CLI. */
import { overrideFields } from '../language/fields.ts';
import { effectFields, endFields, FieldPlace, fieldTable, namesOf } from '../language/tables.ts';
import { type Entry, isObject, type Unit, unitFromText, type Written } from '../model.ts';
import type { Override, OverrideEffect, OverrideOrigin } from '../override.ts';
import {
  formatManifestError,
  quoted,
  type RuleError,
  RuleErrorList,
  similarName,
  type ValueProblem,
} from '../rule-error.ts';
import { windowFromText, windowSeconds, windowText } from '../window.ts';
import { readDocument } from '../yaml/document.ts';
import { type DocumentPath, valuePlacer } from '../yaml/places.ts';
import { decodeYaml } from '../yaml/text.ts';
import { ManifestReader } from './manifest-reader.ts';

const rows = {
  ...overrideFields,
  id: {
    kind: 'text',
    max: 128,
    description: 'ID of the override, unless it is an object.',
    example: 'raise-shop',
  },
} as const;
const table = fieldTable(FieldPlace.FILE, rows);
const fieldNames: readonly string[] = namesOf(rows);

/** The format of an id that a person chose. */
const idForm = /^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$/;

export type OverrideReading =
  | { readonly override: Override; readonly problems?: undefined; readonly unknown?: undefined }
  | {
      readonly override?: undefined;
      readonly problems: readonly ValueProblem[];
      /** The paths of unknown fields. */
      readonly unknown?: readonly DocumentPath[];
    };

/** Reports all mistakes, each with its field. Ignores fields of the prototype, because the value is JSON or YAML. */
export function readOverride(value: unknown, origin: OverrideOrigin): OverrideReading {
  const reader = new ManifestReader([], true);
  const written = reader.read(table, value);
  const problems: ValueProblem[] = reader.problems.map(({ code, path, text }) => {
    return { path, text: code === 'unknown-key' ? unknownField(path) : text };
  });
  if (!isObject(value)) return { problems };
  // `unlimited: false` has no effect.
  const has = (field: string): boolean => value[field] != null && value[field] !== false;
  // If a field is unknown, a missing effect or end may only be misspelled.
  const isSpelled = reader.unknown.every((path) => path.length > 1);
  const override = new Check(written, has, origin, problems, isSpelled).override();
  return problems.length === 0 ? { override } : { problems, unknown: reader.unknown };
}

function unknownField(path: DocumentPath): string {
  const [owner, known] = path.length === 1 ? ['an override', fieldNames] : ['an entry', ['key', 'value']];
  const meant = similarName(String(path.at(-1)), known);
  const hint =
    meant === undefined
      ? `: ${known.join(known.length === 2 ? ' and ' : ', ')} are`
      : `, did you mean '${meant}'?`;
  return `is no field of ${owner}${hint}`;
}

/** Checks the combination of the fields of an override. */
class Check {
  readonly #written: Written<typeof rows>;
  readonly #has: (field: string) => boolean;
  readonly #origin: OverrideOrigin;
  readonly #problems: ValueProblem[];
  readonly #isSpelled: boolean;

  constructor(
    written: Written<typeof rows>,
    has: (field: string) => boolean,
    origin: OverrideOrigin,
    problems: ValueProblem[],
    isSpelled: boolean,
  ) {
    this.#written = written;
    this.#has = has;
    this.#origin = origin;
    this.#problems = problems;
    this.#isSpelled = isSpelled;
  }

  override(): Override {
    const { domain = '', limit = '', reason = '' } = this.#written;
    const { source, createdMs, by, name } = this.#origin;
    for (const field of ['domain', 'reason'] as const) this.#rejectBlank(this.#written[field], field);
    const effect = this.#effect();
    const isGrant = effect.kind === 'grant';
    const id = this.#id(isGrant);
    return {
      ...{ id, source, name: name ?? id, domain, match: this.#match(isGrant), limit, effect, createdMs },
      ...{ endsMs: this.#endsMs(isGrant), reason, by },
    };
  }

  #report(path: DocumentPath, text: string): void {
    this.#problems.push({ path, text });
  }

  /** Reports fields of which exactly one must be set, if none or several are. */
  #reportCount(text: string, written: readonly string[]): void {
    if (written.length > 0) this.#report([], `${text}, found ${written.join(' and ')}`);
    else if (this.#isSpelled) this.#report([], `${text}, found none`);
  }

  #rejectBlank(text: string | undefined, ...path: DocumentPath): void {
    if (text?.trim() === '') this.#report(path, 'must not be empty');
  }

  #id(isGrant: boolean): string {
    const { source, id } = this.#origin;
    const given = this.#written.id;
    if (isGrant && source === 'file' && !this.#has('id'))
      this.#report(['id'], 'is required of a grant in a file: it makes the grant happen once');
    if (given !== undefined && !idForm.test(given))
      this.#report(['id'], 'must be letters, digits and . _ : / - , beginning with a letter or digit');
    return given ?? id;
  }

  #match(isGrant: boolean): Entry[] {
    const { match } = this.#written;
    const { min, max } = rows.match;
    if (match?.length === 0) this.#report(['match'], `must have ${min} to ${max} entries, and has 0`);
    return (match ?? []).map(({ key, value = '' }, index) => {
      this.#rejectBlank(key, 'match', index, 'key');
      if (isGrant && value.includes('*'))
        this.#report(['match', index, 'value'], 'of a grant must be exact, without *');
      return { key: key ?? '', value };
    });
  }

  #effect(): OverrideEffect {
    const { requestsPerUnit = 0, grant = 1 } = this.#written;
    const written = effectFields.filter(this.#has);
    const [field] = written;
    if (written.length !== 1)
      this.#reportCount(`must have exactly one of ${effectFields.join(', ')}`, written);
    const unit = this.#unit(field);
    if (field === 'requestsPerUnit') return { kind: 'limit', requestsPerUnit, unit };
    if (field === 'grant') return { kind: 'grant', hits: grant };
    return { kind: field ?? 'shadow' };
  }

  #unit(effect: string | undefined): Unit | undefined {
    const text = this.#written.unit;
    const unit = text === undefined ? undefined : unitFromText(text);
    if (text !== undefined && unit === undefined)
      this.#report(['unit'], `must be second, minute, hour, day, week, month or year, not ${quoted(text)}`);
    if (this.#has('unit') && effect !== 'requestsPerUnit')
      this.#report(['unit'], 'is for requestsPerUnit alone');
    return unit;
  }

  #endsMs(isGrant: boolean): number | undefined {
    const { source } = this.#origin;
    const written = endFields.filter(this.#has);
    if (isGrant && source !== 'file') {
      for (const field of written) this.#report([field], 'is not for a grant, which ends with its window');
      return undefined;
    }
    const possible = source === 'file' ? (isGrant ? ['expiresAt'] : ['expiresAt', 'permanent']) : endFields;
    if (source === 'file' && written.includes('for')) {
      this.#report(['for'], 'is not for files, which have no time of creation: write expiresAt');
      return undefined;
    }
    const [field] = written;
    if (written.length !== 1 || !possible.includes(field!)) {
      const needed = possible.length === 1 ? possible[0] : `exactly one of ${possible.join(', ')}`;
      this.#reportCount(`must have ${needed}`, written);
      return undefined;
    }
    if (field === 'permanent') return undefined;
    return field === 'for' ? this.#afterTime(this.#written.for) : this.#atDate(this.#written.expiresAt);
  }

  #afterTime(text: string | undefined): number | undefined {
    if (text === undefined) return undefined;
    const read = windowFromText(text);
    if (typeof read !== 'string')
      return this.#inBounds('for', this.#origin.fromMs + windowSeconds(read.unit, read.multiplier)! * 1000);
    this.#report(['for'], `${quoted(text)} ${read}`);
    return undefined;
  }

  #atDate(text: string | undefined): number | undefined {
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
    if (this.#origin.rejectsPast && endsMs <= this.#origin.fromMs)
      this.#report(['expiresAt'], `${text} has passed`);
    return this.#inBounds('expiresAt', endsMs);
  }

  #inBounds(field: string, endsMs: number): number {
    const { fromMs, maxSeconds } = this.#origin;
    if (endsMs - fromMs > maxSeconds * 1000) {
      const max = windowText(1, maxSeconds);
      this.#report(
        [field],
        `is ${Math.ceil((endsMs - fromMs) / 1000)} s away, and can be ${maxSeconds} (${max}, OVERRIDES_MAX_SECONDS): make it permanent for longer`,
      );
    }
    return endsMs;
  }
}

export interface OverrideFileOptions {
  readonly nowMs: number;
  /** The value of OVERRIDES_MAX_SECONDS. */
  readonly maxSeconds: number;
}

/** Returns whether a text is intended as a file of overrides: it has `overrides` where a rule file has `descriptors`. */
export function looksLikeOverrides(text: string | Uint8Array): boolean {
  const decoded = decodeYaml(text);
  return typeof decoded === 'string' && /^["']?overrides["']?[ \t]*:/m.test(decoded);
}

/**
 * A file with `domain` and `overrides`. Each override has the fields of an object's `spec`. Errors have their places; `name` is the name
 * of the file.
 */
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
    list.add({ ...unplaced, code: 'syntax', text: 'is not UTF-8 text' });
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
    report([], 'only the first document of a file is read: write all overrides into one list');
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
      report([...at, 'domain'], 'must be at the top of the file, once');
    const id = `${name}:${index + 1}`;
    const reading = readOverride(isObject(one) ? { ...one, domain } : one, {
      ...{ source: 'file', id, name: id, createdMs: 0, by: '', fromMs: options.nowMs },
      ...{ maxSeconds: options.maxSeconds, rejectsPast: false },
    });
    for (const { path, text: problem } of reading.problems ?? [])
      report(path[0] === 'domain' ? path : [...at, ...path], problem);
    if (reading.override !== undefined) overrides.push(reading.override);
  }
  return { overrides, errors: list.errors };
}
