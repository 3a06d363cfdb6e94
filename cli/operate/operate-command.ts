/** Shared parts of commands that query limiters. */

import { calendarText } from '../../rules/calendar.ts';
import { type Cluster, withCluster } from '../shared/cluster.ts';
import type { Command, ParsedFlags } from '../shared/flags.ts';
import { type CommandReport, reportCommand } from '../shared/report.ts';
import { durationText } from '../shared/text.ts';
import {
  askingOf,
  type FoundLimiters,
  type Json,
  LimitersClient,
  limitersAt,
  namedLimiters,
} from './limiters.ts';
import { podsOf } from './pods.ts';

/** What limiters answered. `isDone`: whether the command did what it should; limiters that did not answer count, too. */
interface LimitersFindings extends Omit<CommandReport, 'status'> {
  isDone?: boolean;
}

/** Makes a command that reports what limiters answer. `read` checks the arguments before any limiter is searched. */
export function limitersCommand(
  help: string,
  read: (flags: ParsedFlags) => (limiters: FoundLimiters) => Promise<LimitersFindings>,
): Command {
  return reportCommand(help, (flags) => {
    const look = read(flags);
    return withLivingLimiters(flags, async (limiters) => {
      const { isDone = true, value, text } = await look(limiters);
      const { silent } = limiters;
      return { status: isDone && silent.length === 0 ? 0 : 1, value: { ...value, silent }, text };
    });
  });
}

/** A hint for users who have no cluster. */
export const orLimiters = '; or name limiters by --limiter or WEIR_LIMITERS';

/** Runs with the limiters that flags or variables name, or that are found in a cluster. Rejects if there is none. */
export async function withLimiters<T>(
  flags: ParsedFlags,
  run: (limiters: LimitersClient) => Promise<T>,
): Promise<T> {
  const asking = askingOf(flags);
  const names = namedLimiters(flags);
  if (names !== undefined) return run(new LimitersClient(await limitersAt(names, asking.timeoutMs), asking));
  const inCluster = async (cluster: Cluster): Promise<T> =>
    run(new LimitersClient(await podsOf(cluster, flags), asking));
  return withCluster(flags, inCluster, orLimiters);
}

/** Like `withLimiters`, with those that answer. Standard error names the others. Rejects if none answers. */
export function withLivingLimiters<T>(
  flags: ParsedFlags,
  run: (limiters: FoundLimiters) => Promise<T>,
): Promise<T> {
  return withLimiters(flags, async (limiters) => {
    const found = await limiters.found();
    found.rejectIfNone();
    return run(found);
  });
}

/** Formats the window of a counter or a rejection: `5m`, `month@Europe/Zurich@15`. */
export function windowOf({ seconds, calendar }: Json): string {
  return calendar === undefined ? durationText(seconds ?? 0) : calendarText(calendar);
}

/** Formats entries for people. Hashed and shared values are marked. */
export function entriesText(entries: Json): string {
  const words = (entries ?? []).map(({ key, value, valueHash, valueBegins, pattern }: Json) => {
    if (typeof value === 'string') return `${key}=${value}`;
    if (typeof pattern === 'string') return `${key}=${pattern} (shared)`;
    return `${key}=${valueBegins ?? ''}...(sha256 ${String(valueHash ?? '').slice(0, 8)})`;
  });
  return words.join(', ');
}
