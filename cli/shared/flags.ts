import { parseArgs } from 'node:util';
import { errorText } from '../../process/log/process-error-text.ts';
import { parseGoBool } from '../../process/settings/go-values.ts';

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

/** Every command has it, also as `-h`. */
const helpFlag = { help: { type: 'boolean', short: 'h' } } as const;

/**
 * Reads flags in the usual form (`--dial-string host:port`) and in that of Go's flag package (`-dial_string`,
 * `--dial_string=host:port`, `-merge=false`): one dash or two, `_` and `-` alike.
 */
export function parseFlags(args: readonly string[], types: FlagTypes): ParsedFlags {
  const options = { ...types, ...helpFlag };
  try {
    const { values, positionals } = parseArgs({
      args: longFlags(args, options),
      options,
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
    if (error instanceof UsageError) throw error;
    // The first sentence names the flag; what follows explains how Node's own parser would have it.
    const [sentence = ''] = errorText(error).split('. ', 1);
    throw new UsageError(sentence);
  }
}

function longFlags(args: readonly string[], types: FlagTypes): string[] {
  const flags: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const arg = args[i] as string;
    if (arg === '--') return [...flags, ...args.slice(i)];
    const match = /^--?([A-Za-z][\w-]+)(?:=(.*))?$/s.exec(arg);
    const name = match?.[1]?.replaceAll('_', '-') ?? '';
    const value = match?.[2];
    const type = Object.hasOwn(types, name) ? types[name]?.type : undefined;
    if (match === null) {
      flags.push(arg);
    } else if (type === 'boolean' && value !== undefined) {
      if (isTrue(name, value)) flags.push(`--${name}`);
    } else if (type === 'string' && value === undefined && i + 1 < args.length) {
      // Joined, so that a value may begin with a dash.
      i += 1;
      flags.push(`--${name}=${args[i]}`);
    } else {
      flags.push(value === undefined ? `--${name}` : `--${name}=${value}`);
    }
  }
  return flags;
}

function isTrue(name: string, value: string): boolean {
  const meaning = parseGoBool(value);
  if (meaning !== undefined) return meaning;
  throw new UsageError(`--${name} is true or false, not "${value}"`);
}
