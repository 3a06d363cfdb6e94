/** Constants of RFC 9113: frame types, flags, settings, sizes. */

/** RFC 9113, section 6; PRIORITY_UPDATE is from RFC 9218, section 7.1. */
export const FrameType = {
  DATA: 0x0,
  HEADERS: 0x1,
  PRIORITY: 0x2,
  RST_STREAM: 0x3,
  SETTINGS: 0x4,
  PUSH_PROMISE: 0x5,
  PING: 0x6,
  GOAWAY: 0x7,
  WINDOW_UPDATE: 0x8,
  CONTINUATION: 0x9,
  PRIORITY_UPDATE: 0x10,
} as const;

export const Flag = {
  END_STREAM: 0x1,
  ACK: 0x1,
  END_HEADERS: 0x4,
  PADDED: 0x8,
  PRIORITY: 0x20,
} as const;

/** RFC 9113, section 6.5.2. */
export const Setting = {
  HEADER_TABLE_SIZE: 0x1,
  ENABLE_PUSH: 0x2,
  MAX_CONCURRENT_STREAMS: 0x3,
  INITIAL_WINDOW_SIZE: 0x4,
  MAX_FRAME_SIZE: 0x5,
  MAX_HEADER_LIST_SIZE: 0x6,
} as const;

/** The first bytes of a client. RFC 9113, section 3.4. */
export const clientPreface: Buffer = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');

export const frameHeaderBytes = 9;

/** The largest payload until SETTINGS_MAX_FRAME_SIZE changes it; the server never announces another size. */
export const initialMaxFrameBytes = 16_384;
export const largestMaxFrameBytes = 16_777_215;

/** The window of every stream and of the connection before SETTINGS and WINDOW_UPDATE. RFC 9113, section 6.9.2. */
export const initialWindowBytes = 65_535;

/** Largest window, stream identifier and increment: 31 bits. RFC 9113, section 6.9.1. */
export const largest31 = 0x7fff_ffff;

/** The size of the dynamic table, which the server does not change. RFC 9113, section 6.5.2. */
export const initialHeaderTableBytes = 4096;

/** Error codes for the end of a stream or a connection. RFC 9113, section 7. */
export const ErrorCode = {
  NO_ERROR: 0x0,
  PROTOCOL_ERROR: 0x1,
  INTERNAL_ERROR: 0x2,
  FLOW_CONTROL_ERROR: 0x3,
  SETTINGS_TIMEOUT: 0x4,
  STREAM_CLOSED: 0x5,
  FRAME_SIZE_ERROR: 0x6,
  REFUSED_STREAM: 0x7,
  CANCEL: 0x8,
  COMPRESSION_ERROR: 0x9,
  CONNECT_ERROR: 0xa,
  ENHANCE_YOUR_CALM: 0xb,
  INADEQUATE_SECURITY: 0xc,
  HTTP_1_1_REQUIRED: 0xd,
} as const;
export type ErrorCode = (typeof ErrorCode)[keyof typeof ErrorCode];
