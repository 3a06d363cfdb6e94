/** The method `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`: bytes in, bytes or a status out. */
import {
  type CallSpan,
  GrpcCode,
  type GrpcStatus,
  type RequestOrigin,
  Right,
  type UnaryHandler,
  type UnaryReply,
} from '../../process/grpc/handlers.ts';
import { Code, type RateLimitRequest, type RateLimitResponse, ServiceError } from '../decide/messages.ts';
import type { Plan } from '../decide/plan.ts';
import { type RequestBounds, RequestTooLarge } from '../decide/request-bounds.ts';
import type { ResponseOptions } from '../decide/response.ts';
import { DecodeError, encodeRateLimitResponse } from '../decide/wire-codec.ts';
import { callAbandoned, StoreError } from '../stores/counter-store.ts';
import type { Decided, RateLimitService } from './rate-limit-service.ts';

export const shouldRateLimitPath = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit';

export interface ShouldRateLimitOptions extends RequestReading {
  service: Pick<RateLimitService, 'decide'>;
}

/** How bytes become a request. */
export interface RequestReading {
  bounds: RequestBounds;
  /** A request was refused for its size; nothing of it was counted. */
  onTooLarge(error: RequestTooLarge, origin: RequestOrigin | undefined): void;
  /** So many values of a request were no UTF-8, and are counted with U+FFFD for their bad bytes. */
  onMendedValues(values: number): void;
  /** Something that must not happen did; the caller is told no more than that. */
  onFault(error: unknown): void;
}

/** Handler for gRPC and, by way of it, for `/json`. Every call is answered, whatever the bytes. */
export function createShouldRateLimit(options: ShouldRateLimitOptions): UnaryHandler {
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
    refuse: (error, reply) => refuse(error, reply, options),
  };
  return boundedHandler((bytes, reply) => ask(bytes, reply, decided, options), options);
}

/** With the bound of a request's bytes, which whoever takes it in keeps to. */
export function boundedHandler(
  handler: (bytes: Uint8Array, reply: UnaryReply) => void,
  { bounds, onTooLarge }: RequestReading,
): UnaryHandler {
  const refuseLonger = (bytes: number, origin?: RequestOrigin): GrpcStatus => {
    const error = bounds.tooManyBytes(bytes);
    onTooLarge(error, origin);
    return tooLarge(error);
  };
  return Object.assign(handler, { longest: { maxBytes: bounds.limits.maxBytes, refuse: refuseLonger } });
}

/** Who is told a decision whole, and not as the protocol has room for it. */
export interface WholeReply extends Omit<UnaryReply, 'send'> {
  /** `plans`: one a descriptor, as there are statuses. */
  answer(response: RateLimitResponse, plans: readonly Plan[]): void;
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
      const mayPass = error instanceof StoreError || (error instanceof ServiceError && error.transient);
      if (mayPass) reply.fail({ code: GrpcCode.UNAVAILABLE, message: error.message });
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
): void {
  const request = readRequest(bytes, reply, Right.ASK, options);
  if (request !== undefined) options.service.decide(request, reply, decided);
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
    request = options.bounds.decode(bytes);
  } catch (error) {
    refuse(error, reply, options);
    return undefined;
  }
  const { caller } = reply;
  if (caller !== undefined) {
    const refusal = caller.refusal(request.domain, right | rightsOf(request));
    if (refusal !== undefined) {
      reply.fail(refusal);
      return undefined;
    }
  }
  if (request.mendedValues !== undefined) options.onMendedValues(request.mendedValues);
  if (reply.span !== undefined) describe(reply.span, request);
  return request;
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

/** INTERNAL for bytes that are no request, as grpc-go answers them; UNKNOWN for what the Go service calls an error. */
export function refuse(
  error: unknown,
  reply: Pick<UnaryReply, 'fail' | 'origin'>,
  options: RequestReading,
): void {
  if (error === callAbandoned) {
    // A caller that hung up hears nothing; for any other the deadline passed, in the words of grpc-go.
    reply.fail({ code: GrpcCode.DEADLINE_EXCEEDED, message: 'context deadline exceeded' });
  } else if (error instanceof ServiceError || error instanceof StoreError) {
    reply.fail({ code: GrpcCode.UNKNOWN, message: error.message });
  } else if (error instanceof RequestTooLarge) {
    options.onTooLarge(error, reply.origin);
    reply.fail(tooLarge(error));
  } else if (error instanceof DecodeError) {
    reply.fail({ code: GrpcCode.INTERNAL, message: `cannot decode the request: ${error.message}` });
  } else {
    options.onFault(error);
    reply.fail({ code: GrpcCode.INTERNAL, message: 'internal error' });
  }
}

function tooLarge({ message }: RequestTooLarge): GrpcStatus {
  return { code: GrpcCode.INVALID_ARGUMENT, message };
}
