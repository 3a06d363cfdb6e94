import type { CallObserver } from '../../process/grpc/call-observer.ts';
import { GrpcCode, type GrpcStatus } from '../../process/grpc/handlers.ts';
import type { Deadlines, DueCall } from './deadlines.ts';
import type { GrpcLimits } from './limits.ts';
import { trailersOnly } from './response-fields.ts';

/** One running call, as the connection drives it. */
export interface Call extends DueCall {
  receive(data: Uint8Array, endStream: boolean): void;
  /** The stream is gone; nothing can be sent. */
  abort(): void;
  /** Ends the call with a refusal: its caller did not do its part, and what that holds is needed. */
  shed(): void;
}

/** What all calls of a server share. */
export interface CallSite {
  observer: CallObserver;
  deadlines: Deadlines;
  limits: GrpcLimits;
}

/** What a caller is told whose handler failed by a fault of ours. */
export const fault: GrpcStatus = { code: GrpcCode.INTERNAL, message: 'internal error' };

/** Connections hold as much as they may together, and this call was unfinished longest where most was held. */
export const tooMuchUnfinished: GrpcStatus = {
  code: GrpcCode.RESOURCE_EXHAUSTED,
  message: 'too many bytes of unfinished requests',
};

export const deadlineExceeded = trailersOnly({
  code: GrpcCode.DEADLINE_EXCEEDED,
  message: 'context deadline exceeded',
});
