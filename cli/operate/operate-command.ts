/** Shared parts of commands that query limiters: flags, arguments, and which limiters to query for counters. */
import { calendarText } from '../../rules/calendar.ts';
import type { Entry } from '../../rules/model.ts';
import { reportingClusterErrors } from '../shared/cluster.ts';
import { type Command, CommandError, commandOf, type ParsedFlags } from '../shared/flags.ts';
import { durationText } from '../shared/output.ts';
import { type CommandReport, printReports } from './command-report.ts';
import {
  type AnsweringLimiter,
  type FailedLimiter,
  LimitersClient as Found,
  type Json,
  type LimiterAnswer,
  type LimitersClient,
  type Question,
} from './limiters.ts';

/** Makes a command that reports what limiters answer. `look` gets the limiters before any of them is queried. */
export function limitersCommand(
  help: string,
  look: (flags: ParsedFlags, limiters: LimitersClient) => Promise<CommandReport>,
): Command {
  return commandOf(help, (flags) =>
    printReports(flags, () => withLimiters(flags, (limiters) => look(flags, limiters))),
  );
}

/** A hint for users who have no cluster. */
export const orLimiters = '; or name limiters by --limiter or WEIR_LIMITERS';

export function withLimiters<T>(
  flags: ParsedFlags,
  run: (limiters: LimitersClient) => Promise<T>,
): Promise<T> {
  return reportingClusterErrors(async () => {
    const limiters = await Found.of(flags);
    return run(limiters).finally(() => limiters.close());
  }, orLimiters);
}

/** Returns the domain or the key that a limiter thinks is misspelled; undefined if there is none or the limiter cannot say. */
export async function misspelled(
  limiters: LimitersClient,
  members: readonly AnsweringLimiter[],
  { domain, entries }: { domain: string; entries: readonly Entry[] },
): Promise<string | undefined> {
  const [member] = members;
  if (member === undefined) return undefined;
  const asked = entries.length === 0 ? [{ key: '*', value: '' }] : entries;
  const question: Question = { method: 'POST', path: '/v1/explain', body: { domain, entries: asked } };
  const answer = await limiters.ask(member.limiter, question);
  if (!answer.ok || (entries.length === 0 && answer.body.hasDomain)) return undefined;
  return answer.body.hint ?? undefined;
}

/** Formats entries for the repeated parameter `entry`. */
export function entryTexts(entries: readonly Entry[]): string[] {
  return entries.map(({ key, value }) => `${key}=${value}`);
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

/**
 * Groups limiters by the counters they hold. Limiters that share a store form one group, and any of them can answer for it. A limiter
 * that counts in memory forms its own group.
 */
export function counterHolders(members: readonly AnsweringLimiter[]): AnsweringLimiter[][] {
  const ofMemory = members.filter(({ state }) => state.store?.type === 'memory');
  const shared = members.filter((member) => !ofMemory.includes(member));
  return [...(shared.length > 0 ? [shared] : []), ...ofMemory.map((member) => [member])];
}

/** Returns the first answer of a group. Another limiter is queried only if no answer arrived. */
export async function askOne(
  limiters: LimitersClient,
  group: readonly AnsweringLimiter[],
  question: Question,
): Promise<{ member: AnsweringLimiter; answer: LimiterAnswer }> {
  for (const [index, member] of group.entries()) {
    const answer = await limiters.ask(member.limiter, question);
    if (answer.ok || answer.status !== 0 || index === group.length - 1) return { member, answer };
  }
  throw new CommandError('there is no limiter to ask');
}

interface Answers {
  answers: { member: AnsweringLimiter; body: Json }[];
  /** Limiters that rejected the question or did not answer. */
  failed: FailedLimiter[];
}

/** Queries one limiter of each group. Rejects if no group answers. */
export async function askHolders(
  limiters: LimitersClient,
  members: readonly AnsweringLimiter[],
  question: Question,
): Promise<Answers> {
  return answersOf(
    await Promise.all(counterHolders(members).map((group) => askOne(limiters, group, question))),
  );
}

/**
 * Queries every limiter. Rejects if none answers, because nothing is known then. `ifUnknown` is the problem of limiters that do not have
 * the path.
 */
export async function askEach(
  limiters: LimitersClient,
  members: readonly AnsweringLimiter[],
  question: Question,
  ifUnknown?: string,
): Promise<Answers> {
  const all = await limiters.askAll(members, question);
  return answersOf(
    all.map(({ member, answer }) => {
      const isUnknown = ifUnknown !== undefined && !answer.ok && answer.status === 404;
      return { member, answer: isUnknown ? { ...answer, problem: ifUnknown } : answer };
    }),
  );
}

function answersOf(all: readonly { member: AnsweringLimiter; answer: LimiterAnswer }[]): Answers {
  const failed = all.flatMap(({ member, answer }) =>
    answer.ok ? [] : [{ address: member.limiter.address, problem: answer.problem }],
  );
  const answers = all.flatMap(({ member, answer }) => (answer.ok ? [{ member, body: answer.body }] : []));
  if (answers.length === 0) throw new CommandError(`${failed[0]!.address}: ${failed[0]!.problem}`);
  return { answers, failed };
}
