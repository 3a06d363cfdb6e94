/**
 * `/v1/reserve`, `/v1/commit`, `/v1/release`, `/v1/budgets`: reserve the cost of a request before it is known, and settle it afterward.
 */
import { Right, retryAfterSeconds } from '../../process/grpc/handlers.ts';
import { ApiProblem, type ApiRoute, domainOf, entryOf, shown } from '../../process/http/api-route.ts';
import type { HttpCall } from '../../process/http/http-server.ts';
import { parseGoDuration } from '../../process/settings/go-values.ts';
import { limitJson, limitWords } from '../../rules/describe.ts';
import { type Entry, isObject } from '../../rules/model.ts';
import { RequestTooLarge } from '../decide/request-bounds.ts';
import { decodeWholeRequest, encodeRateLimitRequest } from '../decide/wire-codec.ts';
import type { CallerRoute } from '../http/caller-route.ts';
import {
  type BodyForm,
  type BodyProblems,
  type CheckBody,
  checkText,
  readBody,
  readWhole,
  valueText,
} from '../http/check-body.ts';
import { type PostOptions, problemOfBody, readPost, sendJson } from '../http/check-endpoint.ts';
import { type HttpAsker, originOf, problemOf, replyTo } from '../http/http-asker.ts';
import type {
  BudgetFailure,
  BudgetRequest,
  BudgetScope,
  BudgetStatus,
  Budgets,
  EndReservationAnswer,
  RecalledReservation,
  ReserveAnswer,
  ReserveRequest,
} from './budgets.ts';
import { kindOfId, reservationIdForm } from './reservation-id.ts';

export interface BudgetEndpointOptions extends PostOptions {
  budgets: Budgets;
}

/** The caller of `Budgets`. */
type Asking = Parameters<Budgets['status']>[1];

type Answerer = (call: HttpCall, asker: HttpAsker, options: BudgetEndpointOptions) => Promise<void>;

/** The routes for callers, by path. */
export function budgetEndpoints(options: BudgetEndpointOptions): ReadonlyMap<string, CallerRoute> {
  const post = (answer: Answerer): CallerRoute => ({
    right: Right.RESERVE,
    takes: { method: 'POST', parameters: [] },
    answer: (call, asker) => answer(call, asker, options),
  });
  return new Map([
    ['/v1/reserve', post(answerReserve)],
    ['/v1/commit', post(answerCommit)],
    ['/v1/release', post(answerRelease)],
    [
      '/v1/budgets',
      {
        right: Right.READ,
        takes: { method: 'GET', parameters: ['domain', 'entry'] },
        answer: (call, asker) => answerStatus(call, asker, options),
      },
    ],
  ]);
}

const maxAmount = Number.MAX_SAFE_INTEGER;

const reserveForm: BodyForm<Pick<ReserveRequest, 'amount' | 'ttlMs' | 'id'>> = {
  members: ['amount', 'ttl', 'reservationId'],
  right: Right.RESERVE,
  mayLeaveOut: false,
  takesAmounts: true,
  read: ({ amount, ttl, reservationId: id }, mistakes, { descriptors }) => ({
    amount:
      amount === undefined && haveAmounts(descriptors)
        ? undefined
        : readWhole('amount', amount, maxAmount, mistakes),
    ttlMs: ttl === undefined ? undefined : readTtl(ttl, mistakes),
    id: id === undefined ? undefined : readChosenId(id, mistakes),
  }),
};

/** Whether each descriptor has its own amount. */
function haveAmounts(descriptors: unknown): boolean {
  return Array.isArray(descriptors) && descriptors.every((one) => isObject(one) && 'amount' in one);
}

const commitForm: BodyForm<{ id: string; actual: number | undefined }> = {
  members: ['reservationId', 'actualAmount'],
  right: Right.RESERVE,
  mayLeaveOut: true,
  takesAmounts: true,
  read: ({ reservationId: id, actualAmount: actual }, mistakes, { domain }) => ({
    id: readCommittedId(id, domain, mistakes),
    actual: actual === undefined ? undefined : readWhole('actualAmount', actual, maxAmount, mistakes),
  }),
};

const releaseForm: BodyForm<{ id: string; actual: 0 }> = {
  ...{ members: ['reservationId'], right: Right.RESERVE, mayLeaveOut: true },
  read: ({ reservationId: id }, mistakes, { domain }) => ({
    id: readCommittedId(id, domain, mistakes),
    actual: 0,
  }),
};

async function answerReserve(
  call: HttpCall,
  asker: HttpAsker,
  options: BudgetEndpointOptions,
): Promise<void> {
  const { asked, more } = readBody(await postedTo(call, options), asker, reserveForm);
  const question = { ...questionOf(asked!, call, options), ...more, recalled: true };
  const answer = await reported<ReserveAnswer>((done) =>
    options.budgets.reserve(question, callerOf(asker), done),
  );
  for (const { key, value } of answer.headers) call.response.setHeader(key, value);
  const { allowed, id, amount, expiresAtMs, isRepeated, scopes, unlimited } = answer;
  sendJson(call.response, allowed ? 200 : 429, {
    code: allowed ? 'OK' : 'OVER_LIMIT',
    reservationId: allowed ? id : null,
    amount: amount ?? null,
    expiresAt: allowed ? new Date(expiresAtMs).toISOString() : null,
    repeated: isRepeated,
    scopes: scopes.map((scope) => ({ ...scopeJson(scope), refused: scope.rejected })),
    unlimited: unlimited.map(({ descriptor, rule = null }) => ({ descriptor, rule })),
  });
}

/** Reads the body. A body beyond a bound is an error and not a 429, which programs would retry forever. */
async function postedTo(call: HttpCall, options: BudgetEndpointOptions): Promise<Uint8Array> {
  const body = await readPost(call, options);
  if (body instanceof Uint8Array) return body;
  options.tooLarge.note(body, originOf(call.request));
  throw problemOfBody(body);
}

async function answerCommit(call: HttpCall, asker: HttpAsker, options: BudgetEndpointOptions): Promise<void> {
  const body = readBody(await postedTo(call, options), asker, commitForm);
  await answerSettle(call, asker, options, { ...body, advice: commitAdvice });
}

async function answerRelease(
  call: HttpCall,
  asker: HttpAsker,
  options: BudgetEndpointOptions,
): Promise<void> {
  const body = readBody(await postedTo(call, options), asker, releaseForm);
  await answerSettle(call, asker, options, { ...body, advice: '' });
}

async function answerSettle(
  call: HttpCall,
  asker: HttpAsker,
  options: BudgetEndpointOptions,
  {
    domain,
    asked,
    more: { id, actual },
    advice,
  }: {
    domain: string | undefined;
    asked: CheckBody | undefined;
    more: { id: string; actual: number | undefined };
    /** The end of the message if there is no such reservation. */
    advice: string;
  },
): Promise<void> {
  const about = kindOfId(id) === 'nothing' ? ofNothing : asked && questionOf(asked, call, options);
  const question = about ?? (await recalled({ id, domain, advice }, asker, options.budgets));
  const unknown = about === undefined ? 'report' : 'charge';
  const { outcome, charged, amount, lost, scopes } = await reported<EndReservationAnswer>((done) =>
    options.budgets.commit({ ...question, id, actual, unknown }, callerOf(asker), done),
  );
  if (outcome === 'unknown' && about === undefined) throw noReservation(id, advice);
  sendJson(call.response, 200, {
    reservationId: id,
    outcome,
    charged,
    amount,
    ...(lost !== undefined && { lost }),
    scopes: scopes.map(scopeJson),
  });
}

/** The request about a reservation that holds nothing, regardless of what its caller sends. */
const ofNothing: BudgetRequest = { domain: '', descriptors: [] };

/** Finds a reservation. For one in a domain that the caller may not use, the answer does not reveal that it exists. */
async function recalled(
  { id, domain, advice }: { id: string; domain: string | undefined; advice: string },
  { caller }: HttpAsker,
  budgets: Budgets,
): Promise<RecalledReservation> {
  const found = await budgets.recall(id, domain);
  if (found !== undefined && 'failure' in found) throw problemOfBudget(found);
  if (found === undefined || caller?.hasDomain(found.domain) === false) throw noReservation(id, advice);
  return found;
}

async function answerStatus(call: HttpCall, asker: HttpAsker, options: BudgetEndpointOptions): Promise<void> {
  const { response, target } = call;
  const domain = target.query.get('domain') ?? '';
  const rejection = domain === '' ? undefined : asker.caller?.rejection(domain, Right.READ);
  if (rejection !== undefined) throw problemOf(rejection);
  const question = questionOf(statusQuestion(target.query), call, options);
  const answer = await budgetsAnswer(options.budgets, question, callerOf(asker));
  if ('failure' in answer) throw problemOfBudget(answer);
  sendJson(response, 200, answer);
}

/** Reads the parameters `domain` and `entry`; the entries form one descriptor, in their order. @throws ApiProblem */
function statusQuestion(query: URLSearchParams): CheckBody {
  const domain = query.get('domain') ?? '';
  if (domain === '') throw new ApiProblem(400, 'domain is missing: expected ?domain=<domain>');
  const entries = query.getAll('entry').map(entryOf);
  if (entries.length === 0)
    throw new ApiProblem(
      400,
      'entry is missing: expected entry=key=value, once for each entry, in their order',
    );
  return { domain, descriptors: [entries] };
}

/** The answer of `/v1/budgets`: plain data, which may come from another thread. */
export type BudgetsAnswer = { budgets: object[] } | BudgetFailure;

async function budgetsAnswer(
  budgets: Budgets,
  question: BudgetRequest,
  caller: Asking,
): Promise<BudgetsAnswer> {
  const answer = await new Promise<BudgetStatus | BudgetFailure>((done) =>
    budgets.status(question, caller, done),
  );
  if ('failure' in answer) return answer;
  return {
    budgets: answer.scopes.map((scope) => ({
      ...scopeJson(scope),
      open: scope.open,
      oldestSeconds: scope.oldestSeconds ?? null,
    })),
  };
}

/** The state of budgets for an operator, for whom a question is not abandoned. */
export function budgetsNow(
  budgets: Budgets,
  domain: string,
  entries: readonly Entry[],
): Promise<BudgetsAnswer> {
  const descriptor = { entries, limit: undefined, hitsAddend: undefined, isNegativeHits: false };
  return budgetsAnswer(budgets, { domain, descriptors: [descriptor] }, { abandoned: false });
}

/** `/v1/budgets` for operators. */
export function budgetRoutes(
  ask: (domain: string, entries: readonly Entry[]) => Promise<BudgetsAnswer>,
): ApiRoute[] {
  return [
    {
      ...{ method: 'GET', path: '/v1/budgets', right: 'read', parameters: ['domain', 'entry'] },
      answer: async (call) => {
        domainOf(call, 'read');
        const { domain, descriptors } = statusQuestion(call.query);
        const body = await ask(domain, descriptors[0]!);
        if ('failure' in body) throw problemOfBudget(body);
        return { body };
      },
    },
  ];
}

/** Applies the bounds of requests, and shortens long entries as requests do. */
function questionOf(
  { domain, descriptors, amounts }: CheckBody,
  { request }: HttpCall,
  { bounds, tooLarge }: BudgetEndpointOptions,
): BudgetRequest {
  try {
    const decoded = decodeWholeRequest(encodeRateLimitRequest(domain, descriptors, 1), bounds);
    return { domain, descriptors: decoded.descriptors, ...(amounts && { amounts }) };
  } catch (error) {
    if (!(error instanceof RequestTooLarge)) throw error;
    tooLarge.note(error, originOf(request));
    throw new ApiProblem(400, error.message);
  }
}

function callerOf(asker: HttpAsker): Asking {
  return replyTo(asker, {});
}

/** Returns the answer. Rejects with an `ApiProblem` if there is none. */
async function reported<Answer extends object>(
  ask: (done: (answer: Answer | BudgetFailure) => void) => void,
): Promise<Answer> {
  const answer = await new Promise<Answer | BudgetFailure>(ask);
  if ('failure' in answer) throw problemOfBudget(answer);
  return answer;
}

const statuses: Readonly<Record<BudgetFailure['failure'], number>> = {
  invalid: 400,
  'no-domain': 404,
  conflict: 409,
  // Nothing was reserved, as with a request over the limit.
  full: 429,
  unsupported: 501,
  unavailable: 503,
};

function problemOfBudget({ failure, message, retryAfterSeconds: roomIn }: BudgetFailure): ApiProblem {
  const waits = failure === 'unavailable' ? retryAfterSeconds : roomIn;
  return new ApiProblem(statuses[failure], message, waits === undefined ? {} : { retryAfterSeconds: waits });
}

const commitAdvice = '; a commit with domain and descriptors is still charged';

function noReservation(id: string, advice: string): ApiProblem {
  return new ApiProblem(404, `the reservation ${shown(id)} does not exist, or no longer exists${advice}`);
}

function scopeJson(scope: BudgetScope): object {
  const { descriptor, rule, limit, isShadow, isQuota, used, reserved, left, resetSeconds, mark } = scope;
  const shownOne = rule === undefined ? { ...limit, name: '' } : limit;
  return {
    descriptor,
    rule: rule ?? null,
    limit: { ...limitJson(shownOne), words: limitWords(shownOne) },
    shadow: isShadow,
    quota: isQuota,
    used,
    reserved,
    left,
    reset: resetSeconds,
    mark: mark ?? null,
  };
}

function readTtl(value: unknown, mistakes: BodyProblems): number {
  const ms = typeof value === 'string' ? parseGoDuration(value) : undefined;
  if (ms === undefined || ms < 1 || ms > maxAmount)
    mistakes.add('ttl', `is a duration such as "30s", "5m" or "1h", not ${valueText(value)}`);
  return Math.ceil(ms ?? 0);
}

function readId(value: unknown, mistakes: BodyProblems): string {
  checkText('reservationId', value, mistakes);
  if (typeof value === 'string' && !reservationIdForm.test(value))
    mistakes.add('reservationId', `is 1 to 255 visible ASCII characters, not ${valueText(value)}`);
  return value as string;
}

function readChosenId(value: unknown, mistakes: BodyProblems): string {
  const id = readId(value, mistakes);
  if (typeof id === 'string' && kindOfId(id) !== 'chosen')
    mistakes.add(
      'reservationId',
      `begins with w0. or w1., which is reserved for IDs that Weir creates: ${shown(id)}`,
    );
  return id;
}

function readCommittedId(value: unknown, domain: unknown, mistakes: BodyProblems): string {
  const id = readId(value, mistakes);
  if (domain === undefined && typeof id === 'string' && kindOfId(id) === 'chosen')
    mistakes.add('domain', 'is missing: it is required with a reservationId that the caller chose');
  return id;
}
