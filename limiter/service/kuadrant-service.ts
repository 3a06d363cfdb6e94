/**
 * `kuadrant.service.ratelimit.v1.RateLimitService` (proto/kuadrant), by which Kuadrant's gateways ask limitador: checks,
 * reports, reservations and their commits. The first two fields of its own messages are those of a `RateLimitRequest`.
 */
import {
  GrpcCode,
  type GrpcStatus,
  Right,
  type UnaryHandler,
  type UnaryReply,
} from '../../process/grpc/handlers.ts';
import { Code, type Descriptor, type RateLimitRequest } from '../decide/messages.ts';
import { encodeRateLimitResponse } from '../decide/wire-codec.ts';
import { WireReader } from '../decide/wire-reader.ts';
import {
  type BudgetFailure,
  type BudgetScope,
  type Budgets,
  leastTtlMs,
  reservationIdForm,
  usualTtlMs,
} from './budgets.ts';
import { addendOf } from './counted-hit.ts';
import { boundedHandler, type RequestReading, readRequest, refuse } from './should-rate-limit.ts';

export interface KuadrantOptions extends RequestReading {
  budgets: Budgets;
  /** BUDGET_MAX_TTL: a longer TTL is cut to it, as one below a second is made that. */
  maxTtlMs: number;
}

const servicePath = '/kuadrant.service.ratelimit.v1.RateLimitService/';
export const kuadrantMethods = ['CheckRateLimit', 'Report', 'Reserve', 'Commit'] as const;

type Method = (bytes: Uint8Array, reply: UnaryReply, options: KuadrantOptions) => void;
const methods: Readonly<Record<(typeof kuadrantMethods)[number], Method>> = {
  CheckRateLimit: check,
  Report: report,
  Reserve: reserve,
  Commit: commit,
};

/** By path. Every call is answered, whatever the bytes. */
export function createKuadrantMethods(options: KuadrantOptions): Map<string, UnaryHandler> {
  return new Map(
    kuadrantMethods.map((name) => {
      const handler = boundedHandler((bytes, reply) => methods[name](bytes, reply, options), options);
      return [servicePath + name, handler];
    }),
  );
}

function check(bytes: Uint8Array, reply: UnaryReply, options: KuadrantOptions): void {
  const request = readRequest(bytes, reply, Right.ASK, options);
  if (request === undefined) return;
  options.budgets.status(request, reply, (answer) => {
    if (!('failure' in answer)) sendCode(reply, isOver(request, answer) ? Code.OVER_LIMIT : Code.OK);
    else if (answer.failure === 'no-domain') sendCode(reply, Code.OK);
    else reply.fail(statusOf(answer));
  });
}

/** As decisions have it: a descriptor over its limit is enough, of quotas all have to be. */
function isOver({ descriptors }: RateLimitRequest, scopes: readonly BudgetScope[]): boolean {
  const quotas: boolean[] = [];
  for (const index of descriptors.keys()) {
    const own = scopes.filter(({ descriptor }) => descriptor === index);
    const over = own.some(({ left, isShadow }) => left < 1 && !isShadow);
    if (own.some(({ isQuota }) => isQuota)) quotas.push(over);
    else if (over) return true;
  }
  return quotas.length > 0 && quotas.every((over) => over);
}

function report(bytes: Uint8Array, reply: UnaryReply, options: KuadrantOptions): void {
  const request = readRequest(bytes, reply, Right.ASK, options);
  if (request === undefined) return;
  const byHits = new Map<number, Descriptor[]>();
  let problem: GrpcStatus | undefined;
  for (const descriptor of request.descriptors) {
    const hits = addendOf(descriptor, request);
    problem ??= descriptor.isNegativeHits ? negativeHits : amountProblem('hits_addend', hits);
    byHits.set(hits, [...(byHits.get(hits) ?? []), descriptor]);
  }
  if (problem !== undefined || byHits.size === 0) {
    reply.fail(problem ?? noDescriptors);
    return;
  }
  let open = byHits.size;
  let failed: BudgetFailure | undefined;
  for (const [actual, descriptors] of byHits) {
    const question = { domain: request.domain, descriptors, id: '', actual, unknown: 'charge' } as const;
    options.budgets.settle(question, reply, (answer) => {
      open -= 1;
      if ('failure' in answer && answer.failure !== 'no-domain') failed = answer;
      if (open > 0) return;
      if (failed === undefined) sendCode(reply, Code.OK);
      else reply.fail(statusOf(failed));
    });
  }
}

function reserve(bytes: Uint8Array, reply: UnaryReply, options: KuadrantOptions): void {
  const own = readOwn(bytes, reply, options);
  if (own === undefined) return;
  const { request, number: amount, ttlMs } = own;
  const problem = ttlMs < 0 ? invalid('ttl must not be negative') : amountProblem('amount', amount);
  if (problem !== undefined) {
    reply.fail(problem);
    return;
  }
  const { domain, descriptors } = request;
  const holdMs = Math.min(Math.max(ttlMs === 0 ? usualTtlMs : ttlMs, leastTtlMs), options.maxTtlMs);
  const question = { domain, descriptors, amount, ttlMs: holdMs, id: undefined, recalled: false };
  options.budgets.reserve(question, reply, (answer) => {
    if (!('failure' in answer)) reply.send(reserveResponse(answer.allowed, answer.id));
    else if (answer.failure === 'no-domain') reply.send(reserveResponse(true, ''));
    // The message has no room for a reason; what it asked for cannot be held.
    else if (answer.failure === 'full') reply.send(reserveResponse(false, ''));
    else reply.fail(statusOf(answer));
  });
}

function commit(bytes: Uint8Array, reply: UnaryReply, options: KuadrantOptions): void {
  const own = readOwn(bytes, reply, options);
  if (own === undefined) return;
  const { request, number: actual, id } = own;
  const isId = id === '' || reservationIdForm.test(id);
  const problem = isId ? amountProblem('actual_amount', actual) : notAnId;
  if (problem !== undefined) {
    reply.fail(problem);
    return;
  }
  const { domain, descriptors } = request;
  options.budgets.settle({ domain, descriptors, id, actual, unknown: 'charge' }, reply, (answer) => {
    if (!('failure' in answer)) {
      const { outcome } = answer;
      // The same again is told the same.
      reply.send(commitResponse(outcome === 'settled' || outcome === 'repeated'));
    } else if (answer.failure === 'no-domain') reply.send(commitResponse(false));
    else reply.fail(statusOf(answer));
  });
}

/** What `ReserveRequest` and `CommitRequest` have beside domain and descriptors: 3 and 4, either way round. */
interface OwnFields {
  request: RateLimitRequest;
  /** `amount` or `actual_amount`. Rounded above 2^53 - 1. */
  number: number;
  id: string;
  ttlMs: number;
}

const reader = new WireReader();
const varint = 0;
const lengthDelimited = 2;

/** Undefined: the call was refused. */
function readOwn(bytes: Uint8Array, reply: UnaryReply, options: KuadrantOptions): OwnFields | undefined {
  let number = 0;
  let id = '';
  let ttlMs = 0;
  const shared: Uint8Array[] = [];
  // From every usual client they stand side by side.
  let sharedStart = 0;
  let sharedEnd = 0;
  try {
    options.bounds.checkBytes(bytes.length);
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
    refuse(error, reply, options);
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
  // As unsigned numbers those below 0 are above 2^63.
  if (seconds === Number.POSITIVE_INFINITY || nanos < 0) return -1;
  return Math.ceil(seconds * 1000 + nanos / 1_000_000);
}

function sendCode(reply: UnaryReply, overallCode: Code): void {
  const none = { responseHeadersToAdd: [], requestHeadersToAdd: [], dynamicMetadata: undefined };
  reply.send(encodeRateLimitResponse({ overallCode, statuses: [], ...none }));
}

function reserveResponse(allowed: boolean, id: string): Uint8Array {
  const code = [0x08, allowed ? Code.OK : Code.OVER_LIMIT];
  if (!allowed || id === '') return Uint8Array.from(code);
  // An id of ours is much shorter than 128 bytes.
  return Uint8Array.from([...code, 0x12, id.length, ...Buffer.from(id, 'latin1')]);
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
  const most = Number.MAX_SAFE_INTEGER;
  return amount > most ? invalid(`${field} must be at most ${most}`) : undefined;
}

const notAnId = invalid('reservation_id must be 1 to 255 visible ASCII characters, or empty');
const negativeHits = invalid('a report takes no negative hits: ShouldRateLimit gives hits back');
const noDescriptors = invalid('rate limit descriptor list must not be empty');
