/** The profiles of proxies other than Envoy in each serving thread, and the file that configures them. */
import { join, resolve } from 'node:path';
import { followFiles, problemsText } from '../../process/files/watched-files.ts';
import { throttledLine } from '../../process/log/log-throttle.ts';
import { type Profile, readProfilesFile } from '../../rules/proxy/read-profiles.ts';
import type { MainContext, MainPart, ThreadContext, ThreadPart } from '../capabilities/parts.ts';
import { ForwardAuth, forwardAuthRoute } from './forward-auth.ts';
import { lines } from './lines.ts';
import { type ForwardAuthSettings, rows } from './settings.ts';
import { createForwardAuthStats, registerProfilesFile } from './stats.ts';

/** Messages to each serving thread. */
interface ForwardAuthMessages {
  /** Answers other proxies according to these profiles from now on; undefined: there is a file that cannot be used. */
  use(profiles: readonly Profile[] | undefined): Promise<void>;
}

export function thread(context: ThreadContext<ForwardAuthSettings>): ThreadPart {
  const stats = createForwardAuthStats(context.registry);
  const missing = throttledLine(context, lines.headerMissing);
  const unknown = throttledLine(context, lines.profileUnknown);
  const undecided = throttledLine(context, lines.forwardedUndecided);
  let forwardAuth: ForwardAuth | undefined;
  const messages: ForwardAuthMessages = {
    use: async (profiles) => {
      // This loads the library of regular expressions, which most limiters never need.
      const { descriptorMaker } = await import('../../rules/proxy/make-descriptors.ts');
      forwardAuth?.use(profiles?.map((profile) => ({ profile, make: descriptorMaker(profile) })));
    },
  };
  return {
    messages,
    http: ({ decide, excess }) => {
      forwardAuth = new ForwardAuth({
        decide,
        excess,
        onAnswer: stats.answered,
        onMissingHeader: (one) => {
          stats.missing(one.header);
          missing(one, `${one.profile} ${one.header}`);
        },
        onUnknown: unknown,
        onUndecided: (one) => undecided(one, one.profile),
      });
      return new Map([[forwardAuthRoute, forwardAuth]]);
    },
  };
}

/** Chosen: a change is in force after this time, or twice that if a write may not be complete. */
const lookMs = 1_000;

/** Reads the file once it exists, and again whenever it changes. An unusable file is reported, and the last good one stays in force. */
export function main(context: MainContext<ForwardAuthSettings>): MainPart {
  const { settings, registry, log, timers } = context;
  const threads = context.threads.of<ForwardAuthMessages>();
  const path = profilesPath(settings);
  const name = settings.profilesFile === '' ? path : `${rows.profilesFile.name}: ${path}`;
  let inForce: number | undefined;
  let wasLastRejected = false;
  const stats = registerProfilesFile(registry, {
    profiles: () => inForce ?? 0,
    wasLastRejected: () => wasLastRejected,
  });
  return followFiles({
    paths: [path],
    names: [name],
    read: ([text = '']) => {
      const file = readProfilesFile(text);
      if (file.problems === undefined) return file.profiles;
      throw new Error(problemsText(name, file.problems));
    },
    mayBeMissing: settings.profilesFile === '',
    timers,
    intervalMs: lookMs,
    changed: async (profiles) => {
      await threads.publish('use', profiles);
      inForce = profiles.length;
      stats.loaded();
      lines.profilesLoaded(log, { path, profiles: profiles.length }, wasLastRejected);
      wasLastRejected = false;
    },
    rejected: async (reason) => {
      wasLastRejected = true;
      stats.rejected();
      lines.profilesRejected(log, { reason });
      if (inForce === undefined) await threads.publish('use', undefined);
    },
  });
}

/** The file must not be among the rules, where it would be read as a rule file. */
function profilesPath({ profilesFile, runtimeRoot, runtimeSubdirectory }: ForwardAuthSettings): string {
  return profilesFile === ''
    ? join(resolve(runtimeRoot), runtimeSubdirectory, 'profiles.yaml')
    : profilesFile;
}
