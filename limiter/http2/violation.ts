import { ErrorCode } from './constants.ts';

/**
 * Reasons for ending a connection, counted as `ratelimit_server.http2.<reason>`. The texts describe the fault of the peer for the log and
 * for the debug data of GOAWAY.
 */
export const violationTexts = {
  /** The first bytes are not an HTTP/2 preface. A port scanner counts, too. */
  not_http2: 'it does not speak HTTP/2 (perhaps HTTP/1.1, or TLS on a port without TLS)',
  preface_timeout: 'it did not begin HTTP/2 in time',
  settings_timeout: 'it did not acknowledge the SETTINGS in time',
  idle_timeout: 'it made no call for too long',
  keepalive_timeout: 'it did not answer a PING',
  unfinished_frame: 'it did not complete a header section or a frame in time',
  too_many_bytes: 'it used most of the memory that all connections may use for unfinished work',
  slow_reader: 'it does not read its answers, or does not open a window for them',
  control_flood: 'too many frames that are not requests: SETTINGS, PING, PRIORITY, WINDOW_UPDATE, empty DATA',
  /** CVE-2023-44487. */
  rapid_reset: 'too many requests that it reset at once',
  /** CVE-2025-8671. */
  provoked_reset: 'too many requests with errors, which the limiter had to reset',
  continuation_flood: 'too many CONTINUATION frames in one header section',
  header_block_size: 'its header section is larger than the bound',
  compression_error: 'its header section cannot be decompressed',
  flow_control_error: 'it sent more data than the window allows',
  frame_size_error: 'it sent a frame of a size that is not allowed',
  stream_closed: 'it sent a frame on a closed stream',
  protocol_error: 'it sent a frame that HTTP/2 does not allow there',
  /** A handler threw. */
  internal_error: 'a defect of this server',
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

/** Returns the error for a peer that requests too much from the server, or leaves too much unfinished. */
export function enhanceYourCalmError(reason: ViolationReason): ConnectionError {
  return new ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, reason);
}
