/** Log lines about profiles, and about requests of proxies. */
import { error, warn } from '../../process/log/log-line.ts';
import type { Logger } from '../../process/log/logger.ts';

export const lines = {
  /** After a file that could not be used this is a warning, because it ends the problem. */
  profilesLoaded: (log: Logger, file: { path: string; profiles: number }, wasLastRejected: boolean): void =>
    log[wasLastRejected ? 'warn' : 'info']('Profiles are in force', file),
  /** `reason` lists every mistake with its place. */
  profilesRejected: error<{ reason: string }>(
    'The profiles file cannot be used: the last valid one stays in force, if there was one',
  ),
  /** Logged at most once a minute for each profile and header. Limits on descriptors made from the header do not apply. */
  headerMissing: warn<{ profile: string; header: string; peer: string; times: number }>(
    'A proxy does not send a header that its profile requires',
  ),
  /** Logged at most once a minute. Most proxies let such requests pass. */
  profileUnknown: warn<{ peer: string; reason: string; times: number }>(
    'A proxy uses a profile that it may not use or that does not exist: its requests are not limited',
  ),
  /** Logged at most once a minute for each profile: the store failed, or the domain has no rules. `answer` is the value of onError. */
  forwardedUndecided: warn<{ profile: string; answer: 'allow' | 'deny'; reason: string; times: number }>(
    'Cannot decide a request of a proxy: onError of the profile decides',
  ),
};
