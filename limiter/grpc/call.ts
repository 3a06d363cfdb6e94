import { type CallObserver, GrpcCode, type GrpcStatus, statusText } from '../../process/grpc/handlers.ts';
import type { HeaderFields, RequestReceiver } from '../http2/request-handler.ts';
import type { GrpcLimits } from './message-reader.ts';

/** A call with a deadline, and its neighbors in the list of such calls. */
export interface CallWithDeadline {
  /** The time on the monotonic clock. */
  readonly deadlineMs: number;
  previousDue: CallWithDeadline | undefined;
  nextDue: CallWithDeadline | undefined;
  /** Called when the deadline has passed. */
  expire(): void;
}

const needsEncoding = /[^ -$&-~]/;
const hex = '0123456789ABCDEF';

/**
 * Encodes a status message as the value of `grpc-message`: bounded, in UTF-8, and percent-encoded except for printable ASCII characters
 * other than the percent sign. https://github.com/grpc/grpc/blob/v1.60.0/doc/PROTOCOL-HTTP2.md
 */
export function encodeStatusMessage(message: string): string {
  const text = statusText(message);
  if (!needsEncoding.test(text)) return text;
  let encoded = '';
  for (const byte of Buffer.from(text, 'utf8')) {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25;
    encoded += isPlain ? String.fromCharCode(byte) : `%${hex[byte >> 4]}${hex[byte & 15]}`;
  }
  return encoded;
}

const contentType = 'application/grpc';

/** Constant header sections are always the same arrays, for which HPACK needs one byte for each field on the wire. */
export const okHeaders: HeaderFields = [':status', '200', 'content-type', contentType];
export const okTrailers: HeaderFields = ['grpc-status', '0'];

/** The end of an answer that has begun. */
export function statusTrailers(status: GrpcStatus): HeaderFields {
  return ['grpc-status', String(status.code), 'grpc-message', encodeStatusMessage(status.message)];
}

/** A whole answer without a message. */
export function trailersOnly(status: GrpcStatus, httpStatus = 200): HeaderFields {
  return [':status', String(httpStatus), 'content-type', contentType, ...statusTrailers(status)];
}

/** The answer to a call whose messages are compressed. It names the encoding that the server accepts instead. */
export function encodingRejected(encoding: string): HeaderFields {
  const message = `Decompressor is not installed for grpc-encoding "${encoding}"`;
  const status = { code: GrpcCode.UNIMPLEMENTED, message };
  return [...trailersOnly(status), 'grpc-accept-encoding', 'identity'];
}

/** A call in progress, as the connection drives it. */
export type Call = CallWithDeadline & RequestReceiver;

/** Ends calls whose deadline has passed. */
export interface CallDeadlines {
  add(call: CallWithDeadline): void;
  /** Removes a call that was added before. */
  remove(call: CallWithDeadline): void;
  close(): void;
}

/** The parts that all calls of a server share. */
export interface CallSite {
  observer: CallObserver;
  /** The calls with a deadline. */
  deadlines: CallDeadlines;
  limits: GrpcLimits;
}

/** The status that callers get for a bug in a handler. */
export const fault: GrpcStatus = { code: GrpcCode.INTERNAL, message: 'internal error' };

/**
 * The status of a call that is ended because all connections together hold the maximum. It was the longest unfinished call of the
 * connection that holds most.
 */
export const tooMuchUnfinished: GrpcStatus = {
  code: GrpcCode.RESOURCE_EXHAUSTED,
  message: 'too many bytes of unfinished requests',
};

export const deadlineExceeded = trailersOnly({
  code: GrpcCode.DEADLINE_EXCEEDED,
  message: 'context deadline exceeded',
});
