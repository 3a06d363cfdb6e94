import { patternMatches } from '../../rules/pattern-matches.ts';

/**
 * Who may use which domain, as one line of text: `payments*=payments,platform; public=*; *=platform`.
 *
 * Entries stand between `;` or line breaks. Before the last `=` of an entry is a domain, after it are the namespaces that
 * may use it, between commas. `*` stands for any characters in both. The first entry whose domain matches decides, so
 * the special ones come first; an entry that can never be the first one is an error. A domain that no entry matches is
 * free for all: end with `*=platform` to leave none free.
 */
export interface DomainOwners {
  /** The namespaces (as written) that may use the domain; undefined: all. */
  ownersOf(domain: string): readonly string[] | undefined;
  mayUse(namespace: string, domain: string): boolean;
}

export type ParsedDomainOwners = { ok: true; owners: DomainOwners } | { ok: false; errors: string[] };

interface Entry {
  domain: string;
  namespaces: readonly string[];
}

export const anyoneOwnsAnything: DomainOwners = { ownersOf: () => undefined, mayUse: () => true };

/** Empty text: everyone may use everything. Each error names the entry by its number and text. */
export function parseDomainOwners(text: string): ParsedDomainOwners {
  const entries: Entry[] = [];
  const errors: string[] = [];
  for (const [index, part] of parts(text).entries()) {
    const entry = parseEntry(part);
    const problem = typeof entry === 'string' ? entry : coveredBy(entry, entries);
    if (problem !== undefined) errors.push(`entry ${index + 1} '${part}' ${problem}`);
    if (typeof entry !== 'string') entries.push(entry);
  }
  if (errors.length > 0) return { ok: false, errors };
  return { ok: true, owners: entries.length === 0 ? anyoneOwnsAnything : ownersIn(entries) };
}

function parts(text: string): string[] {
  return text
    .split(/[;\n]/)
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

/** The entry, or what is wrong with it. */
function parseEntry(part: string): Entry | string {
  const mark = part.lastIndexOf('=');
  if (mark === -1) return "has no '=' between a domain and its namespaces";
  const domain = part.slice(0, mark).trim();
  if (domain === '') return "names no domain before '='";
  const namespaces = part
    .slice(mark + 1)
    .split(',')
    .map((name) => name.trim());
  if (namespaces.every((name) => name === '')) return "names no namespace after '='";
  const bad = namespaces.find((name) => !/^[a-z0-9*-]{1,63}$/.test(name));
  if (bad !== undefined) return `has '${bad}' where a namespace must stand`;
  return { domain, namespaces };
}

function coveredBy(entry: Entry, earlier: readonly Entry[]): string | undefined {
  const cover = earlier.find(({ domain }) => patternMatches(domain, entry.domain));
  return cover && `is never asked: '${cover.domain}' stands before it and matches the same domains`;
}

function ownersIn(entries: readonly Entry[]): DomainOwners {
  const ownersOf = (domain: string): readonly string[] | undefined =>
    entries.find((entry) => patternMatches(entry.domain, domain))?.namespaces;
  const mayUse = (namespace: string, domain: string): boolean =>
    ownersOf(domain)?.some((pattern) => patternMatches(pattern, namespace)) ?? true;
  return { ownersOf, mayUse };
}
