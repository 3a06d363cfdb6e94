import { parseArgs } from 'node:util';

/** A command line that cannot be understood; the message is for the person who typed it. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

export type FlagTypes = Record<string, { type: 'string' | 'boolean'; multiple?: boolean }>;

export interface ParsedFlags {
  text(name: string): string | undefined;
  list(name: string): string[];
  on(name: string): boolean;
  positionals: string[];
}

/**
 * Reads flags in the usual form (`--dial-string host:port`) and in that of Go's flag package (`-dial_string`,
 * `--dial_string=host:port`): one dash or two, `_` and `-` alike.
 */
export function parseFlags(args: readonly string[], types: FlagTypes): ParsedFlags {
  try {
    const { values, positionals } = parseArgs({
      args: args.map(toLongFlag),
      options: types,
      allowPositionals: true,
      strict: true,
    });
    const all = values as Record<string, string | boolean | string[] | undefined>;
    return {
      text: (name) => all[name] as string | undefined,
      list: (name) => (all[name] as string[] | undefined) ?? [],
      on: (name) => all[name] === true,
      positionals,
    };
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function toLongFlag(arg: string): string {
  const match = /^--?([A-Za-z][\w-]+)(=.*)?$/s.exec(arg);
  if (match === null) return arg;
  const [, name = '', value = ''] = match;
  // Go writes a boolean's value behind an equals sign; here a boolean flag is there or not.
  const suffix = value === '=true' ? '' : value;
  return `--${name.replaceAll('_', '-')}${suffix}`;
}
