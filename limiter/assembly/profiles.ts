/** PROFILES_FILE: the endpoints for proxies other than Envoy in each serving thread, and the file that configures them. */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { problemsText, watchFiles } from '../../process/files/watched-files.ts';
import { errorText } from '../../process/log/error-text.ts';
import { LogThrottle } from '../../process/log/log-throttle.ts';
import { type Profile, readProfilesFile } from '../../rules/proxy/read-profiles.ts';
import { ForwardAuth, type ForwardAuthOptions } from '../http/forward-auth.ts';
import * as lines from '../log/lines.ts';
import type { ThreadCommand } from '../operate/thread-commands.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import { createForwardAuthStats, registerProfilesFile } from '../stats/registry/forward-auth-stats.ts';
import type { LimiterContext } from './context.ts';

interface OpenedForwardAuth {
  answer: ForwardAuth['answer'];
  use(profiles: readonly Profile[] | undefined): Promise<void>;
}

export function openForwardAuth(
  { clock, registry, log }: LimiterContext,
  asked: Pick<ForwardAuthOptions, 'decide' | 'excess'>,
): OpenedForwardAuth {
  const stats = createForwardAuthStats(registry);
  const missing = new LogThrottle<Omit<Parameters<typeof lines.headerMissing>[1], 'times'>>(
    clock,
    (one, times) => lines.headerMissing(log, { ...one, times }),
  );
  const unknown = new LogThrottle<Omit<Parameters<typeof lines.profileUnknown>[1], 'times'>>(
    clock,
    (one, times) => lines.profileUnknown(log, { ...one, times }),
  );
  const undecided = new LogThrottle<Omit<Parameters<typeof lines.forwardedUndecided>[1], 'times'>>(
    clock,
    (one, times) => lines.forwardedUndecided(log, { ...one, times }),
  );
  const forwardAuth = new ForwardAuth({
    ...asked,
    onAnswer: stats.answered,
    onMissingHeader: (one) => {
      stats.missing(one.header);
      missing.note(one, `${one.profile} ${one.header}`);
    },
    onUnknown: (one) => unknown.note(one),
    onUndecided: (one) => undecided.note(one, one.profile),
  });
  return {
    answer: (call, asker) => forwardAuth.answer(call, asker),
    use: async (profiles) => {
      // This loads the library of regular expressions, which most limiters never need.
      const { descriptorMaker } = await import('../../rules/proxy/make-descriptors.ts');
      forwardAuth.use(profiles?.map((profile) => ({ profile, make: descriptorMaker(profile) })));
    },
  };
}

export interface FollowedProfiles {
  /** Resolves when the first profiles are in force, or if there is no usable file. */
  start(): Promise<void>;
  close(): void;
}

/** Chosen: a change is in force after this time, or twice that if a write may not be complete. */
const lookMs = 1_000;

/** Reads the file once it exists, and again whenever it changes. An unusable file is reported, and the last good one stays in force. */
export function followProfiles(
  { settings, registry, log, timers }: LimiterContext,
  operate: (order: ThreadCommand) => Promise<unknown>,
): FollowedProfiles {
  const path = profilesPath(settings);
  const name = settings.profilesFile === '' ? path : `PROFILES_FILE: ${path}`;
  let inForce: number | undefined;
  let wasLastRejected = false;
  /** The reason why the file could not be used at the last attempt, and the last problem that was reported. */
  let doubted: string | undefined;
  let reported: string | undefined;
  let close = (): void => {};
  let isClosed = false;
  const stats = registerProfilesFile(registry, {
    profiles: () => inForce ?? 0,
    wasLastRejected: () => wasLastRejected,
  });
  const use = async (profiles: readonly Profile[]): Promise<void> => {
    await operate({ order: 'use-profiles', profiles });
    inForce = profiles.length;
    stats.loaded();
    lines.profilesLoaded(log, { path, profiles: profiles.length }, wasLastRejected);
    wasLastRejected = false;
  };
  const refuse = async (reason: string): Promise<void> => {
    wasLastRejected = true;
    stats.refused();
    lines.profilesRejected(log, reason);
    if (inForce === undefined) await operate({ order: 'use-profiles', profiles: undefined });
  };
  /** Returns whether the file is followed from now on. */
  const isFollowed = async (): Promise<boolean> => {
    if (settings.profilesFile === '' && !existsSync(path)) return false;
    const watch = await watchFiles({
      paths: [path],
      names: [name],
      read: ([text = '']) => {
        const file = readProfilesFile(text);
        if (file.problems === undefined) return file.profiles;
        throw new Error(problemsText(name, file.problems));
      },
      timers,
      intervalMs: lookMs,
      changed: (profiles) => void use(profiles),
      refused: (reason) => void refuse(reason),
    });
    close = watch.close;
    if (isClosed) close();
    await use(watch.first);
    return true;
  };
  /** `isSure`: whether the file is certainly complete. */
  const tryToFollow = async (isSure: boolean): Promise<boolean> => {
    try {
      if (await isFollowed()) return true;
      doubted = undefined;
    } catch (error) {
      const reason = errorText(error);
      // A problem is reported once as long as it does not change.
      if ((isSure || reason === doubted) && reason !== reported) {
        reported = reason;
        await refuse(reason);
      }
      doubted = reason;
    }
    return false;
  };
  return {
    start: async () => {
      if (isClosed || (await tryToFollow(true))) return;
      let isLooking = false;
      const look = async (): Promise<void> => {
        if (isLooking) return;
        isLooking = true;
        if (await tryToFollow(false)) endLooking();
        isLooking = false;
      };
      const endLooking = timers.every(lookMs, () => void look());
      if (isClosed) endLooking();
      else close = endLooking;
    },
    close: () => {
      isClosed = true;
      close();
    },
  };
}

/** The file must not be among the rules, where it would be read as a rule file. */
function profilesPath({ profilesFile, runtimeRoot, runtimeSubdirectory }: LimiterSettings): string {
  return profilesFile === ''
    ? join(resolve(runtimeRoot), runtimeSubdirectory, 'profiles.yaml')
    : profilesFile;
}
