import type { ErrorCode } from './error-code.ts';

/** Why a connection was ended against the peer's will; counted as `ratelimit_server.http2.<reason>`. */
export const violationReasons = [
  /** The first bytes are no HTTP/2 preface: HTTP/1.1, TLS on a cleartext port, a port scanner. */
  'not_http2',
  'preface_timeout',
  'settings_timeout',
  'idle_timeout',
  /** A PING was not answered. */
  'keepalive_timeout',
  /** Answers waited too long, or became too many, for the peer to read them or to open its windows. */
  'slow_reader',
  /** SETTINGS, PING, PRIORITY, WINDOW_UPDATE, empty DATA and the like without requests to go with them. */
  'control_flood',
  /** Requests that were reset as soon as they were sent (CVE-2023-44487). */
  'rapid_reset',
  /** Faults that made the server reset streams (CVE-2025-8671). */
  'provoked_reset',
  'continuation_flood',
  /** One header section beyond the absolute bound. */
  'header_block_size',
  'compression_error',
  'flow_control_error',
  'frame_size_error',
  'stream_closed',
  'protocol_error',
  /** A defect of ours: a handler threw. */
  'internal_error',
] as const;
export type ViolationReason = (typeof violationReasons)[number];

/** Ends the connection with GOAWAY. RFC 9113, section 5.4.1. */
export class ConnectionError extends Error {
  readonly code: ErrorCode;
  readonly reason: ViolationReason;

  constructor(code: ErrorCode, reason: ViolationReason) {
    super(`HTTP/2 connection error: ${reason}`);
    this.name = 'ConnectionError';
    this.code = code;
    this.reason = reason;
  }
}
