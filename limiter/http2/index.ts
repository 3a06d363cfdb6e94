/** HTTP/2 of RFC 9113, server side: knows nothing of gRPC. `Http2Connection` is pure; sockets and timers are around it. */
export { Http2Connection } from './connection.ts';
export type { Http2ConnectionOptions } from './connection-options.ts';
export { ErrorCode } from './error-code.ts';
export { type BudgetLimits, defaultHttp2Limits, type Http2Limits } from './limits.ts';
export type { HeaderFields, RequestConnection, RequestHandler, RequestStream } from './request-handler.ts';
export type { Transport } from './transport.ts';
export { type ViolationReason, violationReasons, violationTexts } from './violation.ts';
