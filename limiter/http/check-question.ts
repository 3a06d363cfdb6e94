/** The body of `/v1/check`: read, or all that is wrong with it. */
import { Right } from '../../process/grpc/handlers.ts';
import { ApiProblem, shown } from '../../process/http/api-route.ts';
import { parseJson } from '../../process/http/json-exchange.ts';
import { type Entry, maxUint32 } from '../../rules/model.ts';
import { type HttpAsker, problemOf } from './http-asker.ts';
import type { HttpQuestion } from './http-decision.ts';

/** Chosen: who has more mends these first. */
const mostTold = 50;

/** What is wrong with a body, by its place there. */
class Mistakes {
  readonly told: { path: string; detail: string }[] = [];
  #count = 0;

  add(path: string, detail: string): void {
    this.#count += 1;
    if (this.told.length < mostTold) this.told.push({ path, detail });
  }

  throwIfAny(): void {
    const [first] = this.told;
    if (first === undefined) return;
    const more = this.#count === 1 ? '' : `, and ${this.#count - 1} more (errors)`;
    throw new ApiProblem(400, `${first.path === '' ? 'the body' : first.path} ${first.detail}${more}`, {
      errors: this.told,
    });
  }
}

const members = ['domain', 'descriptors', 'hits'];
const entryForm = 'an object with exactly one key, such as {"remote_address": "203.0.113.7"}';
const descriptorForm = 'a list of entries, such as [{"remote_address": "203.0.113.7"}]';

/** What a body asks. Throws an `ApiProblem`: 403 where the caller may not use the domain, before anything else is told; 400 with all mistakes. */
export function readQuestion(bytes: Uint8Array, { caller }: Pick<HttpAsker, 'caller'>): HttpQuestion {
  const body = parseJson(bytes);
  const mistakes = new Mistakes();
  if (!isObject(body)) {
    mistakes.add('', `is an object with ${members.join(', ')}, not ${kindOf(body)}`);
    mistakes.throwIfAny();
  }
  const { domain, descriptors, hits = 1, ...unknown } = body as Record<string, unknown>;
  if (typeof domain === 'string' && domain !== '') {
    const refusal = caller?.refusal(domain, Right.ASK);
    if (refusal !== undefined) throw problemOf(refusal);
  }
  for (const name of Object.keys(unknown))
    mistakes.add(shown(name), `is not known: expected ${members.join(', ')}`);
  checkText('domain', domain, mistakes);
  if (domain === '') mistakes.add('domain', 'is empty');
  const isHits = Number.isInteger(hits) && (hits as number) >= 0 && (hits as number) <= maxUint32;
  if (!isHits) mistakes.add('hits', `is a whole number from 0 to ${maxUint32}, not ${valueText(hits)}`);
  const read = readList(
    'descriptors',
    descriptors,
    `a list of descriptors, each ${descriptorForm}`,
    mistakes,
  ).map((one, n) => {
    const path = `descriptors[${n}]`;
    return readList(path, one, descriptorForm, mistakes).map((entry, m) =>
      readEntry(`${path}[${m}]`, entry, mistakes),
    );
  });
  mistakes.throwIfAny();
  // Each object has no other keys than it may have. What else was written came twice, and JSON.parse took the last.
  const keys = read.reduce((sum, entries) => sum + entries.length, Object.keys(body as object).length);
  if (writtenKeys(bytes) > keys) mistakes.add('', 'has a key twice in one object: an entry has one key');
  mistakes.throwIfAny();
  return { domain: domain as string, descriptors: read, hits: hits as number };
}

/** In all objects of a text that is JSON: the colons outside of strings. */
function writtenKeys(json: Uint8Array): number {
  const text = Buffer.from(json).toString('latin1');
  return text.replace(/"(?:[^"\\]|\\.)*"/g, '').split(':').length - 1;
}

function readList(path: string, value: unknown, form: string, mistakes: Mistakes): unknown[] {
  if (Array.isArray(value) && value.length > 0) return value;
  if (value === undefined) mistakes.add(path, `is missing: expected ${form}`);
  else mistakes.add(path, `is ${form}, not ${Array.isArray(value) ? 'empty' : kindOf(value)}`);
  return [];
}

function readEntry(path: string, entry: unknown, mistakes: Mistakes): Entry {
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

function checkText(path: string, value: unknown, mistakes: Mistakes): void {
  if (value === undefined) mistakes.add(path, 'is missing: expected a string');
  else if (typeof value !== 'string') mistakes.add(path, `is a string, not ${valueText(value)}`);
  else if (!value.isWellFormed()) mistakes.add(path, 'has half of a surrogate pair, which is no character');
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'an object' : valueText(value);
}

function valueText(value: unknown): string {
  if (typeof value === 'string') return shown(value);
  return typeof value === 'object' ? kindOf(value) : String(value);
}

/** As in a program where it can be, else between quotes. */
function shownKey(key: string): string {
  return /^\w{1,100}$/.test(key) ? key : shown(key);
}
