/** Log lines about profiles, and about requests of proxies. */
import type { Logger } from '../../process/log/logger.ts';

/** After a file that could not be used this is a warning, because it ends the problem. */
export function profilesLoaded(
  log: Logger,
  file: { path: string; profiles: number },
  wasLastRejected: boolean,
): void {
  log[wasLastRejected ? 'warn' : 'info']('Profiles are in force', file);
}

/** `reason` lists every mistake with its place. */
export function profilesRejected(log: Logger, reason: string): void {
  log.error('The profiles file cannot be used: the last valid one stays in force, if there was one', {
    reason,
  });
}

/** Logged at most once a minute for each profile and header. Limits on descriptors made from the header do not apply. */
export function headerMissing(
  log: Logger,
  missingHeader: { profile: string; header: string; peer: string; times: number },
): void {
  log.warn('A proxy does not send a header that its profile requires', missingHeader);
}

/** Logged at most once a minute. Most proxies let such requests pass. */
export function profileUnknown(log: Logger, unknown: { peer: string; reason: string; times: number }): void {
  log.warn(
    'A proxy uses a profile that it may not use or that does not exist: its requests are not limited',
    unknown,
  );
}

/** Logged at most once a minute for each profile: the store failed, or the domain has no rules. `answer` is the value of onError. */
export function forwardedUndecided(
  log: Logger,
  undecided: { profile: string; answer: 'allow' | 'deny'; reason: string; times: number },
): void {
  log.warn('Cannot decide a request of a proxy: onError of the profile decides', undecided);
}
