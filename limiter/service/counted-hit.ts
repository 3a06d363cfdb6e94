import { Code, type Descriptor, type DescriptorStatus, type RateLimitRequest } from '../decide/messages.ts';
import type { LimitPlan, Plan } from '../decide/plan.ts';
import { isQuota } from '../decide/response.ts';
import type { Caller, CounterOp, HoldsBack } from '../stores/counter-store.ts';
import type { BoundedLocalCache } from '../stores/local-cache.ts';

/** The hits of one limit of a descriptor, on their way to the store and back. One object a limit. */
export interface CountedHit extends CounterOp {
  readonly plan: LimitPlan;
  /** Of a fixed window; of any other what to say where its store says nothing. */
  readonly secondsToReset: number;
  /** 0 where there is no window's end. Small numbers cost no allocation: infinity would. */
  readonly windowEndSeconds: number;
  /** The local cache knows the counter to be full, or an override blocks it. */
  readonly full: boolean;
  /** So of this counter or another one of its group: the store is not asked. */
  remembered: boolean;
  /** On the first of several limits of a rule: all of them. */
  group: readonly CountedHit[] | undefined;
  caller: Caller | undefined;
  lookOnly: boolean;
  holdsBack: HoldsBack;
}

/**
 * Stop-when-over: says of every hit what it does to the others, so that they are held back just when the request as a
 * whole would be refused by the totals before it (`overallCode`, whatever SHADOW_MODE makes of that). Where what the
 * local cache remembers refuses it, the others are only looked at. Hits are one a plan, the first of its group, undefined
 * where nothing is counted.
 */
export function planHoldingBack(
  plans: readonly Plan[],
  hits: readonly (CountedHit | undefined)[],
  quotaModeForAll: boolean,
): void {
  let isRefused = false;
  let quotaIsNeverOver = false;
  let quotasRemembered = 0;
  let quotasAsked = 0;
  for (let index = 0; index < plans.length; index++) {
    const hit = hits[index];
    const canRefuse = hit !== undefined && !hit.negative && !hit.plan.rule.shadowMode;
    if (isQuota(plans[index]!, quotaModeForAll)) {
      if (!canRefuse) quotaIsNeverOver = true;
      else if (hit.remembered) quotasRemembered++;
      else quotasAsked++;
      if (hit !== undefined) hit.holdsBack = 'together';
    } else if (canRefuse && hit.remembered) {
      isRefused = true;
    }
    if (hit !== undefined && !canRefuse) hit.holdsBack = 'never';
  }
  if (!quotaIsNeverOver && quotasRemembered > 0 && quotasAsked === 0) isRefused = true;
  for (const hit of hits) {
    if (hit === undefined) continue;
    if (quotaIsNeverOver && hit.holdsBack === 'together') hit.holdsBack = 'never';
    if (isRefused) hit.lookOnly = !hit.negative;
    if (hit.group === undefined) continue;
    for (const other of hit.group) {
      other.holdsBack = hit.holdsBack;
      other.lookOnly = hit.lookOnly;
    }
  }
}

/** Of a sliding window or a bucket what the store said: whole seconds, at least 1. */
export function secondsToReset({
  windowEndSeconds,
  secondsToReset: known,
  full,
  waitMicros,
}: CountedHit): number {
  return windowEndSeconds !== 0 || full ? known : Math.max(1, Math.ceil(waitMicros / 1_000_000));
}

/** Also when the request fails by another counter: what was given back, or may have been, is to be seen. */
export function forgetRefunded(ops: readonly CountedHit[], localCache: BoundedLocalCache): void {
  for (const op of ops) if (op.negative) localCache.forget(op.key);
}

/** Of a counter that the local cache knows to be full as much as fits in. */
export function usedOf({ full, plan, after, leased }: CountedHit): number {
  return full ? plan.capacity : after + leased;
}

/** `tells`: whether it says of which limit it is, and what is used. */
export function statusOfHit(
  hit: CountedHit,
  refused: boolean,
  limitRemaining: number,
  durationUntilResetSeconds: number,
  tells: boolean,
): DescriptorStatus {
  const code = refused ? Code.OVER_LIMIT : Code.OK;
  const { currentLimit, told } = hit.plan;
  if (!tells) return { code, currentLimit, limitRemaining, durationUntilResetSeconds };
  return { code, currentLimit, limitRemaining, durationUntilResetSeconds, told, used: usedOf(hit) };
}

/** Its own addend, 0 included, else the request's, which counts as at least 1. */
export function addendOf(descriptor: Descriptor, request: RateLimitRequest): number {
  return descriptor.hitsAddend ?? Math.max(1, request.hitsAddend);
}

/** The list with the element, made with the first: then it has no room to spare, which most requests do not need. */
export function added<Element>(list: Element[] | undefined, element: Element): Element[] {
  if (list === undefined) return [element];
  list.push(element);
  return list;
}
