/**
 * `kuadrant.service.ratelimit.v1.RateLimitService` (proto/kuadrant), which Kuadrant's gateways use with limitador: checks,
 * reports, reservations and their commits. The first two fields of its own messages are those of a `RateLimitRequest`.
 */
import {
  GrpcCode,
  type GrpcStatus,
  type LongestRequest,
  type RequestOrigin,
  Right,
  type UnaryReply,
} from '../../process/grpc/handlers.ts';
import { Code, type Descriptor, type RateLimitRequest } from '../decide/messages.ts';
import { RequestTooLarge, tooManyBytes, tooManyDescriptors } from '../decide/request-bounds.ts';
import { decodeRateLimitRequest, encodeRateLimitResponse } from '../decide/wire-codec.ts';
import { WireReader } from '../decide/wire-reader.ts';
import type { UnaryMethod } from '../grpc/unary-call.ts';
import {
  type BudgetFailure,
  type BudgetRequest,
  type BudgetStatus,
  type Budgets,
  defaultTtlMs,
  minTtlMs,
} from '../reservations/budgets.ts';
import { reservationIdForm } from '../reservations/reservation-id.ts';
import { type ExcessResponses, tooLargeStatus } from '../service/over-without-limit.ts';
import { addendOf } from '../service/prepare.ts';
import {
  isAllowed,
  type RequestReading,
  readRequest,
  reject,
  rejectSized,
} from '../service/should-rate-limit.ts';

export interface KuadrantOptions extends RequestReading {
  budgets: Budgets;
  excess: ExcessResponses;
  /** BUDGET_MAX_TTL: a longer TTL is cut to it. A TTL below a second becomes a second. */
  maxTtlMs: number;
}

const servicePath = '/kuadrant.service.ratelimit.v1.RateLimitService/';
export const kuadrantMethods = ['CheckRateLimit', 'Report', 'Reserve', 'Commit'] as const;

interface Method {
  handle(bytes: Uint8Array, reply: UnaryReply, options: KuadrantOptions): void;
  /** The answer to a request that is too long. */
  rejectLonger(
    error: RequestTooLarge,
    origin: RequestOrigin | undefined,
    options: KuadrantOptions,
  ): Uint8Array | GrpcStatus;
}
const methods: Readonly<Record<(typeof kuadrantMethods)[number], Method>> = {
  CheckRateLimit: {
    handle: check,
    rejectLonger: (error, origin, { tooLarge }) => {
      const answer = tooLarge.answer(error, origin);
      return 'overallCode' in answer ? encodeRateLimitResponse(answer) : answer;
    },
  },
  Report: {
    handle: report,
    rejectLonger: (error, origin, { tooLarge }) => tooLarge.unreported(error, origin) ?? codeMessage(Code.OK),
  },
  Reserve: { handle: reserve, rejectLonger: rejectAsError },
  Commit: { handle: commit, rejectLonger: rejectAsError },
};

function rejectAsError(
  error: RequestTooLarge,
  origin: RequestOrigin | undefined,
  { tooLarge }: KuadrantOptions,
): GrpcStatus {
  tooLarge.note(error, origin);
  return tooLargeStatus(error);
}

/** Returns the methods by path. Every call is answered, whatever its bytes. */
export function createKuadrantMethods(options: KuadrantOptions): Map<string, UnaryMethod> {
  return new Map(
    kuadrantMethods.map((name): [string, UnaryMethod] => {
      const { handle, rejectLonger } = methods[name];
      const { bounds } = options;
      const longest: LongestRequest = {
        maxBytes: bounds.maxBytes,
        reject: (bytes, origin) => rejectLonger(tooManyBytes(bytes, bounds), origin, options),
      };
      const handler = Object.assign(
        (bytes: Uint8Array, reply: UnaryReply): void => handle(bytes, reply, options),
        { longest, overLimit: overLimitOf(name, options) },
      );
      return [servicePath + name, { kind: 'unary', name, handler, isFree: false }];
    }),
  );
}

/** A report and a commit are no questions: an answer would say that they counted. */
function overLimitOf(
  name: (typeof kuadrantMethods)[number],
  { excess }: KuadrantOptions,
): (() => Uint8Array) | undefined {
  if (name === 'CheckRateLimit') return () => excess.message();
  if (name === 'Reserve') return () => reserveResponse(excess.code() === Code.OK, '');
  return undefined;
}

function check(bytes: Uint8Array, reply: UnaryReply, options: KuadrantOptions): void {
  let request: RateLimitRequest;
  try {
    request = decodeRateLimitRequest(bytes, options.bounds);
  } catch (error) {
    rejectSized(error, reply, options);
    return;
  }
  if (!isAllowed(request, reply, Right.ASK, options)) return;
  options.budgets.status(request, reply, (answer) => {
    if ('failure' in answer && answer.tooLarge) rejectSized(answer.tooLarge, reply, options);
    else if (!('failure' in answer))
      sendCode(reply, isOver(request, answer) ? options.excess.code() : Code.OK);
    else if (answer.failure === 'no-domain') sendCode(reply, Code.OK);
    else reply.fail(statusOf(answer));
  });
}

/** Returns whether the request is over limit, as in decisions: one descriptor over its limit is enough, but all quotas must be over. */
function isOver({ descriptors }: RateLimitRequest, { scopes, otherQuotaPasses }: BudgetStatus): boolean {
  const quotas: boolean[] = otherQuotaPasses ? [false] : [];
  for (const index of descriptors.keys()) {
    const own = scopes.filter(({ descriptor }) => descriptor === index);
    const over = own.some(({ left, isShadow }) => left < 1 && !isShadow);
    if (own.some(({ isQuota }) => isQuota)) quotas.push(over);
    else if (over) return true;
  }
  return quotas.length > 0 && quotas.every((over) => over);
}

function report(bytes: Uint8Array, reply: UnaryReply, options: KuadrantOptions): void {
  let request: RateLimitRequest;
  try {
    request = decodeRateLimitRequest(bytes, options.bounds);
  } catch (error) {
    if (error instanceof RequestTooLarge) endReport(reply, error, undefined, options);
    else reject(error, reply, options);
    return;
  }
  if (!isAllowed(request, reply, Right.ASK, options)) return;
  const problem = reportProblem(request);
  if (problem !== undefined) {
    reply.fail(problem);
    return;
  }
  const { leftOut } = request;
  const parts = reportParts(request);
  let open = parts.length;
  let tooLarge = leftOut && leftOut.descriptors > 0 ? tooManyDescriptors(request, leftOut) : undefined;
  let failed: BudgetFailure | undefined;
  for (const part of parts) {
    options.budgets.commit({ ...part, id: '', unknown: 'charge' }, reply, (answer) => {
      open -= 1;
      if ('failure' in answer && answer.tooLarge) tooLarge ??= answer.tooLarge;
      else if ('failure' in answer && answer.failure !== 'no-domain') failed = answer;
      if (open === 0) endReport(reply, tooLarge, failed, options);
    });
  }
}

function reportProblem(request: RateLimitRequest): GrpcStatus | undefined {
  for (const descriptor of request.descriptors) {
    if (descriptor.isNegativeHits) return negativeHits;
    const problem = amountProblem('hits_addend', addendOf(descriptor, request));
    if (problem !== undefined) return problem;
  }
  return request.descriptors.length === 0 ? noDescriptors : undefined;
}

/**
 * Returns descriptors by their hits. A descriptor with too many entries is separate, so that the others are counted regardless of
 * its result.
 */
function reportParts(request: RateLimitRequest): (BudgetRequest & { actual: number })[] {
  const { domain, leftOut } = request;
  const byHits = new Map<number, Descriptor[]>();
  const parts: (BudgetRequest & { actual: number })[] = [];
  for (const [index, descriptor] of request.descriptors.entries()) {
    const actual = addendOf(descriptor, request);
    const crowded = leftOut?.crowded.get(index);
    if (crowded === undefined) {
      byHits.set(actual, [...(byHits.get(actual) ?? []), descriptor]);
      continue;
    }
    const own = { ...leftOut!, descriptors: 0, crowded: new Map([[0, crowded]]) };
    parts.push({ domain, descriptors: [descriptor], leftOut: own, actual });
  }
  for (const [actual, descriptors] of byHits) parts.push({ domain, descriptors, actual });
  return parts;
}

/** A failure goes first: it may have left something uncounted that is within the bounds. */
function endReport(
  reply: UnaryReply,
  tooLarge: RequestTooLarge | undefined,
  failed: BudgetFailure | undefined,
  options: KuadrantOptions,
): void {
  const unreported = tooLarge && options.tooLarge.unreported(tooLarge, reply.origin);
  const status = failed === undefined ? unreported : statusOf(failed);
  if (status === undefined) sendCode(reply, Code.OK);
  else reply.fail(status);
}

function reserve(bytes: Uint8Array, reply: UnaryReply, options: KuadrantOptions): void {
  const own = readOwn(bytes, reply, options);
  if (own === undefined) return;
  const { request, number: amount, ttlMs } = own;
  const problem = ttlMs < 0 ? invalid('ttl must not be negative') : amountsProblem('amount', own);
  if (problem !== undefined) {
    reply.fail(problem);
    return;
  }
  const holdMs = Math.min(Math.max(ttlMs === 0 ? defaultTtlMs : ttlMs, minTtlMs), options.maxTtlMs);
  const question = { ...questionOf(request), amount, ttlMs: holdMs, id: undefined, recalled: false };
  options.budgets.reserve(question, reply, (answer) => {
    if (!('failure' in answer)) reply.send(reserveResponse(answer.allowed, answer.id));
    else if (answer.failure === 'no-domain') reply.send(reserveResponse(true, ''));
    // The message has no field for a reason. The requested amount cannot be held.
    else if (answer.failure === 'full') reply.send(reserveResponse(false, ''));
    else reply.fail(statusOf(answer));
  });
}

function commit(bytes: Uint8Array, reply: UnaryReply, options: KuadrantOptions): void {
  const own = readOwn(bytes, reply, options);
  if (own === undefined) return;
  const { request, number: actual, id } = own;
  const isId = id === '' || reservationIdForm.test(id);
  const problem = isId ? amountsProblem('actual_amount', own) : notAnId;
  if (problem !== undefined) {
    reply.fail(problem);
    return;
  }
  options.budgets.commit({ ...questionOf(request), id, actual, unknown: 'charge' }, reply, (answer) => {
    if (!('failure' in answer)) {
      const { outcome } = answer;
      // A repeated commit gets the same answer.
      reply.send(commitResponse(outcome === 'settled' || outcome === 'repeated'));
    } else if (answer.failure === 'no-domain') reply.send(commitResponse(false));
    else reply.fail(statusOf(answer));
  });
}

/** Descriptors with `hits_addend` have their own amount. */
function questionOf({ domain, descriptors }: RateLimitRequest): BudgetRequest {
  const amounts = descriptors.map(({ hitsAddend }) => hitsAddend);
  const hasOwn = amounts.some((amount) => amount !== undefined);
  return { domain, descriptors, amounts: hasOwn ? amounts : undefined };
}

/** Fields of `ReserveRequest` and `CommitRequest` besides domain and descriptors: 3 and 4, in either order. */
interface OwnFields {
  request: RateLimitRequest;
  /** The value of `amount` or `actual_amount`. Rounded above 2^53 - 1. */
  number: number;
  id: string;
  ttlMs: number;
}

const reader = new WireReader();
const varint = 0;
const lengthDelimited = 2;

/** Returns undefined if the call was rejected. */
function readOwn(bytes: Uint8Array, reply: UnaryReply, options: KuadrantOptions): OwnFields | undefined {
  let number = 0;
  let id = '';
  let ttlMs = 0;
  const shared: Uint8Array[] = [];
  // All common clients write them next to each other.
  let sharedStart = 0;
  let sharedEnd = 0;
  try {
    const { bounds } = options;
    if (bytes.length > bounds.maxBytes) throw tooManyBytes(bytes.length, bounds);
    reader.reset(bytes);
    while (reader.position < bytes.length) {
      const start = reader.position;
      const field = reader.fieldNumber();
      const { wireType } = reader;
      if ((field === 3 || field === 4) && wireType === varint) number = reader.roundedUint64();
      else if (field === 3 && wireType === lengthDelimited) id = reader.string();
      else if (field === 4 && wireType === lengthDelimited) ttlMs = readDurationMs();
      else reader.skip(field, 1);
      if (field !== 1 && field !== 2) continue;
      if (start !== sharedEnd) {
        shared.push(bytes.subarray(sharedStart, sharedEnd));
        sharedStart = start;
      }
      sharedEnd = reader.position;
    }
  } catch (error) {
    reject(error, reply, options);
    return undefined;
  } finally {
    reader.reset();
  }
  const last = bytes.subarray(sharedStart, sharedEnd);
  const all = shared.length === 0 ? last : Buffer.concat([...shared, last]);
  const request = readRequest(all, reply, Right.RESERVE, options);
  return request && { request, number, id, ttlMs };
}

/** A `google.protobuf.Duration`, in whole milliseconds; -1 for one below 0. */
function readDurationMs(): number {
  let seconds = 0;
  let nanos = 0;
  const end = reader.messageEnd();
  while (reader.position < end) {
    const field = reader.fieldNumber();
    if (field === 1) seconds = reader.roundedUint64();
    else if (field === 2) nanos = reader.int32();
    else reader.skip(field, 2);
  }
  // As unsigned numbers, negative numbers are above 2^63.
  if (seconds === Number.POSITIVE_INFINITY || nanos < 0) return -1;
  return Math.ceil(seconds * 1000 + nanos / 1_000_000);
}

function sendCode(reply: UnaryReply, overallCode: Code): void {
  reply.send(codeMessage(overallCode));
}

function codeMessage(overallCode: Code): Uint8Array {
  const none = { responseHeadersToAdd: [], requestHeadersToAdd: [], dynamicMetadata: undefined };
  return encodeRateLimitResponse({ overallCode, statuses: [], ...none });
}

function reserveResponse(allowed: boolean, id: string): Uint8Array {
  if (!allowed || id === '') return Uint8Array.of(0x08, allowed ? Code.OK : Code.OVER_LIMIT);
  const message = Buffer.allocUnsafe(4 + id.length);
  message[0] = 0x08;
  message[1] = Code.OK;
  message[2] = 0x12;
  // An id that Weir makes is much shorter than 128 bytes.
  message[3] = id.length;
  message.write(id, 4, 'latin1');
  return message;
}

function commitResponse(released: boolean): Uint8Array {
  return Uint8Array.from(released ? [0x08, 1] : []);
}

const codes: Readonly<Record<BudgetFailure['failure'], GrpcCode>> = {
  invalid: GrpcCode.INVALID_ARGUMENT,
  'no-domain': GrpcCode.NOT_FOUND,
  conflict: GrpcCode.INVALID_ARGUMENT,
  full: GrpcCode.RESOURCE_EXHAUSTED,
  unsupported: GrpcCode.UNIMPLEMENTED,
  unavailable: GrpcCode.UNAVAILABLE,
};

function statusOf({ failure, message }: BudgetFailure): GrpcStatus {
  return { code: codes[failure], message };
}

function invalid(message: string): GrpcStatus {
  return { code: GrpcCode.INVALID_ARGUMENT, message };
}

function amountProblem(field: string, amount: number): GrpcStatus | undefined {
  const max = Number.MAX_SAFE_INTEGER;
  return amount > max ? invalid(`${field} must be at most ${max}`) : undefined;
}

/**
 * Returns why the amounts are invalid. Counters of one descriptor and several limits of requests are reserved as one, which has
 * one amount.
 */
function amountsProblem(field: string, { request, number }: OwnFields): GrpcStatus | undefined {
  for (const { hitsAddend, isNegativeHits, limit } of request.descriptors) {
    if (hitsAddend === undefined) continue;
    if (isNegativeHits) return negativeAmount;
    if (limit !== undefined) return limitWithAmount;
  }
  return amountProblem(field, number);
}

const negativeAmount = invalid('the hits_addend of a descriptor is its amount, and must not be negative');
const limitWithAmount = invalid('a descriptor with its own limit must not have a hits_addend');
const notAnId = invalid('reservation_id must be 1 to 255 visible ASCII characters, or empty');
const negativeHits = invalid('a report must not have negative hits: use ShouldRateLimit for refunds');
const noDescriptors = invalid('rate limit descriptor list must not be empty');
