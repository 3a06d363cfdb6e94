/** The answer OVER_LIMIT for requests that exceed no limit, but a bound or the rate of their caller. */
import { retryAfterSeconds } from '../../process/grpc/handlers.ts';
import type { DescriptorStatus, RateLimitResponse } from '../decide/decided.ts';
import { Code, type Header, HeaderForm } from '../decide/messages.ts';

export interface ShadowOptions {
  /** SHADOW_MODE: the answer is OK instead. */
  readonly shadowMode: boolean;
  /** SHADOW_MODE turned OVER_LIMIT into OK. */
  onGlobalShadow(): void;
}

export interface OverWithoutLimit extends RateLimitResponse {
  readonly overallCode: typeof Code.OK | typeof Code.OVER_LIMIT;
}

const overStatus: DescriptorStatus = Object.freeze({
  code: Code.OVER_LIMIT,
  currentLimit: undefined,
  limitRemaining: 0,
  durationUntilResetSeconds: undefined,
});
const retryAfter: readonly Header[] = [new HeaderForm('Retry-After', '').header(Number(retryAfterSeconds))];

/** Called once for each request. `descriptors`: the number of known descriptors. Each gets a status. */
export function overWithoutLimit(
  { shadowMode, onGlobalShadow }: ShadowOptions,
  descriptors: number,
): OverWithoutLimit {
  if (shadowMode) onGlobalShadow();
  return {
    overallCode: shadowMode ? Code.OK : Code.OVER_LIMIT,
    statuses: new Array<DescriptorStatus>(descriptors).fill(overStatus),
    responseHeadersToAdd: shadowMode ? [] : [...retryAfter],
    requestHeadersToAdd: [],
    dynamicMetadata: undefined,
  };
}
