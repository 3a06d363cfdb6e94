import { readFileSync } from 'node:fs';
import { parseArgs, styleText } from 'node:util';
import { errorText, systemErrorReason } from '../../process/log/error-text.ts';
import { parseGoBool } from '../../process/settings/go-values.ts';
import { type CounterKeys, counterKeyForms } from '../../rules/counter-keys.ts';

/** A command line that cannot be understood; the message is for the person who typed it. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** `short` is one letter, as in `-n shop`. */
export type FlagTypes = Record<string, { type: 'string' | 'boolean'; multiple?: boolean; short?: string }>;

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

/** A command that has flags; `--help` prints its help. */
export function commandOf(
  help: string,
  types: FlagTypes,
  run: (flags: ParsedFlags) => Promise<number> | number,
): (args: string[]) => Promise<number> {
  return async (args) => {
    const flags = parseFlags(args, types);
    if (!flags.on('help')) return run(flags);
    process.stdout.write(help);
    return 0;
  };
}

function longFlags(args: readonly string[], types: FlagTypes): string[] {
  const flags: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const arg = args[i] as string;
    if (arg === '--') return [...flags, ...args.slice(i)];
    const match = shortFlag(arg, types) ?? /^--?([A-Za-z][\w-]+)(?:=(.*))?$/s.exec(arg);
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

/** `-n`, `-n=shop`, `-nshop` as a match of the long flag that it stands for; `-namespace` is the long one itself. */
function shortFlag(arg: string, types: FlagTypes): [string, string, string | undefined] | undefined {
  const [, letter, rest, value] = /^-([A-Za-z])((?:=(.*)|.*))$/s.exec(arg) ?? [];
  const isLong = Object.hasOwn(types, `${letter}${rest}`.split('=', 1)[0]!.replaceAll('_', '-'));
  const [name, type] = Object.entries(types).find(([, { short }]) => short === (letter ?? '')) ?? [];
  if (name === undefined || isLong) return undefined;
  if (rest === '' || value !== undefined) return [arg, name, value];
  return type?.type === 'string' ? [arg, name, rest] : undefined;
}

function isTrue(name: string, value: string): boolean {
  const meaning = parseGoBool(value);
  if (meaning !== undefined) return meaning;
  throw new UsageError(`--${name} is true or false, not "${value}"`);
}

/** `--output text|json`. @throws UsageError */
export function outputFormat(flags: ParsedFlags): 'text' | 'json' {
  const output = flags.text('output') ?? 'text';
  if (output === 'text' || output === 'json') return output;
  throw new UsageError(`--output is text or json, not "${output}"`);
}

/** @throws UsageError */
export function wholeNumber(
  flags: ParsedFlags,
  name: string,
  bounds: { default: number; least: number; most: number },
): number {
  const text = flags.text(name);
  if (text === undefined) return bounds.default;
  const value = /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= bounds.least && value <= bounds.most) return value;
  throw new UsageError(`--${name} is a whole number from ${bounds.least} to ${bounds.most}, not "${text}"`);
}

/** `--counter-keys compatible|unambiguous`; where it is missing the variable COUNTER_KEYS, else compatible. @throws UsageError */
export function counterKeysOf(flags: ParsedFlags): CounterKeys {
  const flag = flags.text('counter-keys');
  const given = flag ?? process.env['COUNTER_KEYS'] ?? 'compatible';
  const form = counterKeyForms.find((known) => known === given.toLowerCase());
  if (form !== undefined) return form;
  const name = flag === undefined ? 'the variable COUNTER_KEYS' : '--counter-keys';
  throw new UsageError(`${name} is ${counterKeyForms.join(' or ')}, not "${given}"`);
}

/** Settings of a limiter from `--setting NAME=VALUE` each, of these names. @throws UsageError */
export function givenSettings<Settings>(
  given: readonly string[],
  names: readonly string[],
  parse: (env: Record<string, string>) => {
    settings?: Settings | undefined;
    errors?: readonly { message: string }[] | undefined;
  },
): Settings {
  const env: Record<string, string> = {};
  for (const text of given) {
    const [name = '', ...rest] = text.split('=');
    if (rest.length === 0) throw new UsageError(`--setting is NAME=VALUE, not "${text}"`);
    if (!names.includes(name)) throw new UsageError(`--setting takes ${names.join(', ')}; not "${name}"`);
    env[name] = rest.join('=');
  }
  const { settings, errors = [] } = parse(env);
  if (settings !== undefined) return settings;
  throw new UsageError(errors.map(({ message }) => `--setting: ${message}`).join('; '));
}

/** What a process has to know of a stream that it prints to. */
export interface PrintedStream {
  on(event: 'error', listener: (error: NodeJS.ErrnoException) => void): unknown;
}

/**
 * Nobody reads any more (`weir check rules | head`): what is still printed goes nowhere, and the status is that of the
 * command. Any other error of the stream is thrown.
 */
export function endureClosedPipes(streams: readonly PrintedStream[]): void {
  for (const stream of streams) {
    stream.on('error', (error) => {
      if (error.code !== 'EPIPE') throw error;
    });
  }
}

/** Colours a text for a stream; plain where that is no terminal, or where NO_COLOR says so. */
export type Paint = (style: 'red' | 'yellow' | 'green' | 'cyan' | 'bold' | 'dim', text: string) => string;

export function paintFor(stream: NodeJS.WriteStream): Paint {
  return (style, text) => styleText(style, text, { stream, validateStream: true });
}

/** A text of others on one line: what could act on a terminal is spelled out. */
export function escaped(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, (one) =>
    one < ' ' ? JSON.stringify(one).slice(1, -1) : `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** `a minute`, `an hour`: what a limit counts for. */
export function perUnit(unit: string): string {
  const name = unit.toLowerCase();
  return name === 'hour' ? 'an hour' : `a ${name}`;
}

/** Reads what a command line names. `name` is what the message begins with; `path` may be the number of an open file. @throws UsageError */
export function readGiven(name: string, path: string | number): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new UsageError(`${name}: ${systemErrorReason(error)}`, { cause: error });
  }
}

/** As `readGiven`, of an address. `hint` is what to add for a status. Redirections are not followed: a token must not go elsewhere. */
export async function fetchGiven<T>(
  url: URL,
  { timeoutMs, headers = {} }: { timeoutMs: number; headers?: Record<string, string> },
  read: (response: Response) => Promise<T>,
  hint: (status: number) => string = () => '',
): Promise<T> {
  try {
    const response = await fetch(url, { headers, redirect: 'error', signal: AbortSignal.timeout(timeoutMs) });
    if (response.ok) return await read(response);
    throw new UsageError(`${url.origin} answered ${response.status}${hint(response.status)}`);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    const first: unknown = cause instanceof AggregateError ? cause.errors[0] : cause;
    throw new UsageError(`${url.origin}: ${systemErrorReason(first)}`, { cause: error });
  }
}
