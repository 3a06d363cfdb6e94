import { compositeOf } from '../../rules/model.ts';
import type { RuleError } from '../../rules/rule-error.ts';
import type { LoadedSource } from '../shared/read-rule-texts.ts';

/** A warning about two sources that cannot be served together. */
export interface Conflict extends Omit<RuleError, 'code'> {
  code: 'duplicate-domain' | 'duplicate-object';
  hint: string;
}

/**
 * Finds manifests of one class that claim the same domain of a fleet, and resources with the same domain. Which of them is served
 * depends on the rules in force, so these are warnings. Rule files with the same domain are an error already.
 */
export function domainConflicts(
  sources: readonly LoadedSource[],
  { mergeDomains }: { mergeDomains: boolean },
): Conflict[] {
  const conflicts: Conflict[] = [];
  const objects = new Map<string, LoadedSource>();
  const holders = new Map<string, LoadedSource>();
  for (const loaded of sources) {
    if (loaded.kind === 'rule-file') continue;
    const first = loaded.object === undefined ? undefined : objects.get(loaded.source.name);
    if (first !== undefined) {
      conflicts.push(duplicateObject(loaded, first));
      continue;
    }
    if (loaded.object !== undefined) objects.set(loaded.source.name, loaded);
    for (const claim of claimsOf(loaded, mergeDomains)) {
      const holder = holders.get(claim.key);
      if (holder === undefined) holders.set(claim.key, loaded);
      else conflicts.push(taken(loaded, holder, claim));
    }
  }
  return conflicts;
}

interface Claim {
  key: string;
  path: (string | number)[];
  what: string;
}

/** Returns the domain of a fleet that a source claims or, with merging, each of its top-level rules. */
function claimsOf({ source, fleet, className, kind }: LoadedSource, mergeDomains: boolean): Claim[] {
  const place = fleet === undefined ? '' : ` of fleet '${fleet}'`;
  const domain = `domain '${source.domain}'${place}`;
  const key = JSON.stringify([kind, className, fleet, source.domain]);
  if (!mergeDomains) return [{ key, path: ['domain'], what: domain }];
  return source.descriptors.map((rule, index) => ({
    key: key + compositeOf(rule),
    path: ['descriptors', index, 'key'],
    what: `descriptor '${compositeOf(rule)}' in ${domain}`,
  }));
}

function taken(loaded: LoadedSource, holder: LoadedSource, { path, what }: Claim): Conflict {
  return {
    code: 'duplicate-domain',
    source: loaded.file,
    text: `${what} belongs to ${placeText(holder)}: limiters get only one of them`,
    hint: 'the object that is already in force has the domain, otherwise the older one (reason DomainConflict)',
    path,
    ...placeIn(loaded, path),
  };
}

function duplicateObject(loaded: LoadedSource, first: LoadedSource): Conflict {
  return {
    code: 'duplicate-object',
    source: loaded.file,
    text: `${loaded.source.name} is already defined in ${placeText(first)}`,
    hint: 'the manifest that is applied last replaces the others',
    path: ['domain'],
    ...placeIn(loaded, ['domain']),
  };
}

function placeText(loaded: LoadedSource): string {
  const { line } = placeIn(loaded, ['domain']);
  const place = line === undefined ? loaded.file : `${loaded.file}:${line}`;
  return loaded.source.name === '' || loaded.object === undefined
    ? place
    : `${loaded.source.name} (${place})`;
}

function placeIn(
  loaded: LoadedSource,
  path: readonly (string | number)[],
): { line: number | undefined; column: number | undefined } {
  return loaded.placeOf(path) ?? { line: undefined, column: undefined };
}
