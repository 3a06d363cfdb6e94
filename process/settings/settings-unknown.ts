import { parseGoBool } from './go-values.ts';

/** Other names for settings. An alias counts only where its canonical name is a setting of the program. */
export interface AliasTable {
  /** A name with the first prefix is an alias of the name with the second one instead. */
  readonly prefixes: readonly (readonly [alias: string, canonical: string])[];
  /** Whole names, which take precedence over the prefixes. */
  readonly names: Readonly<Record<string, string>>;
}

/** Returns the canonical name of `name`; undefined if it is not an alias. */
export function canonicalName(aliases: AliasTable, name: string): string | undefined {
  if (Object.hasOwn(aliases.names, name)) return aliases.names[name];
  for (const [prefix, canonical] of aliases.prefixes) {
    if (name.startsWith(prefix)) return canonical + name.slice(prefix.length);
  }
  return undefined;
}

/** Every alias of one setting. */
export function aliasesOf(aliases: AliasTable, name: string): string[] {
  const found = Object.keys(aliases.names).filter((alias) => aliases.names[alias] === name);
  for (const [alias, canonical] of aliases.prefixes) {
    if (name.startsWith(canonical)) found.push(alias + name.slice(canonical.length));
  }
  return found.filter((alias) => canonicalName(aliases, alias) === name);
}

interface KnownNames {
  readonly table: Readonly<Record<string, { readonly name: string }>>;
  readonly aliases: AliasTable;
  readonly ownPrefixes: readonly string[];
  readonly mistakenNames?: Readonly<Record<string, string>>;
}

/** Names of other programs that look like a typo of one of ours: pods get NODE_NAME beside POD_NAME. */
const foreign: ReadonlySet<string> = new Set(['NODE_NAME']);

/**
 * Warns about variables that seem to be meant for this program but are not read: one sentence for each, by name. Their values are not
 * used, except to recognize a link of Kubernetes.
 */
export function unknownVariables(
  known: KnownNames,
  env: Readonly<Record<string, string | undefined>>,
): string[] {
  const names = Object.values(known.table).map(({ name }) => name);
  const spellings = new Map<string, string>();
  for (const name of names) {
    spellings.set(name, name);
    for (const alias of aliasesOf(known.aliases, name)) spellings.set(alias, alias);
  }
  const warnings: string[] = [];
  for (const variable of Object.keys(env).sort()) {
    const value = env[variable] ?? '';
    if (spellings.has(variable) || foreign.has(variable) || isServiceLink(variable, value)) continue;
    const meant = known.mistakenNames?.[variable] ?? nearest(variable, [...spellings.keys()]);
    if (meant !== undefined) {
      warnings.push(`${variable} is unknown to this version and ignored; did you mean ${meant}?`);
    } else if (isOwn(known, variable) && !isOff(value)) {
      warnings.push(`${variable} is a setting that this version does not have; it is ignored`);
    }
  }
  return warnings;
}

/** Returns variables that are set to a value, are not read, and must not be ignored. `unsafe` has canonical names. */
export function unsafeVariables(
  unsafe: readonly string[],
  aliases: AliasTable,
  env: Readonly<Record<string, string | undefined>>,
): string[] {
  return Object.keys(env)
    .filter((variable) => unsafe.includes(canonicalName(aliases, variable) ?? variable))
    .filter((variable) => !isOff(env[variable] ?? ''))
    .sort();
}

/** Whether the value only turns the variable off. */
function isOff(value: string): boolean {
  return value === '' || parseGoBool(value) === false;
}

function isOwn(known: KnownNames, variable: string): boolean {
  return (
    known.ownPrefixes.some((prefix) => variable.startsWith(prefix)) ||
    canonicalName(known.aliases, variable) !== undefined
  );
}

/**
 * Whether it is one of the variables that Kubernetes and Docker set for a Service called `redis`: REDIS_SERVICE_HOST,
 * REDIS_PORT_6379_TCP_ADDR ...
 */
function isServiceLink(variable: string, value: string): boolean {
  return (
    /_SERVICE_(HOST|PORT)(_[A-Z0-9_]+)?$/.test(variable) ||
    /_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$/.test(variable) ||
    (variable.endsWith('_PORT') && /^(tcp|udp|sctp):\/\//.test(value))
  );
}

function nearest(variable: string, spellings: readonly string[]): string | undefined {
  const letters = bareLetters(variable);
  const same = spellings.find((spelling) => bareLetters(spelling) === letters);
  if (same !== undefined) return same;
  let best: string | undefined;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (const spelling of spellings) {
    // Short names are similar to too many others: HOME is no typo of HOST.
    const max = spelling.length >= 8 ? 2 : spelling.length >= 5 ? 1 : 0;
    if (Math.abs(spelling.length - variable.length) > max) continue;
    const distance = editDistance(variable.toUpperCase(), spelling.toUpperCase(), max);
    if (distance <= max && distance < bestDistance) {
      best = spelling;
      bestDistance = distance;
    }
  }
  return best;
}

function bareLetters(name: string): string {
  return name.replaceAll('_', '').toUpperCase();
}

/**
 * The number of letters that were changed, left out, added or swapped with the next one (optimal string alignment). Infinity as soon as
 * it is certainly more than `most`.
 */
export function editDistance(a: string, b: string, max = Number.POSITIVE_INFINITY): number {
  let before: number[] = [];
  let above = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const isSame = a[row - 1] === b[column - 1];
      const isSwapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      const edits = Math.min(
        above[column - 1]! + (isSame ? 0 : 1),
        above[column]! + 1,
        current[column - 1]! + 1,
      );
      current.push(isSwapped ? Math.min(edits, before[column - 2]! + 1) : edits);
    }
    if (Math.min(...above, ...current) > max) return Number.POSITIVE_INFINITY;
    [before, above] = [above, current];
  }
  return above[b.length]!;
}
