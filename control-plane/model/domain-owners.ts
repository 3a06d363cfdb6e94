/** The namespaces that may use domains and fleets, according to settings and RateLimitFleets. */
import { patternMatches } from '../../rules/model.ts';
import type { DomainEntry } from './object-models.ts';

/**
 * The owners of domains, as one line of text: `payments*=payments,platform; public=*; *=platform`.
 *
 * Entries are separated by `;` or line breaks. The domain is before the last `=` of an entry. After it are the namespaces that may use
 * the domain, separated by commas. `*` stands for any characters in both. The first entry whose domain matches applies, so write special
 * entries first. An entry that can never be the first one is an error. All namespaces (`open`), or none (`claimed`), may use a domain
 * that no entry matches.
 */
export interface DomainOwners {
  /** The namespaces (as written) that may use the domain, maybe none; undefined: all. */
  ownersOf(domain: string): readonly string[] | undefined;
}

/** `owners`: as `DomainOwners` returns them. */
export function isOwner(namespace: string, owners: readonly string[] | undefined): boolean {
  return owners?.some((pattern) => patternMatches(pattern, namespace)) ?? true;
}

/** The rules for domains without an entry: every namespace may use them, or none. */
export const domainOwnerships = ['open', 'claimed'] as const;
export type DomainOwnership = (typeof domainOwnerships)[number];

/** The namespaces that may use a fleet and its domains, according to its RateLimitFleet. */
export interface FleetAccess {
  /** Returns whether objects of the namespace may belong to the fleet. */
  admits(namespace: string): boolean;
  /** The namespaces that may use the domain, in words. */
  admitted: string;
  domains: DomainOwners;
}

/**
 * Accesses by fleet. Undefined if the fleet is open to all namespaces. If an access is `unknown`, for the given reason, served rules stay
 * and no new ones are added.
 */
export interface FleetAccesses {
  get(fleet: string): FleetAccess | { unknown: string } | undefined;
}

export type ParsedDomainOwners = { ok: true; owners: DomainOwners } | { ok: false; errors: string[] };

interface OwnersOfDomain {
  domain: string;
  namespaces: readonly string[];
}

export const unrestrictedOwners: DomainOwners = { ownersOf: () => undefined };

/** Parses the owners. Each error names the entry by its number and text. */
export function parseDomainOwners(text: string, ownership: DomainOwnership): ParsedDomainOwners {
  return ownersOfEntries(
    parts(text).map((part) => [part, parseEntry(part)]),
    ownership,
  );
}

/** Returns the owners in `spec.domains` of a RateLimitFleet. Other rules decide about domains that it does not list. */
export function fleetDomainOwners(list: readonly DomainEntry[]): ParsedDomainOwners {
  const read = list.map(({ match, namespaces }) => {
    const part = `${match}=${namespaces.join(',')}`;
    return [part, entryOf(match, namespaces)] as const;
  });
  return ownersOfEntries(read, 'open');
}

/** Returns entries by their texts, or the mistakes in them. */
function ownersOfEntries(
  read: readonly (readonly [part: string, entry: OwnersOfDomain | string])[],
  ownership: DomainOwnership,
): ParsedDomainOwners {
  const entries = new EntryIndex();
  const domains = read.flatMap(([, entry]) => (typeof entry === 'string' ? [] : entry.domain));
  const clueOf = clueChooser(domains);
  const errors: string[] = [];
  for (const [index, [part, entry]] of read.entries()) {
    const problem = typeof entry === 'string' ? entry : coverProblem(entries.first(entry.domain));
    if (problem !== undefined) errors.push(`entry ${index + 1} '${part}' ${problem}`);
    if (typeof entry !== 'string') entries.add(entry, clueOf(entry.domain));
  }
  if (errors.length > 0) return { ok: false, errors };
  const isFree = entries.size === 0 && ownership === 'open';
  const unlisted = ownership === 'open' ? undefined : [];
  const owners = { ownersOf: (domain: string) => entries.first(domain)?.namespaces ?? unlisted };
  return { ok: true, owners: isFree ? unrestrictedOwners : owners };
}

function parts(text: string): string[] {
  return text
    .split(/[;\n]/)
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

/** The entry, or the mistake in it. */
function parseEntry(part: string): OwnersOfDomain | string {
  const mark = part.lastIndexOf('=');
  if (mark === -1) return "needs '=' between a domain and its namespaces";
  const domain = part.slice(0, mark).trim();
  if (domain === '') return "names no domain before '='";
  const namespaces = part
    .slice(mark + 1)
    .split(',')
    .map((name) => name.trim());
  return entryOf(domain, namespaces);
}

function entryOf(domain: string, namespaces: readonly string[]): OwnersOfDomain | string {
  if (namespaces.every((name) => name === '')) return "names no namespace after '='";
  const bad = namespaces.find((name) => !/^[a-z0-9*-]{1,63}$/.test(name));
  if (bad !== undefined) return `has '${bad}' in place of a namespace`;
  return { domain, namespaces };
}

function coverProblem(cover: OwnersOfDomain | undefined): string | undefined {
  return cover && `never applies: '${cover.domain}' comes before it and matches the same domains`;
}

/** Finds the first entry that matches a domain. A pattern is only tried for domains that contain its clue. */
class EntryIndex {
  /** Entries without a star, by domain. */
  readonly #exact = new Map<string, RankedEntry>();
  /** The entries with stars, in their order. */
  readonly #byClue = new Map<string, RankedEntry[]>();
  readonly #clueLengths = new Set<number>();
  size = 0;

  add(entry: OwnersOfDomain, clue: string): void {
    const ranked = { ...entry, rank: this.size++ };
    const { domain } = entry;
    if (!domain.includes('*')) {
      if (!this.#exact.has(domain)) this.#exact.set(domain, ranked);
      return;
    }
    this.#clueLengths.add(clue.length);
    const alike = this.#byClue.get(clue);
    if (alike === undefined) this.#byClue.set(clue, [ranked]);
    else alike.push(ranked);
  }

  /** Returns the first entry that matches the whole domain or, for a pattern, everything that the pattern matches. */
  first(text: string): OwnersOfDomain | undefined {
    let first = this.#exact.get(text);
    for (const length of this.#clueLengths) {
      for (let at = 0; at + length <= text.length; at++) {
        const clue = text.slice(at, at + length);
        const alike = this.#byClue.get(clue);
        if (alike === undefined || text.indexOf(clue) < at) continue;
        const before = first?.rank ?? this.size;
        const match = alike.find(({ domain, rank }) => rank >= before || patternMatches(domain, text));
        if (match !== undefined && match.rank < before) first = match;
      }
    }
    return first;
  }
}

interface RankedEntry extends OwnersOfDomain {
  rank: number;
}

/**
 * Returns a function that chooses a text between the stars of a pattern: the one that the fewest patterns have. A pattern that consists
 * only of stars has none.
 */
function clueChooser(patterns: readonly string[]): (pattern: string) => string {
  const counts = new Map<string, number>();
  for (const pattern of patterns) {
    for (const clue of cluesOf(pattern)) counts.set(clue, (counts.get(clue) ?? 0) + 1);
  }
  const rarer = (a: string, b: string) => (counts.get(b)! < counts.get(a)! ? b : a);
  return (pattern) => {
    const clues = cluesOf(pattern);
    return clues.length === 0 ? '' : clues.reduce(rarer);
  };
}

/** Chosen: long enough to distinguish most domains. */
const longestClue = 8;

/** Returns the clues of a pattern. A domain without stars needs none. */
function cluesOf(pattern: string): string[] {
  if (!pattern.includes('*')) return [];
  return pattern.split('*').flatMap((piece) => {
    const length = Math.min(piece.length, longestClue);
    const count = length === 0 ? 0 : piece.length - length + 1;
    return Array.from({ length: count }, (_, at) => piece.slice(at, at + length));
  });
}
