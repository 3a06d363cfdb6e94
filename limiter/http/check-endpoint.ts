/** `POST /v1/check`: one decision for a backend that has no proxy in front of it, told whole. */
import { Right } from '../../process/grpc/handlers.ts';
import { ApiProblem, shown } from '../../process/http/api-route.ts';
import { checkParameters } from '../../process/http/api-router.ts';
import type { HttpCall } from '../../process/http/http-server.ts';
import { parseJson, readJsonBody } from '../../process/http/json-exchange.ts';
import { algorithmNames, type Entry, maxUint32, unitName } from '../../rules/model.ts';
import { type RequestBounds, RequestTooLarge } from '../decide/request-bounds.ts';
import { type HttpAsker, originOf, problemOf } from './http-asker.ts';
import type { DecideForHttp, DescriptorAnswer, HttpQuestion } from './http-decision.ts';
import type { JsonEndpointOptions } from './json-endpoint.ts';

export interface CheckOptions extends Pick<JsonEndpointOptions, 'onTooLarge' | 'maxBodyBytes'> {
  decide: DecideForHttp;
  bounds: RequestBounds;
}

/** Rejects with an `ApiProblem` for what is wrong with the question. */
export async function answerCheck(call: HttpCall, asker: HttpAsker, options: CheckOptions): Promise<void> {
  const { request, response, target } = call;
  if (request.method !== 'POST') {
    response.setHeader('Allow', 'POST');
    throw new ApiProblem(405, `/v1/check takes POST, not ${shown(request.method ?? '')}`);
  }
  checkParameters(target.query, []);
  const bytes = await bodyOf(call, options);
  await new Promise<void>((due) => call.holding.whenDue(bytes.length, due));
  const decision = await options.decide(readQuestion(parseJson(bytes), asker), asker);
  if ('failure' in decision) throw problemOf(decision.failure);
  const { code, descriptors, headers } = decision;
  const text = `${JSON.stringify({ code, descriptors: descriptors.map(answerJson) })}\n`;
  for (const [name, value] of headers) response.setHeader(name, value);
  response.writeHead(code === 'OVER_LIMIT' ? 429 : 200, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(text),
  });
  response.end(text);
}

async function bodyOf(
  call: HttpCall,
  { bounds, maxBodyBytes, onTooLarge }: CheckOptions,
): Promise<Uint8Array> {
  const setting = 'HTTP_MAX_BODY_BYTES';
  const tooLarge = (error: RequestTooLarge): void => onTooLarge(error, originOf(call.request));
  const kept = bounds.limits.maxBytes;
  try {
    const body = await readJsonBody(call, { bytes: maxBodyBytes, setting, kept });
    if (body instanceof Uint8Array) return body;
    const error = bounds.tooManyBytes(body.droppedBytes);
    tooLarge(error);
    throw new ApiProblem(400, error.message);
  } catch (error) {
    if (error instanceof ApiProblem && error.status === 413)
      tooLarge(new RequestTooLarge(setting, error.message));
    throw error;
  }
}

function answerJson({ code, rule, limit, used, left, resetSeconds }: DescriptorAnswer): object {
  return {
    code,
    rule: rule ?? null,
    limit: limit === undefined ? null : limitJson(limit),
    used: used ?? null,
    left: left ?? null,
    reset: resetSeconds ?? null,
  };
}

function limitJson(limit: NonNullable<DescriptorAnswer['limit']>): object {
  const { name, requestsPerUnit, unit, unitMultiplier: multiplier, algorithm, burst } = limit;
  return {
    name,
    requestsPerUnit,
    unit: unitName(unit)?.toLowerCase() ?? null,
    multiplier,
    algorithm: algorithmNames[algorithm],
    burst,
  };
}

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

/** Throws an `ApiProblem`: 403 where the caller may not use the domain, before anything else is told; 400 with all mistakes. */
function readQuestion(body: unknown, { caller }: HttpAsker): HttpQuestion {
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
  return { domain: domain as string, descriptors: read, hits: hits as number };
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
