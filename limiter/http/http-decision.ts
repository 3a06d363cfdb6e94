/** A decision that was asked for over HTTP, by /v1/check or for another proxy, with all that an answer can tell of it. */
import type { IncomingMessage } from 'node:http';
import type { AdmittedCaller, GrpcStatus } from '../../process/grpc/handlers.ts';

export interface HttpQuestion {
  domain: string;
  /** Each a list of entries, in their order. */
  descriptors: { key: string; value: string }[][];
  /** Of the whole request. */
  hits: number;
}

/** What became of one descriptor. */
export interface DescriptorAnswer {
  code: 'OK' | 'OVER_LIMIT';
  /** The rule's path as elsewhere in /v1, and its limit; undefined where no rule matches. */
  rule: string | undefined;
  limit: { requestsPerUnit: number; unit: string; name: string } | undefined;
  used: number | undefined;
  left: number | undefined;
  /** Until the window ends, or a token is there again, in seconds. */
  resetSeconds: number | undefined;
}

export interface HttpDecision {
  code: 'OK' | 'OVER_LIMIT';
  descriptors: DescriptorAnswer[];
  /** The limit headers of the tightest, whatever the settings for RLS answers; on a refusal Retry-After as well. */
  headers: [name: string, value: string][];
}

/** Asks as the service does for any other caller: counts, statistics, the memory of refusals. */
export type DecideForHttp = (
  question: HttpQuestion,
  request: IncomingMessage,
  caller: AdmittedCaller | undefined,
) => Promise<HttpDecision | { failure: GrpcStatus }>;
