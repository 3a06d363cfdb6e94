/** Reads bodies that contain rate limit requests, and reports all mistakes in them. */
import { Right } from '../../process/grpc/handlers.ts';
import { ApiProblem, shown } from '../../process/http/api-route.ts';
import { parseJson } from '../../process/http/json-exchange.ts';
import { type Entry, isObject } from '../../rules/model.ts';
import { type HttpAsker, problemOf } from './http-asker.ts';
import type { HttpDecisionRequest } from './http-decision.ts';

/** The maximum number of problems in one answer. A caller with more problems corrects these first. */
const maxReported = 50;

/** The problems of a body, by place. */
export class BodyProblems {
  readonly reported: { path: string; detail: string }[] = [];
  #count = 0;

  add(path: string, detail: string): void {
    this.#count += 1;
    if (this.reported.length < maxReported) this.reported.push({ path, detail });
  }

  throwIfAny(): void {
    const [first] = this.reported;
    if (first === undefined) return;
    const more = this.#count === 1 ? '' : `, and ${this.#count - 1} more (errors)`;
    throw new ApiProblem(400, `${first.path === '' ? 'the body' : first.path} ${first.detail}${more}`, {
      errors: this.reported,
    });
  }
}

/** The requests in a body. */
export interface CheckBody extends Pick<HttpDecisionRequest, 'domain' | 'descriptors'> {
  /** Amounts of the descriptors, in order. Undefined if none has its own amount. */
  readonly amounts?: readonly (number | undefined)[] | undefined;
}

/** The fields that a body may have in addition to domain and descriptors. */
export interface BodyForm<More> {
  members: readonly string[];
  /** The right that its caller needs, a bit of `Right`. */
  right: number;
  /** Whether descriptors may be omitted, and the domain with them. */
  mayLeaveOut: boolean;
  /** Whether a descriptor may be an object of entries and an amount. */
  takesAmounts?: boolean;
  /** `domain` and `descriptors` are the values of the body, even if they were not read. */
  read(
    body: Readonly<Record<string, unknown>>,
    mistakes: BodyProblems,
    about: { readonly domain: unknown; readonly descriptors: unknown },
  ): More;
}

/** The content of a body. */
interface ReadBody<More> {
  /** Undefined if it was omitted. */
  readonly domain: string | undefined;
  /** Undefined if the descriptors were omitted. */
  readonly asked: CheckBody | undefined;
  readonly more: More;
}

const entryForm = 'an object with exactly one key, such as {"remote_address": "203.0.113.7"}';
const descriptorForm = 'a list of entries, such as [{"remote_address": "203.0.113.7"}]';
const ownAmountForm = 'an object of such "entries" and an "amount"';

const checkForm: BodyForm<number> = {
  members: ['hits'],
  right: Right.ASK,
  mayLeaveOut: false,
  read: ({ hits = 1 }, mistakes) => readWhole('hits', hits, Number.MAX_SAFE_INTEGER, mistakes),
};

/** Reads a body of `/v1/check`. @throws like `readBody` */
export function readCheckBody(bytes: Uint8Array, asker: Pick<HttpAsker, 'caller'>): HttpDecisionRequest {
  const { asked, more: hits } = readBody(bytes, asker, checkForm);
  return { ...asked!, hits };
}

/**
 * Reads a body. @throws ApiProblem with 403 if the caller may not use the domain, before anything else is reported; with 400 and all
 * mistakes otherwise
 */
export function readBody<More>(
  bytes: Uint8Array,
  { caller }: Pick<HttpAsker, 'caller'>,
  { members, right, mayLeaveOut, takesAmounts = false, read }: BodyForm<More>,
): ReadBody<More> {
  const body = parseJson(bytes);
  const mistakes = new BodyProblems();
  const known = ['domain', 'descriptors', ...members];
  if (!isObject(body)) {
    mistakes.add('', `is an object with ${known.join(', ')}, not ${kindOf(body)}`);
    mistakes.throwIfAny();
  }
  const { domain, descriptors, ...others } = body as Record<string, unknown>;
  if (typeof domain === 'string' && domain !== '') {
    const rejection = caller?.rejection(domain, right);
    if (rejection !== undefined) throw problemOf(rejection);
  }
  for (const name of Object.keys(others)) {
    if (!members.includes(name)) mistakes.add(shown(name), `is not known: expected ${known.join(', ')}`);
  }
  const isLeftOut = mayLeaveOut && descriptors === undefined;
  if (!isLeftOut || domain !== undefined) checkText('domain', domain, mistakes);
  if (domain === '') mistakes.add('domain', 'is empty');
  const more = read(others, mistakes, { domain, descriptors });
  const found = isLeftOut ? noDescriptors : readDescriptors(descriptors, takesAmounts, mistakes);
  mistakes.throwIfAny();
  const { entries, amounts } = found;
  // Unknown keys are rejected before, so a larger number of written keys means that a key occurs twice. JSON.parse took the last one.
  const keys = entries.reduce(
    (sum, one) => sum + one.length,
    Object.keys(body as object).length + found.keys,
  );
  if (writtenKeys(bytes) > keys) mistakes.add('', 'has a key twice in one object: an entry has one key');
  mistakes.throwIfAny();
  const asked = isLeftOut ? undefined : { domain: domain as string, descriptors: entries, amounts };
  return { domain: domain as string | undefined, asked, more };
}

/** Reads a whole number from 0 to `max`. */
export function readWhole(path: string, value: unknown, max: number, mistakes: BodyProblems): number {
  if (value === undefined) mistakes.add(path, `is missing: expected a whole number from 0 to ${max}`);
  else if (!Number.isInteger(value) || (value as number) < 0 || (value as number) > max)
    mistakes.add(path, `is a whole number from 0 to ${max}, not ${valueText(value)}`);
  return value as number;
}

interface FoundDescriptors {
  readonly entries: Entry[][];
  readonly amounts: CheckBody['amounts'];
  /** The number of keys in objects around entries. */
  readonly keys: number;
}

const noDescriptors: FoundDescriptors = { entries: [], amounts: undefined, keys: 0 };

function readDescriptors(value: unknown, takesAmounts: boolean, mistakes: BodyProblems): FoundDescriptors {
  const descriptor = takesAmounts ? `${descriptorForm}, or ${ownAmountForm}` : descriptorForm;
  const amounts: (number | undefined)[] = [];
  let keys = 0;
  const form = `a list of descriptors, each ${descriptor}`;
  const entries = readList('descriptors', value, form, mistakes).map((one, n) => {
    const path = `descriptors[${n}]`;
    if (!takesAmounts || !isObject(one)) return readEntries(path, one, descriptor, mistakes);
    const { entries: list, amount, ...others } = one;
    keys += Object.keys(one).length;
    for (const name of Object.keys(others))
      mistakes.add(`${path}.${shownKey(name)}`, 'is not known: expected entries, amount');
    if (amount !== undefined)
      amounts[n] = readWhole(`${path}.amount`, amount, Number.MAX_SAFE_INTEGER, mistakes);
    return readEntries(`${path}.entries`, list, descriptorForm, mistakes);
  });
  return {
    entries,
    amounts: amounts.length === 0 ? undefined : Array.from(entries, (_, n) => amounts[n]),
    keys,
  };
}

function readEntries(path: string, value: unknown, form: string, mistakes: BodyProblems): Entry[] {
  return readList(path, value, form, mistakes).map((entry, m) => readEntry(`${path}[${m}]`, entry, mistakes));
}

/** The number of fields in a valid JSON text: the colons outside strings. */
function writtenKeys(json: Uint8Array): number {
  const text = Buffer.from(json).toString('latin1');
  return text.replace(/"(?:[^"\\]|\\.)*"/g, '').split(':').length - 1;
}

function readList(path: string, value: unknown, form: string, mistakes: BodyProblems): unknown[] {
  if (Array.isArray(value) && value.length > 0) return value;
  if (value === undefined) mistakes.add(path, `is missing: expected ${form}`);
  else mistakes.add(path, `is ${form}, not ${Array.isArray(value) ? 'empty' : kindOf(value)}`);
  return [];
}

function readEntry(path: string, entry: unknown, mistakes: BodyProblems): Entry {
  if (!isObject(entry)) {
    mistakes.add(path, `is ${entryForm}, not ${kindOf(entry)}`);
    return noEntry;
  }
  const keys = Object.keys(entry);
  const [key] = keys;
  if (key === undefined || keys.length > 1) {
    const names = keys.slice(0, 5).map(shown).join(', ');
    mistakes.add(
      path,
      `is ${entryForm}, not with ${keys.length === 0 ? 'none' : `${keys.length}: ${names}`}`,
    );
    return noEntry;
  }
  if (key === '') mistakes.add(path, 'has an empty key');
  checkText(`${path}.${key === '' ? '""' : shownKey(key)}`, entry[key], mistakes);
  return { key, value: entry[key] as string };
}

const noEntry: Entry = { key: '', value: '' };

export function checkText(path: string, value: unknown, mistakes: BodyProblems): void {
  if (value === undefined) mistakes.add(path, 'is missing: expected a string');
  else if (typeof value !== 'string') mistakes.add(path, `is a string, not ${valueText(value)}`);
  else if (!value.isWellFormed())
    mistakes.add(path, 'has half of a surrogate pair, which is not a character');
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'an object' : valueText(value);
}

export function valueText(value: unknown): string {
  if (typeof value === 'string') return shown(value);
  return typeof value === 'object' ? kindOf(value) : String(value);
}

/** Returns the key as an identifier if possible, otherwise in quotes. */
function shownKey(key: string): string {
  return /^\w{1,100}$/.test(key) ? key : shown(key);
}
