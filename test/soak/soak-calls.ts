/**
 * The calls of a soak and what is right to answer them. Some keys are always allowed, some always rejected, some have so
 * many calls that their limit is reached, and one is answered with a limit that says which version of the rules
 * decided.
 */
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';

import { type CallTemplate, callTemplate } from '../../bench/http2-frames.ts';
import {
  RateLimitResponse_Code as Code,
  RateLimitRequestSchema,
  type RateLimitResponse,
  RateLimitResponseSchema,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { shouldRateLimitPath } from '../../limiter/service/should-rate-limit.ts';

/** Of each counted key, so many calls are within the limit. */
const countedLimit = 50;
const versionBase = 1_000_000_000;

/** One question that is asked over and over. */
export interface SoakCall {
  template: CallTemplate;
  kind: 'free' | 'blocked' | 'counted' | 'versioned';
  allowed: number;
  refused: number;
  /** Without an answer: counted or not, nobody knows. */
  failed: number;
}

// A year, lest windows end within the run.
export function soakRules(version: number): string {
  return `domain: soak
descriptors:
  - key: free
    rate_limit: { unit: year, requests_per_unit: 4000000000 }
  - key: blocked
    rate_limit: { unit: year, requests_per_unit: 0 }
  - key: counted
    rate_limit: { unit: year, requests_per_unit: ${countedLimit} }
  - key: versioned
    rate_limit: { unit: year, requests_per_unit: ${versionBase + version} }
`;
}

export class SoakCalls {
  readonly #random: () => number;
  readonly #byKind: Record<SoakCall['kind'], SoakCall[]>;
  #writtenVersion = 0;
  #seenVersion = 0;
  /** Answers by rules that came during the run. */
  newRules = 0;
  /** Answers over the limit of a counted key. */
  reachedLimits = 0;

  constructor(random: () => number) {
    this.#random = random;
    const calls = (kind: SoakCall['kind'], count: number): SoakCall[] =>
      Array.from({ length: count }, (_, i) => soakCall(kind, String(i)));
    this.#byKind = {
      free: calls('free', 5_000),
      blocked: calls('blocked', 10),
      counted: calls('counted', 100),
      versioned: calls('versioned', 1),
    };
  }

  next(): SoakCall {
    const lot = this.#random();
    const kind = lot < 0.6 ? 'free' : lot < 0.7 ? 'blocked' : lot < 0.9 ? 'counted' : 'versioned';
    const calls = this.#byKind[kind];
    return calls[Math.floor(this.#random() * calls.length)] as SoakCall;
  }

  /** These rules lie ready to be loaded. */
  wrote(version: number): void {
    this.#writtenVersion = version;
  }

  /** The version that decided last, as far as was seen: what is asked from now on is decided by none before it. */
  get seenVersion(): number {
    return this.#seenVersion;
  }

  /** What is wrong with an answer to a call that was sent when `seenVersion` was as given; undefined when nothing is. */
  judge(call: SoakCall, message: Uint8Array, seenVersionBefore: number): string | undefined {
    const response = fromBinary(RateLimitResponseSchema, message);
    const isAllowed = response.overallCode === Code.OK;
    if (isAllowed) call.allowed += 1;
    else call.refused += 1;
    switch (call.kind) {
      case 'free':
        return isAllowed ? undefined : 'a key without a limit to speak of was refused';
      case 'blocked':
        return isAllowed ? 'a blocked key was allowed' : undefined;
      case 'counted':
        if (!isAllowed) this.reachedLimits += 1;
        return call.allowed > countedLimit ? `${call.allowed} were allowed of ${countedLimit}` : undefined;
      case 'versioned':
        return this.#judgeVersion(response, seenVersionBefore);
    }
  }

  #judgeVersion(response: RateLimitResponse, seenVersionBefore: number): string | undefined {
    const version = (response.statuses[0]?.currentLimit?.requestsPerUnit ?? 0) - versionBase;
    if (version > 0) this.newRules += 1;
    this.#seenVersion = Math.max(this.#seenVersion, version);
    return version < seenVersionBefore || version > this.#writtenVersion
      ? `decided by version ${version} of the rules after ${seenVersionBefore} had, with ${this.#writtenVersion} written`
      : undefined;
  }

  /** At the end: counted keys that were rejected too early. */
  lostAllowances(): string[] {
    return this.#byKind.counted
      .filter(({ allowed, refused, failed }) => refused > 0 && allowed + failed < countedLimit)
      .map(({ allowed, failed }) => `a key was refused after ${allowed} allowed and ${failed} failed calls`);
  }
}

function soakCall(key: SoakCall['kind'], value: string): SoakCall {
  const request = create(RateLimitRequestSchema, {
    domain: 'soak',
    descriptors: [{ entries: [{ key, value }] }],
  });
  const template = callTemplate(shouldRateLimitPath, toBinary(RateLimitRequestSchema, request));
  return { template, kind: key, allowed: 0, refused: 0, failed: 0 };
}
