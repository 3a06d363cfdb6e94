/** Bounds of what calls may occupy; none of them is fixed by gRPC. */
export interface GrpcLimits {
  /** Longest message of a request. */
  maxMessageBytes: number;
  /** What messages that are not complete yet may occupy beyond their first `freeBytes`, all together. */
  maxUnfinishedBytes: number;
  /** Likewise, those of one connection: no caller can keep the others from sending theirs. */
  maxUnfinishedBytesPerConnection: number;
  /** What one call's answers may occupy that its caller does not take. */
  maxQueuedBytes: number;
  /** From one look for expired calls to the next. */
  deadlineSweepMs: number;
}

const mebibyte = 1024 * 1024;

export const defaultGrpcLimits: GrpcLimits = {
  // As gRPC's other servers have it.
  maxMessageBytes: 4 * mebibyte,
  maxUnfinishedBytes: 64 * mebibyte,
  // An eighth: one message of the greatest length, and as much for others.
  maxUnfinishedBytesPerConnection: 8 * mebibyte,
  maxQueuedBytes: mebibyte,
  deadlineSweepMs: 20,
};
