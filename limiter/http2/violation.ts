import { ErrorCode } from './constants.ts';

/**
 * Reasons for ending a connection, counted as `ratelimit_server.http2.<reason>`. The texts say, for the log and for the debug data of
 * GOAWAY, what the peer did or did not do.
 */
export const violationTexts = {
  /** The first bytes are no HTTP/2 preface. A port scanner counts, too. */
  not_http2: 'it does not speak HTTP/2: HTTP/1.1, or TLS on a port without it',
  preface_timeout: 'it did not begin HTTP/2 in time',
  settings_timeout: 'it did not acknowledge the SETTINGS in time',
  idle_timeout: 'it made no call for the longest time that is allowed',
  keepalive_timeout: 'it did not answer a PING',
  unfinished_frame: 'it began a header section, or a frame, and did not end it in time',
  too_many_bytes: 'it held most of what all connections may hold for what their peers have not done yet',
  slow_reader: 'it does not read its answers, or opens no window for them',
  control_flood: 'too many frames that are no requests: SETTINGS, PING, PRIORITY, WINDOW_UPDATE, empty DATA',
  /** CVE-2023-44487. */
  rapid_reset: 'too many requests that were reset as soon as they were sent',
  /** CVE-2025-8671. */
  provoked_reset: 'too many requests that had to be reset or refused for a fault in them',
  continuation_flood: 'too many CONTINUATION frames in one header section',
  header_block_size: 'a header section beyond the bound',
  compression_error: 'a header section that cannot be decompressed',
  flow_control_error: 'more than a window allows',
  frame_size_error: 'a frame of a size that is not allowed',
  stream_closed: 'a frame on a stream that is closed',
  protocol_error: 'a frame where HTTP/2 does not allow it',
  /** A handler threw. */
  internal_error: 'nothing: a defect of this server',
} as const;
export type ViolationReason = keyof typeof violationTexts;
export const violationReasons = Object.keys(violationTexts) as ViolationReason[];

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

export function protocolError(): ConnectionError {
  return new ConnectionError(ErrorCode.PROTOCOL_ERROR, 'protocol_error');
}

export function frameSizeError(): ConnectionError {
  return new ConnectionError(ErrorCode.FRAME_SIZE_ERROR, 'frame_size_error');
}

export function flowControlError(): ConnectionError {
  return new ConnectionError(ErrorCode.FLOW_CONTROL_ERROR, 'flow_control_error');
}

/** Returns the error for a peer that asks too much of the server, or leaves too much undone. */
export function enhanceYourCalmError(reason: ViolationReason): ConnectionError {
  return new ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, reason);
}
