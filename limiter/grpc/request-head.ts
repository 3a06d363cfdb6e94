import { GrpcCode, severalAuthorizations } from '../../process/grpc/handlers.ts';
import type { HeaderFields } from '../http2/request-handler.ts';
import { trailersOnly } from './call.ts';

const unitMs: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};
const digit0 = 0x30;
const digit9 = 0x39;

/**
 * What `grpc-timeout` says: one to eight digits and a unit; undefined when it is not that.
 * https://github.com/grpc/grpc/blob/v1.60.0/doc/PROTOCOL-HTTP2.md
 */
export function timeoutMsOf(text: string): number | undefined {
  const digits = text.length - 1;
  if (digits < 1 || digits > 8) return undefined;
  let value = 0;
  for (let index = 0; index < digits; index++) {
    const code = text.charCodeAt(index);
    if (code < digit0 || code > digit9) return undefined;
    value = value * 10 + code - digit0;
  }
  const unit = unitMs[text[digits]!];
  return unit === undefined ? undefined : value * unit;
}

/**
 * What gRPC reads of a request's header section; other metadata is ignored. A missing `te` is forgiven, as gRPC's other servers
 * do. https://github.com/grpc/grpc/blob/v1.60.0/doc/PROTOCOL-HTTP2.md
 */
export interface RequestHead {
  method: string;
  path: string;
  contentType: string;
  /** As sent; empty when there is none. */
  timeout: string;
  /** Infinite when the caller waits as long as it takes, NaN when it is malformed. */
  timeoutMs: number;
  /** Of the messages. */
  encoding: string;
  /** Empty when there is none. */
  authorization: string;
}

export function readHead(fields: HeaderFields): RequestHead {
  const head: RequestHead = {
    method: '',
    path: '',
    contentType: '',
    timeout: '',
    timeoutMs: Number.POSITIVE_INFINITY,
    encoding: 'identity',
    authorization: '',
  };
  for (let index = 0; index < fields.length; index += 2) {
    const value = fields[index + 1]!;
    switch (fields[index]) {
      case ':method':
        head.method = value;
        break;
      case ':path':
        head.path = value;
        break;
      case 'content-type':
        head.contentType = value;
        break;
      case 'grpc-timeout':
        head.timeout = value;
        head.timeoutMs = timeoutMsOf(value) ?? Number.NaN;
        break;
      case 'grpc-encoding':
        head.encoding = value;
        break;
      case 'authorization':
        head.authorization = head.authorization === '' ? value : severalAuthorizations;
        break;
    }
  }
  return head;
}

/** The answer to a request that is no call at all; undefined for one that is. In the order in which grpc-go checks. */
export function headRefusal(head: RequestHead): HeaderFields | undefined {
  const { contentType, method } = head;
  if (!isGrpc(contentType)) {
    const message = `invalid gRPC request content-type "${contentType}"`;
    return trailersOnly({ code: GrpcCode.INVALID_ARGUMENT, message }, 415);
  }
  if (Number.isNaN(head.timeoutMs)) {
    return trailersOnly(
      { code: GrpcCode.INTERNAL, message: `malformed grpc-timeout: "${head.timeout}"` },
      400,
    );
  }
  if (method !== 'POST') {
    const message = `Received a HEADERS frame with :method "${method}" which should be POST`;
    return trailersOnly({ code: GrpcCode.INTERNAL, message }, 405);
  }
  return undefined;
}

/** Messages are protobuf alone. RFC 9110, section 8.3.1: types are compared without case, and may have parameters. */
function isGrpc(contentType: string): boolean {
  if (contentType === 'application/grpc' || contentType === 'application/grpc+proto') return true;
  return /^application\/grpc(\+proto)?[ \t]*(;|$)/i.test(contentType);
}

/** Whether messages come as they are. */
export function isIdentity(encoding: string): boolean {
  return encoding === 'identity' || encoding === '';
}
