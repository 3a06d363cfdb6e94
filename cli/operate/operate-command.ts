/** What the commands have in common that ask limiters: their flags, their arguments, and whom to ask for what they count. */
import { calendarText } from '../../rules/calendar.ts';
import type { Entry } from '../../rules/model.ts';
import { reportingClusterErrors } from '../shared/cluster.ts';
import { type Command, CommandError, commandOf, type FlagTypes, type ParsedFlags } from '../shared/flags.ts';
import { durationText } from '../shared/output.ts';
import {
  type Answer,
  Limiters as Found,
  type Json,
  type Limiters,
  limiterFlags,
  type Member,
  type Question,
  type Silent,
} from './limiters.ts';

/** A command that asks limiters. `run` gets them found, and not yet asked. */
export function limitersCommand(
  help: string,
  types: FlagTypes,
  run: (flags: ParsedFlags, limiters: Limiters) => Promise<number>,
): Command {
  return commandOf(help, { ...types, ...limiterFlags }, (flags) =>
    withLimiters(flags, (limiters) => run(flags, limiters)),
  );
}

/** Where there is no way to a cluster. */
export const orLimiters = '; or name limiters by --limiter or WEIR_LIMITERS';

export function withLimiters<T>(flags: ParsedFlags, run: (limiters: Limiters) => Promise<T>): Promise<T> {
  return reportingClusterErrors(async () => {
    const limiters = await Found.of(flags);
    return run(limiters).finally(() => limiters.close());
  }, orLimiters);
}

/** What a limiter takes for misspelled: the domain, or a key among the entries, if any. Undefined: nothing, or it does not say. */
export async function misspelled(
  limiters: Limiters,
  members: readonly Member[],
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

/** As the parameter `entry`, which is repeated, has them. */
export function entryTexts(entries: readonly Entry[]): string[] {
  return entries.map(({ key, value }) => `${key}=${value}`);
}

/** The window of a counter or a refusal: `5m`, `month@Europe/Zurich@15`. */
export function windowOf({ seconds, calendar }: Json): string {
  return calendar === undefined ? durationText(seconds ?? 0) : calendarText(calendar);
}

/** For people: what is held as a hash, or shared by many values, shows itself as such. */
export function entriesText(entries: Json): string {
  const words = (entries ?? []).map(({ key, value, valueHash, valueBegins, pattern }: Json) => {
    if (typeof value === 'string') return `${key}=${value}`;
    if (typeof pattern === 'string') return `${key}=${pattern} (shared)`;
    return `${key}=${valueBegins ?? ''}...(sha256 ${String(valueHash ?? '').slice(0, 8)})`;
  });
  return words.join(', ');
}

/**
 * Whom to ask of what is counted: of those that share a store one, in whose place another may answer; of those that count in
 * memory each.
 */
export function counterHolders(members: readonly Member[]): Member[][] {
  const ofMemory = members.filter(({ state }) => state.store?.type === 'memory');
  const shared = members.filter((member) => !ofMemory.includes(member));
  return [...(shared.length > 0 ? [shared] : []), ...ofMemory.map((member) => [member])];
}

/** The first answer of a group; another is asked only where nothing came back. */
export async function askOne(
  limiters: Limiters,
  group: readonly Member[],
  question: Question,
): Promise<{ member: Member; answer: Answer }> {
  for (const [index, member] of group.entries()) {
    const answer = await limiters.ask(member.limiter, question);
    if (answer.ok || answer.status !== 0 || index === group.length - 1) return { member, answer };
  }
  throw new CommandError('there is no limiter to ask');
}

/** A question to each of the holders; those that refuse, or are silent, are among the silent. Rejects where all are. */
export async function askHolders(
  limiters: Limiters,
  members: readonly Member[],
  question: Question,
): Promise<{ answers: { member: Member; body: Json }[]; failed: Silent[] }> {
  const all = await Promise.all(counterHolders(members).map((group) => askOne(limiters, group, question)));
  const { answers, failed } = separated(all);
  if (answers.length === 0) throw new CommandError(`${failed[0]!.address}: ${failed[0]!.problem}`);
  return { answers, failed };
}

/** The answers, and the limiters that rejected the question or were silent. */
export function separated(all: readonly { member: Member; answer: Answer }[]): {
  answers: { member: Member; body: Json }[];
  failed: Silent[];
} {
  const failed = all.flatMap(({ member, answer }) =>
    answer.ok ? [] : [{ address: member.limiter.address, problem: answer.problem }],
  );
  const answers = all.flatMap(({ member, answer }) => (answer.ok ? [{ member, body: answer.body }] : []));
  return { answers, failed };
}
