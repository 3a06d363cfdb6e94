/** Bounds of what calls may occupy; none of them is fixed by gRPC. */
export interface GrpcLimits {
  /** Longest message of a request. */
  maxMessageBytes: number;
  /** What one call's answers may occupy that its caller does not take. */
  maxQueuedBytes: number;
  /** From one look for expired calls to the next. */
  deadlineSweepMs: number;
}

const mebibyte = 1024 * 1024;

export const defaultGrpcLimits: GrpcLimits = {
  // As gRPC's other servers have it.
  maxMessageBytes: 4 * mebibyte,
  maxQueuedBytes: mebibyte,
  deadlineSweepMs: 20,
};
