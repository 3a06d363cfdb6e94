/** Where overrides are: with limiters, by their API, or in a cluster, as objects. Both answer in one shape. */
import type { Entry } from '../../rules/model.ts';
import type { ParsedFlags } from '../shared/flags.ts';
import { type Json, limiterWords, type Member, reportSilent, type Silent } from './limiters.ts';
import { askHolders, entryTexts, misspelled, separated, withLimiters } from './operate-command.ts';

/** An override by its id, or what was set for these entries. */
export type WhichOverride = { id: string } | { domain: string; entries: readonly Entry[] };

export interface OverrideOutcome {
  /** In the form of `/v1/overrides`, each with the names of the `limiters` that reported it. */
  overrides: Json[];
  silent: Silent[];
  /** What else there is to say of it, for people. */
  notes: string[];
  /** False: something was made, and does not do what it is for. */
  isDone: boolean;
}

/** Everything rejects with an error that says why it could not be asked. */
export interface OverrideTarget {
  /** Makes an override, or a grant, of the fields of `/v1/overrides`. */
  put(wanted: Json): Promise<OverrideOutcome>;
  /** Of the domain, or of all. */
  list(domain: string | undefined): Promise<OverrideOutcome>;
  remove(which: WhichOverride): Promise<OverrideOutcome>;
  /** The document that `put` would send. */
  draft(wanted: Json): Promise<Json>;
}

/** The overrides of limiters. */
export function limitersTarget(flags: ParsedFlags): OverrideTarget {
  /** Asks one of those that share a store, or all; `overridesOf` finds them in an answer. */
  const change = (
    question: Parameters<typeof askHolders>[2],
    overridesOf: (body: Json) => Json[],
  ): Promise<OverrideOutcome> =>
    withLimiters(flags, async (limiters) => {
      const { members, silent } = await limiters.living();
      const { answers, failed } = await askHolders(limiters, members, question);
      const reported = answers.map(({ member, body }) => ({ member, overrides: overridesOf(body) }));
      return outcomeOf(reported, [...silent, ...failed], failed);
    });
  const path = '/v1/overrides';
  return {
    put: async (wanted) => {
      const method = wanted.grant === undefined ? 'PUT' : 'POST';
      const outcome = await change({ method, path, body: wanted }, (made) => [made]);
      const { overrides } = outcome;
      const isDone = overrides.every(({ standing }) => standing !== 'NoRule');
      const isDomainUnknown = overrides.some(({ message }) => unknownDomain.test(message));
      const request = { domain: wanted.domain, entries: wanted.match };
      const hint = isDomainUnknown
        ? await withLimiters(flags, async (limiters) =>
            misspelled(limiters, (await limiters.members()).members, request),
          )
        : undefined;
      return { ...outcome, notes: remarksOn(overrides, flags, hint), isDone };
    },
    list: (domain) =>
      withLimiters(flags, async (limiters) => {
        const { members, silent } = await limiters.living();
        const { answers, failed } = separated(await limiters.askAll(members, { path, query: { domain } }));
        const reported = answers.map(({ member, body }) => ({ member, overrides: body.overrides }));
        return outcomeOf(reported, [...silent, ...failed], failed);
      }),
    remove: (which) => {
      const query = 'id' in which ? which : { domain: which.domain, entry: entryTexts(which.entries) };
      return change({ method: 'DELETE', path, query }, ({ removed }) => removed);
    },
    draft: (wanted) => Promise.resolve(wanted),
  };
}

interface Reported {
  member: Member;
  overrides: Json[];
}

/** An override that several limiters report with the same standing appears once. */
function outcomeOf(all: readonly Reported[], silent: Silent[], failed: readonly Silent[]): OverrideOutcome {
  reportSilent(failed);
  const overrides = new Map<string, Json>();
  for (const { member, overrides: reported } of all) {
    for (const one of reported) {
      const key = `${one.source} ${one.id} ${one.standing}`;
      const known = overrides.get(key) ?? { ...one, limiters: [] };
      known.limiters.push(member.name);
      overrides.set(key, known);
    }
  }
  return { overrides: [...overrides.values()], silent, notes: [], isDone: true };
}

/** Limiters name no other domain in it. */
const unknownDomain = /no rules have the domain ".*"$/;

/** A limiter's message, with flags in place of the fields of its API. */
export function inFlags(message: string): string {
  return message
    .replace('requestsPerUnit needs a unit', '--limit needs --unit')
    .replace('say which by limit', 'say which by --limit-name')
    .replace(/the rule has no limit (".*?"), but/, 'the rule has no limit $1 (--limit-name), but');
}

/** What limiters remark on overrides that were made. `hint`: what is misspelled perhaps. */
function remarksOn(overrides: readonly Json[], flags: ParsedFlags, hint?: string): string[] {
  const remarks = overrides.flatMap(({ limiters, standing, message }) => {
    if (!message || (standing !== 'NoRule' && standing !== 'InForce')) return [];
    const how = standing === 'NoRule' ? 'is set and changes nothing' : 'note';
    const words = inFlags(message).replace(unknownDomain, (found) => hint ?? found);
    return limiters.map((limiter: string) => `${limiter}: ${how}: ${words}`);
  });
  const idle = overrides.filter(({ standing }) => standing === 'NoRule');
  return idle.length === 0 ? remarks : [...remarks, `remove it with: ${removal(idle, flags)}`];
}

/** The command that removes an override of these limiters. Those that count in memory have one each, with an ID of its own. */
function removal([{ id, domain, match }, ...others]: readonly Json[], flags: ParsedFlags): string {
  const which = others.length === 0 ? [id] : [domain, ...entryTexts(match)];
  return ['weir override rm', ...[...which, ...limiterWords(flags)].map(shellWord)].join(' ');
}

function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
