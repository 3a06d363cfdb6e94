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
import { Code, type RateLimitRequest, ServiceError } from '../decide/messages.ts';
import { type RequestBounds, RequestTooLarge } from '../decide/request-bounds.ts';
import { DecodeError, encodeRateLimitResponse } from '../decide/wire-codec.ts';
import { callAbandoned, StoreError } from '../stores/counter-store.ts';
import type { Decided, RateLimitService } from './rate-limit-service.ts';

export const shouldRateLimitPath = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit';

export interface ShouldRateLimitOptions {
  service: Pick<RateLimitService, 'decide'>;
  bounds: RequestBounds;
  /** A request was refused for its size; nothing of it was counted. */
  onTooLarge(error: RequestTooLarge, origin: RequestOrigin | undefined): void;
  /** So many values of a request were no UTF-8, and are counted with U+FFFD for their bad bytes. */
  onMendedValues(values: number): void;
  /** Something that must not happen did; the caller is told no more than that. */
  onFault(error: unknown): void;
}

/** Handler for gRPC and, by way of it, for /json. Every call is answered, whatever the bytes. */
export function createShouldRateLimit(options: ShouldRateLimitOptions): UnaryHandler {
  const { bounds, service } = options;
  const decided: Decided<UnaryReply> = {
    answer(response, reply) {
      reply.span?.set('weir.overall_code', response.overallCode === Code.OVER_LIMIT ? 'OVER_LIMIT' : 'OK');
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
  const handler = (bytes: Uint8Array, reply: UnaryReply): void => {
    let request: RateLimitRequest;
    try {
      request = bounds.decode(bytes);
    } catch (error) {
      refuse(error, reply, options);
      return;
    }
    const { caller } = reply;
    if (caller !== undefined) {
      const refusal = caller.refusal(request.domain, rightsOf(request));
      if (refusal !== undefined) {
        reply.fail(refusal);
        return;
      }
    }
    if (request.mendedValues !== undefined) options.onMendedValues(request.mendedValues);
    if (reply.span !== undefined) describe(reply.span, request);
    service.decide(request, reply, decided);
  };
  const refuseLonger = (bytes: number, origin?: RequestOrigin): GrpcStatus => {
    const error = bounds.tooManyBytes(bytes);
    options.onTooLarge(error, origin);
    return tooLarge(error);
  };
  return Object.assign(handler, { longest: { maxBytes: bounds.limits.maxBytes, refuse: refuseLonger } });
}

/** What a request asks for, in bits of `Right`. */
function rightsOf({ descriptors }: RateLimitRequest): number {
  let rights: number = Right.ASK;
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
function refuse(error: unknown, reply: UnaryReply, options: ShouldRateLimitOptions): void {
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
