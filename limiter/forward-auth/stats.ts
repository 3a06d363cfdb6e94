/** Statistics of `/v1/forward-auth`, and of the file with its profiles. */
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';

/**
 * `undescribed`: allowed because the request gave no descriptor; `failed_allowed` and `failed_denied`: decided by the profile's
 * `onError`; `too_large`: beyond a bound of requests; `unknown_profile`: there is no profile of that name.
 */
export const forwardAnswers = [
  'allowed',
  'refused',
  'undescribed',
  'failed_allowed',
  'failed_denied',
  'too_large',
  'unknown_profile',
] as const;
export type ForwardAnswer = (typeof forwardAnswers)[number];

export function createForwardAuthStats(registry: StatsRegistry) {
  return {
    answered: registry.countingBy('ratelimit.forward_auth.requests', 'answer', forwardAnswers),
    missing: (header: string) =>
      registry.add(registry.counter('ratelimit.forward_auth.headers_missing', [['header', header]]), 1),
  };
}

/** Registers the statistics of the main thread. */
export function registerProfilesFile(
  registry: StatsRegistry,
  file: { profiles(): number; wasLastRejected(): boolean },
) {
  registry.gauge('ratelimit.profiles.entries', () => file.profiles());
  registry.gauge('ratelimit.profiles.load_failed', () => (file.wasLastRejected() ? 1 : 0));
  return {
    loaded: registry.counting('ratelimit.profiles.load_success'),
    rejected: registry.counting('ratelimit.profiles.load_error'),
  };
}
