/** Other names for settings. An alias counts only where its canonical name is a setting of the program. */
export interface AliasTable {
  /** A name that begins with the first is an alias of the name that begins with the second instead. */
  readonly prefixes: readonly (readonly [alias: string, canonical: string])[];
  /** Whole names. They go before the prefixes. */
  readonly names: Readonly<Record<string, string>>;
}

/** The canonical name that `name` stands for; undefined when it is no alias. */
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
