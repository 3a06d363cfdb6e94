/** The method `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`: takes bytes, and answers with bytes or a status. */
import {
  type CallSpan,
  GrpcCode,
  type LongestRequest,
  Right,
  type UnaryHandler,
  type UnaryReply,
} from '../../process/grpc/handlers.ts';
import type { Plan } from '../decide/limit-plan.ts';
import { Code, type OmittedParts, type RateLimitRequest, ServiceError } from '../decide/messages.ts';
import { type RequestLimits, RequestTooLarge, tooManyBytes } from '../decide/request-bounds.ts';
import type { ResponseOptions } from '../decide/response.ts';
import type { RateLimitResponse } from '../decide/response-message.ts';
import {
  DecodeError,
  decodeRateLimitRequest,
  decodeWholeRequest,
  encodeRateLimitResponse,
} from '../decide/wire-codec.ts';
import { callAbandoned } from '../stores/operation.ts';
import { StoreError } from '../stores/store-error.ts';
import { type TooLargeRequests, tooLargeStatus } from './over-without-limit.ts';
import type { Decided, RateLimitService } from './rate-limit-service.ts';

export const shouldRateLimitPath = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit';

export interface ShouldRateLimitOptions extends RequestReading {
  service: Pick<RateLimitService, 'decide'>;
}

/** The options for decoding requests. */
export interface RequestReading {
  bounds: RequestLimits;
  tooLarge: TooLargeRequests;
  /** The number of values of a request that were not UTF-8. They are counted with U+FFFD for their invalid bytes. */
  onInvalidUtf8Values(values: number): void;
  /** The number of texts of a request that are represented by their prefix and hash. */
  onLongTexts(texts: number): void;
  /** Reports a bug. The caller learns no details. */
  onFault(error: unknown): void;
}

/** `leftOut`: the entries that an earlier reader of the request has omitted. */
export interface ShouldRateLimit extends UnaryHandler {
  (request: Uint8Array, reply: UnaryReply, leftOut?: OmittedParts): void;
}

/** Handles gRPC calls and, through them, `/json`. Every call gets an answer, whatever its bytes. */
export function createShouldRateLimit(options: ShouldRateLimitOptions): ShouldRateLimit {
  const decided: Decided<UnaryReply> = {
    answer(response, reply) {
      if (reply.span !== undefined) noteCode(reply.span, response);
      let message: Uint8Array;
      try {
        message = encodeRateLimitResponse(response);
      } catch (error) {
        reject(error, reply, options);
        return;
      }
      reply.send(message);
    },
    reject: (error, reply) => rejectSized(error, reply, options),
  };
  const { bounds, tooLarge } = options;
  const longest: LongestRequest = {
    maxBytes: bounds.maxBytes,
    reject: (bytes, origin) => {
      const answer = tooLarge.answer(tooManyBytes(bytes, bounds), origin);
      return 'overallCode' in answer ? encodeRateLimitResponse(answer) : answer;
    },
  };
  return Object.assign(asking(decided, options), { longest });
}

/** Does the same as `reject`, but a request beyond the bounds gets the answer of REQUEST_TOO_LARGE. */
export function rejectSized(error: unknown, reply: UnaryReply, options: RequestReading): void {
  if (!(error instanceof RequestTooLarge)) {
    reject(error, reply, options);
    return;
  }
  const answer = options.tooLarge.answer(error, reply.origin);
  reply.noteTooLarge?.(error.message);
  if ('overallCode' in answer) {
    if (reply.span !== undefined) noteCode(reply.span, answer);
    reply.send(encodeRateLimitResponse(answer));
  } else reply.fail(answer);
}

/** The receiver of a whole decision, for APIs that can report more than the protocol. */
export interface WholeReply extends Omit<UnaryReply, 'send'> {
  /** `plans`: one per descriptor, as the statuses. */
  answer(response: RateLimitResponse, plans: readonly Plan[]): void;
  /** Called instead for a request beyond the bounds. Such a request has no plans. */
  answerTooLarge(response: RateLimitResponse, reason: string): void;
}

/**
 * Creates a function that decides requests as for gRPC callers. `response` selects the headers of answers. A temporary failure is
 * UNAVAILABLE.
 */
export function createWholeDecisions(
  options: ShouldRateLimitOptions,
  response: ResponseOptions,
): (bytes: Uint8Array, reply: WholeReply) => void {
  const decided: Decided<WholeReply> = {
    response,
    answer(decision, reply, plans) {
      if (reply.span !== undefined) noteCode(reply.span, decision);
      reply.answer(decision, plans);
    },
    reject(error, reply) {
      if (error instanceof RequestTooLarge) {
        const answer = options.tooLarge.answer(error, reply.origin);
        if ('overallCode' in answer) {
          if (reply.span !== undefined) noteCode(reply.span, answer);
          reply.answerTooLarge(answer, error.message);
        } else reply.fail(answer);
        return;
      }
      const mayPass = error instanceof StoreError || (error instanceof ServiceError && error.transient);
      if (mayPass) reply.fail({ code: GrpcCode.UNAVAILABLE, message: shownMessage(error) });
      else reject(error, reply, options);
    },
  };
  return asking(decided, options);
}

function asking<Reply extends Omit<UnaryReply, 'send'>>(
  decided: Decided<Reply>,
  options: ShouldRateLimitOptions,
): (bytes: Uint8Array, reply: Reply, leftOut?: OmittedParts) => void {
  return (bytes, reply, leftOut) => {
    let request: RateLimitRequest;
    try {
      request = decodeRateLimitRequest(bytes, options.bounds);
    } catch (error) {
      decided.reject(error, reply);
      return;
    }
    if (leftOut !== undefined) request.leftOut = leftOut;
    if (isAllowed(request, reply, Right.ASK, options)) options.service.decide(request, reply, decided);
  };
}

/**
 * Undefined: the call was rejected because of its bytes or size, or because its caller lacks a right that it needs in addition to
 * `right`.
 */
export function readRequest(
  bytes: Uint8Array,
  reply: Omit<UnaryReply, 'send'>,
  right: number,
  options: RequestReading,
): RateLimitRequest | undefined {
  let request: RateLimitRequest;
  try {
    request = decodeWholeRequest(bytes, options.bounds);
  } catch (error) {
    reject(error, reply, options);
    return undefined;
  }
  return isAllowed(request, reply, right, options) ? request : undefined;
}

/** Returns false if the caller lacks a right that it needs in addition to `right`. The caller then has its answer. */
export function isAllowed(
  request: RateLimitRequest,
  reply: Omit<UnaryReply, 'send'>,
  right: number,
  options: RequestReading,
): boolean {
  const { caller } = reply;
  if (caller !== undefined) {
    const rejection = caller.rejection(request.domain, right | rightsOf(request));
    if (rejection !== undefined) {
      reply.fail(rejection);
      return false;
    }
  }
  if (request.invalidUtf8Values !== undefined) options.onInvalidUtf8Values(request.invalidUtf8Values);
  if (request.longTexts !== undefined) options.onLongTexts(request.longTexts);
  if (reply.span !== undefined) describe(reply.span, request);
  return true;
}

function noteCode(span: CallSpan, { overallCode }: RateLimitResponse): void {
  span.set('weir.overall_code', overallCode === Code.OVER_LIMIT ? 'OVER_LIMIT' : 'OK');
}

/** The rights that descriptors need in addition to `ask`, as bits of `Right`. */
function rightsOf({ descriptors }: RateLimitRequest): number {
  let rights = 0;
  for (const { isNegativeHits, limit } of descriptors) {
    if (isNegativeHits) rights |= Right.REFUND;
    if (limit !== undefined) rights |= Right.OVERRIDE;
  }
  return rights;
}

/** Traces do not contain the values of descriptors, because these belong to the callers. */
function describe(span: CallSpan, request: RateLimitRequest): void {
  span.set('weir.domain', request.domain);
  span.set('weir.descriptors', request.descriptors.length);
}

function shownMessage(error: ServiceError | StoreError): string {
  return error instanceof StoreError ? error.textForCallers : error.message;
}

/**
 * Returns INVALID_ARGUMENT for a request beyond the bounds, INTERNAL for invalid bytes, as grpc-go does, and UNKNOWN for errors of the Go
 * service.
 */
export function reject(
  error: unknown,
  reply: Pick<UnaryReply, 'fail' | 'origin'>,
  options: RequestReading,
): void {
  if (error === callAbandoned) {
    // Sends no answer to a caller that closed the call. For other callers, the deadline passed; the text is that of grpc-go.
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
