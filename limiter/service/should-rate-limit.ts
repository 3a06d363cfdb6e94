/** The method `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`: bytes in, bytes or a status out. */
import {
  type CallSpan,
  GrpcCode,
  type LongestRequest,
  Right,
  type UnaryHandler,
  type UnaryReply,
} from '../../process/grpc/handlers.ts';
import type { RateLimitResponse } from '../decide/decided.ts';
import type { Plan } from '../decide/limit-plan.ts';
import { Code, type LeftOut, type RateLimitRequest, ServiceError } from '../decide/messages.ts';
import { type RequestBounds, RequestTooLarge } from '../decide/request-bounds.ts';
import type { ResponseOptions } from '../decide/response.ts';
import { DecodeError, encodeRateLimitResponse } from '../decide/wire-codec.ts';
import { callAbandoned } from '../stores/operation.ts';
import { StoreError } from '../stores/store-error.ts';
import type { Decided, RateLimitService } from './rate-limit-service.ts';
import { type TooLargeRequests, tooLargeStatus } from './too-large.ts';

export const shouldRateLimitPath = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit';

export interface ShouldRateLimitOptions extends RequestReading {
  service: Pick<RateLimitService, 'decide'>;
}

/** How bytes become a request. */
export interface RequestReading {
  bounds: RequestBounds;
  tooLarge: TooLargeRequests;
  /** So many values of a request were no UTF-8, and are counted with U+FFFD for their bad bytes. */
  onMendedValues(values: number): void;
  /** So many texts of a request are counted by their beginnings and hashes. */
  onLongTexts(texts: number): void;
  /** Something that must not happen did; the caller is shown no more than that. */
  onFault(error: unknown): void;
}

/** `leftOut`: of the request, where anyone who made its bytes has left something out already. */
export interface ShouldRateLimit extends UnaryHandler {
  (request: Uint8Array, reply: UnaryReply, leftOut?: LeftOut): void;
}

/** Handler for gRPC and, by way of it, for `/json`. Every call is answered, whatever the bytes. */
export function createShouldRateLimit(options: ShouldRateLimitOptions): ShouldRateLimit {
  const decided: Decided<UnaryReply> = {
    answer(response, reply) {
      noteCode(reply.span, response);
      let message: Uint8Array;
      try {
        message = encodeRateLimitResponse(response);
      } catch (error) {
        refuse(error, reply, options);
        return;
      }
      reply.send(message);
    },
    refuse: (error, reply) => refuseSized(error, reply, options),
  };
  const { bounds, tooLarge } = options;
  const handler = (bytes: Uint8Array, reply: UnaryReply, leftOut?: LeftOut): void =>
    ask(bytes, reply, decided, options, leftOut);
  const longest: LongestRequest = {
    maxBytes: bounds.limits.maxBytes,
    refuse: (bytes, origin) => {
      const answer = tooLarge.answer(bounds.tooManyBytes(bytes), origin);
      return 'overallCode' in answer ? encodeRateLimitResponse(answer) : answer;
    },
  };
  return Object.assign(handler, { longest });
}

/** As `refuse`; a request beyond the bounds gets what REQUEST_TOO_LARGE says. */
export function refuseSized(error: unknown, reply: UnaryReply, options: RequestReading): void {
  if (!(error instanceof RequestTooLarge)) {
    refuse(error, reply, options);
    return;
  }
  const answer = options.tooLarge.answer(error, reply.origin);
  reply.noteTooLarge?.(error.message);
  if ('overallCode' in answer) {
    noteCode(reply.span, answer);
    reply.send(encodeRateLimitResponse(answer));
  } else reply.fail(answer);
}

/** Who is shown a decision whole, and not as the protocol has room for it. */
export interface WholeReply extends Omit<UnaryReply, 'send'> {
  /** `plans`: one a descriptor, as there are statuses. */
  answer(response: RateLimitResponse, plans: readonly Plan[]): void;
  /** In place of that, of a request beyond the bounds, for which nothing was planned. */
  answerTooLarge(response: RateLimitResponse, reason: string): void;
}

/** Asks as any other caller does; `response` says which headers answers have. What may work a moment later fails with UNAVAILABLE. */
export function createWholeDecisions(
  options: ShouldRateLimitOptions,
  response: ResponseOptions,
): (bytes: Uint8Array, reply: WholeReply) => void {
  const decided: Decided<WholeReply> = {
    response,
    answer(decision, reply, plans) {
      noteCode(reply.span, decision);
      reply.answer(decision, plans);
    },
    refuse(error, reply) {
      if (error instanceof RequestTooLarge) {
        const answer = options.tooLarge.answer(error, reply.origin);
        if ('overallCode' in answer) {
          noteCode(reply.span, answer);
          reply.answerTooLarge(answer, error.message);
        } else reply.fail(answer);
        return;
      }
      const mayPass = error instanceof StoreError || (error instanceof ServiceError && error.transient);
      if (mayPass) reply.fail({ code: GrpcCode.UNAVAILABLE, message: shownMessage(error) });
      else refuse(error, reply, options);
    },
  };
  return (bytes, reply) => ask(bytes, reply, decided, options);
}

function ask<Reply extends Omit<UnaryReply, 'send'>>(
  bytes: Uint8Array,
  reply: Reply,
  decided: Decided<Reply>,
  options: ShouldRateLimitOptions,
  leftOut?: LeftOut,
): void {
  let request: RateLimitRequest;
  try {
    request = options.bounds.decode(bytes);
  } catch (error) {
    decided.refuse(error, reply);
    return;
  }
  if (leftOut !== undefined) request.leftOut = leftOut;
  if (isAllowed(request, reply, Right.ASK, options)) options.service.decide(request, reply, decided);
}

/** Undefined: the call was refused, for its bytes, its size, or because its caller may not do all that it asks beside `right`. */
export function readRequest(
  bytes: Uint8Array,
  reply: Omit<UnaryReply, 'send'>,
  right: number,
  options: RequestReading,
): RateLimitRequest | undefined {
  let request: RateLimitRequest;
  try {
    request = options.bounds.decodeWhole(bytes);
  } catch (error) {
    refuse(error, reply, options);
    return undefined;
  }
  return isAllowed(request, reply, right, options) ? request : undefined;
}

/** False: its caller may not do all that it asks beside `right`, and was reported. */
export function isAllowed(
  request: RateLimitRequest,
  reply: Omit<UnaryReply, 'send'>,
  right: number,
  options: RequestReading,
): boolean {
  const { caller } = reply;
  if (caller !== undefined) {
    const refusal = caller.refusal(request.domain, right | rightsOf(request));
    if (refusal !== undefined) {
      reply.fail(refusal);
      return false;
    }
  }
  if (request.mendedValues !== undefined) options.onMendedValues(request.mendedValues);
  if (request.longTexts !== undefined) options.onLongTexts(request.longTexts);
  if (reply.span !== undefined) describe(reply.span, request);
  return true;
}

function noteCode(span: CallSpan | undefined, { overallCode }: RateLimitResponse): void {
  span?.set('weir.overall_code', overallCode === Code.OVER_LIMIT ? 'OVER_LIMIT' : 'OK');
}

/** What descriptors ask for beside an answer, in bits of `Right`. */
function rightsOf({ descriptors }: RateLimitRequest): number {
  let rights = 0;
  for (const { isNegativeHits, limit } of descriptors) {
    if (isNegativeHits) rights |= Right.REFUND;
    if (limit !== undefined) rights |= Right.OVERRIDE;
  }
  return rights;
}

/** The values of descriptors stay out of traces: they are the callers'. */
function describe(span: CallSpan, request: RateLimitRequest): void {
  span.set('weir.domain', request.domain);
  span.set('weir.descriptors', request.descriptors.length);
}

function shownMessage(error: ServiceError | StoreError): string {
  return error instanceof StoreError ? error.textForCallers : error.message;
}

/** INVALID_ARGUMENT for a request beyond the bounds; INTERNAL for bytes that are none, as grpc-go answers them; UNKNOWN for what the Go service calls an error. */
export function refuse(
  error: unknown,
  reply: Pick<UnaryReply, 'fail' | 'origin'>,
  options: RequestReading,
): void {
  if (error === callAbandoned) {
    // A caller that hung up hears nothing; for any other the deadline passed, in the words of grpc-go.
    reply.fail({ code: GrpcCode.DEADLINE_EXCEEDED, message: 'context deadline exceeded' });
  } else if (error instanceof ServiceError || error instanceof StoreError) {
    reply.fail({ code: GrpcCode.UNKNOWN, message: shownMessage(error) });
  } else if (error instanceof RequestTooLarge) {
    options.tooLarge.note(error, reply.origin);
    reply.fail(tooLargeStatus(error));
  } else if (error instanceof DecodeError) {
    reply.fail({ code: GrpcCode.INTERNAL, message: `cannot decode the request: ${error.message}` });
  } else {
    options.onFault(error);
    reply.fail({ code: GrpcCode.INTERNAL, message: 'internal error' });
  }
}
