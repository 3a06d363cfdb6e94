/** Header sections of answers. The constant ones are the same arrays every time, which cost a byte a field on the wire. */
import { GrpcCode, type GrpcStatus } from '../../process/grpc/handlers.ts';
import type { HeaderFields } from '../http2/request-handler.ts';
import { encodeStatusMessage } from './status-message.ts';

const contentType = 'application/grpc';

export const okHeaders: HeaderFields = [':status', '200', 'content-type', contentType];
export const okTrailers: HeaderFields = ['grpc-status', '0'];

/** What ends an answer that began. */
export function statusTrailers(status: GrpcStatus): HeaderFields {
  return ['grpc-status', String(status.code), 'grpc-message', encodeStatusMessage(status.message)];
}

/** A whole answer without a message. */
export function trailersOnly(status: GrpcStatus, httpStatus = 200): HeaderFields {
  return [':status', String(httpStatus), 'content-type', contentType, ...statusTrailers(status)];
}

/** The answer to a call whose messages are compressed; it names what the server takes instead. */
export function encodingRefused(encoding: string): HeaderFields {
  const message = `Decompressor is not installed for grpc-encoding "${encoding}"`;
  const status = { code: GrpcCode.UNIMPLEMENTED, message };
  return [...trailersOnly(status), 'grpc-accept-encoding', 'identity'];
}
