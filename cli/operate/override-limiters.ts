/** Overrides of limiters, through their API, and the form in which the objects of a cluster answer, too. */
import type { Entry } from '../../rules/model.ts';
import type { ParsedFlags } from '../shared/flags.ts';
import { programName } from '../shared/io.ts';
import { entryTexts } from '../shared/request.ts';
import { type FailedLimiter, type Json, limiterWords, type MemberAnswer } from './limiters.ts';
import { withLivingLimiters } from './operate-command.ts';

/** An override by its id, or by its domain and entries. */
export type OverrideSelector = { id: string } | { domain: string; entries: readonly Entry[] };

export interface OverrideOutcome {
  /** Overrides in the form of `/v1/overrides`, each with the names of the `limiters` that reported it. */
  overrides: Json[];
  silent: FailedLimiter[];
  /** Notes for people. */
  notes: string[];
  /** False if an override was created but has no effect. */
  isDone: boolean;
}

/** A place for overrides. Each method rejects with an error that says why the place could not be reached. */
export interface OverrideTarget {
  /** Creates an override or grant from the fields of `/v1/overrides`. */
  put(wanted: Json): Promise<OverrideOutcome>;
  /** Lists the overrides of a domain, or all of them. */
  list(domain: string | undefined): Promise<OverrideOutcome>;
  remove(which: OverrideSelector): Promise<OverrideOutcome>;
  /** Returns the document that `put` would send. */
  draft(wanted: Json): Promise<Json>;
}

/** Returns the target for overrides of limiters. */
export function limitersTarget(flags: ParsedFlags): OverrideTarget {
  const path = '/v1/overrides';
  return {
    put: (wanted) =>
      withLivingLimiters(flags, async (limiters) => {
        const method = wanted.grant === undefined ? 'PUT' : 'POST';
        const answers = await limiters.holders({ method, path, body: wanted });
        const overrides = joined(answers, (made) => [made]);
        const isDomainUnknown = overrides.some(({ message }) => unknownDomain.test(message));
        const hint = isDomainUnknown ? await limiters.misspelled(wanted.domain, wanted.match) : undefined;
        const isDone = overrides.every(({ state }) => state !== 'NoRule');
        return { overrides, silent: limiters.silent, notes: remarksOn(overrides, flags, hint), isDone };
      }),
    list: (domain) =>
      withLivingLimiters(flags, async (limiters) => {
        const answers = await limiters.each({ path, query: { domain } });
        const notes = new Set<string>(answers.flatMap(({ body }) => body.notes ?? []));
        const overrides = joined(answers, (body) => body.overrides);
        return { overrides, silent: limiters.silent, notes: [...notes], isDone: true };
      }),
    remove: (which) =>
      withLivingLimiters(flags, async (limiters) => {
        const query = 'id' in which ? which : { domain: which.domain, entry: entryTexts(which.entries) };
        const answers = await limiters.holders({ method: 'DELETE', path, query });
        const overrides = joined(answers, ({ removed }) => removed);
        return { overrides, silent: limiters.silent, notes: [], isDone: true };
      }),
    draft: (wanted) => Promise.resolve(wanted),
  };
}

/** Joins answers. An override that several limiters report with the same state is listed once. */
function joined(answers: readonly MemberAnswer[], overridesOf: (body: Json) => Json[]): Json[] {
  const overrides = new Map<string, Json>();
  for (const { member, body } of answers) {
    for (const one of overridesOf(body)) {
      const key = `${one.source} ${one.id} ${one.state}`;
      const known = overrides.get(key) ?? { ...one, limiters: [] };
      known.limiters.push(member.name);
      overrides.set(key, known);
    }
  }
  return [...overrides.values()];
}

/** The error for an unknown domain. It names no other domain. */
const unknownDomain = /no rules have the domain ".*"$/;

/** Replaces the field names of the API in a limiter's message with flags. */
export function withFlagNames(message: string): string {
  return message
    .replace('requestsPerUnit needs a unit', '--limit needs --unit')
    .replace('choose one with limit', 'choose one with --limit-name')
    .replace(/the rule has no limit (".*?"), but/, 'the rule has no limit $1 (--limit-name), but');
}

/** Returns notes about overrides that were created. `hint`: a key or domain that may be misspelled. */
function remarksOn(overrides: readonly Json[], flags: ParsedFlags, hint?: string): string[] {
  const remarks = overrides.flatMap(({ limiters, state, message }) => {
    if (!message || (state !== 'NoRule' && state !== 'InForce')) return [];
    const how = state === 'NoRule' ? 'is set and changes nothing' : 'note';
    const words = withFlagNames(message).replace(unknownDomain, (found) => hint ?? found);
    return limiters.map((limiter: string) => `${limiter}: ${how}: ${words}`);
  });
  const idle = overrides.filter(({ state }) => state === 'NoRule');
  return idle.length === 0 ? remarks : [...remarks, `remove it with: ${removal(idle, flags)}`];
}

/** Returns the command that removes an override. Limiters that count in memory have one each, with its own id. */
function removal([{ id, domain, match }, ...others]: readonly Json[], flags: ParsedFlags): string {
  if (others.length === 0) return removalOf(id, limiterWords(flags));
  return removalOf(domain, [...entryTexts(match), ...limiterWords(flags)]);
}

/** Returns the command that removes what these words name. */
export function removalOf(first: string, others: readonly string[]): string {
  return [`${programName()} override rm`, ...[first, ...others].map(shellWord)].join(' ');
}

function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
