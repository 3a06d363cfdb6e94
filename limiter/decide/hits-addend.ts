import type { Descriptor, RateLimitRequest } from './messages.ts';
import { ServiceError } from './service-error.ts';

/** How many hits a descriptor counts: its own addend, 0 included, else the request's, which counts as at least 1. */
export function hitsOf(request: RateLimitRequest, descriptor: Descriptor): number {
  return descriptor.hitsAddend ?? Math.max(1, request.hitsAddend);
}

/** Throws a `ServiceError` for an addend that no store can add. */
export function checkHitsAddends(descriptors: readonly Descriptor[]): void {
  for (let index = 0; index < descriptors.length; index++) {
    if (descriptors[index]!.hitsAddend === Number.POSITIVE_INFINITY) {
      throw new ServiceError(`hits_addend of descriptor ${index} must be at most 9223372036854775807`);
    }
  }
}
