import { parseArgs } from 'node:util';
import { readBoundedFile } from '../../process/files/bounded-file.ts';
import { errorText, systemErrorReason } from '../../process/log/error-text.ts';
import { parseGoBool, parseGoDuration } from '../../process/settings/go-values.ts';
import { editDistance } from '../../process/settings/settings-unknown.ts';
import { orWords } from '../../rules/rule-error.ts';
import { type FlagTypes, fittedHelp, flagsOfHelp } from './help.ts';
import { type CommandIo, io, programName } from './io.ts';
import { escaped } from './text.ts';

/** A command line that cannot be understood. The message is for the person who typed it. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  /** The subcommand that the person typed, if it is known. */
  verb?: string;
}

/** The command cannot do what was asked. The message is one line that says why, and what to do. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  /** The exit status of the process. */
  readonly exitStatus: number;

  constructor(message: string, exitStatus = 1, options?: ErrorOptions) {
    super(message, options);
    this.exitStatus = exitStatus;
  }
}

export interface ParsedFlags {
  text(name: string): string | undefined;
  list(name: string): string[];
  on(name: string): boolean;
  isGiven(name: string): boolean;
  positionals: string[];
}

/** Every command has this flag, also as `-h`. */
export const helpFlag = { help: { type: 'boolean', short: 'h' } } as const;

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
      isGiven: (name) => all[name] !== undefined,
      positionals,
    };
  } catch (error) {
    if (error instanceof UsageError) throw error;
    // The first sentence names the flag. The rest explains the syntax of Node's own parser.
    const [sentence = ''] = errorText(error).split('. ', 1);
    const unknown = /^Unknown option '--?([^']+)'/.exec(sentence)?.[1];
    throw new UsageError(
      sentence + (unknown === undefined ? '' : hintOf(unknown, Object.keys(options), '--')),
    );
  }
}

/** A command: it runs with its arguments and resolves to the exit status. The other fields are for completion. */
export interface Command {
  (args: string[]): Promise<number>;
  readonly flags: FlagTypes;
  /** Subcommands, which the first argument names. */
  readonly verbs: Readonly<Record<string, Command>>;
  /** Other values of the first argument. */
  readonly words: readonly string[];
}

/** Prints the help of a command under the name of the running program, because some commands belong to two programs. */
function printHelp(help: string): void {
  const [, name] = /^Usage: weir (\S+)/.exec(help) ?? [];
  const named = name === undefined ? help : help.replaceAll(`weir ${name}`, `${programName()} ${name}`);
  io().stdout.write(fittedHelp(named));
}

/** Facts about a command that its help does not express. */
export interface CommandFacts {
  /** Flags that the help does not list as it lists others. */
  flags?: FlagTypes;
  /** All possible values of flags, where the help does not list them as `a|b`. */
  values?: Readonly<Record<string, readonly string[]>>;
  /** Possible values of the first argument. */
  words?: readonly string[];
}

/** Makes a command with the flags that its help lists; `--help` prints the help. */
export function commandOf(
  help: string,
  run: (flags: ParsedFlags) => Promise<number> | number,
  { flags: more, values = {}, words = [] }: CommandFacts = {},
): Command {
  const types = { ...flagsOfHelp(help), ...more };
  for (const [name, all] of Object.entries(values)) types[name] = { ...types[name]!, values: all };
  const command = async (args: string[]) => {
    const flags = parseFlags(args, types);
    if (!flags.on('help')) return run(flags);
    printHelp(help);
    return 0;
  };
  return Object.assign(command, { flags: types, verbs: {}, words });
}

/** Makes a command whose first argument names a subcommand. */
export function commandOfVerbs(help: string, verbs: Readonly<Record<string, Command>>): Command {
  const names = Object.keys(verbs);
  const command = async ([verb, ...rest]: string[]) => {
    if (verb === undefined) throw new UsageError(`say what to do: ${names.join(', ')}`);
    if (Object.hasOwn(verbs, verb)) return verbs[verb]!(rest).catch((error) => rethrowOf(verb, error));
    if (!/^(?:--?help|-h)$/.test(verb))
      throw new UsageError(`"${verb}" is not one of ${names.join(', ')}${hintOf(verb, names)}`);
    printHelp(help);
    return 0;
  };
  return Object.assign(command, { flags: {}, verbs, words: [] });
}

function rethrowOf(verb: string, error: unknown): never {
  if (error instanceof UsageError) error.verb = verb;
  throw error;
}

/** Returns for example `; did you mean "check"?` if a known word is similar; otherwise an empty text. */
export function hintOf(given: string, known: readonly string[], before = ''): string {
  const [nearest] = known
    .map((word) => ({ word, far: word.startsWith(given) && given !== '' ? 1 : editDistance(given, word) }))
    .filter(({ word, far }) => far <= Math.max(1, Math.floor(Math.min(given.length, word.length) / 3)))
    .sort((a, b) => a.far - b.far);
  return nearest === undefined ? '' : `; did you mean "${before}${nearest.word}"?`;
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
      // The value is joined to its flag, so that it may begin with a dash.
      i += 1;
      flags.push(`--${name}=${args[i]}`);
    } else {
      flags.push(value === undefined ? `--${name}` : `--${name}=${value}`);
    }
  }
  return flags;
}

/** Reads `-n`, `-n=shop` or `-nshop` as the long flag that it stands for. `-namespace` is the long flag itself. */
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

/** Rejects the flags of a list, which have no effect here. `why` ends the message. @throws UsageError */
export function rejectIdle(flags: ParsedFlags, names: readonly string[], why: string): void {
  const idle = names.find((name) => flags.isGiven(name));
  if (idle !== undefined) throw new UsageError(`--${idle} has no effect ${why}`);
}

/** @throws UsageError */
export function wholeNumber(
  flags: ParsedFlags,
  name: string,
  bounds: { default: number; min: number; max: number },
): number {
  const text = flags.text(name);
  if (text === undefined) return bounds.default;
  const value = /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= bounds.min && value <= bounds.max) return value;
  throw new UsageError(`--${name} is a whole number from ${bounds.min} to ${bounds.max}, not "${text}"`);
}

/** Returns the value of a flag that takes one of these values; undefined without the flag. @throws UsageError */
export function choiceOf<Value extends string>(
  flags: ParsedFlags,
  name: string,
  values: readonly Value[],
): Value | undefined {
  const text = flags.text(name);
  const choice = values.find((one) => one === text);
  if (choice !== undefined || text === undefined) return choice;
  throw new UsageError(`--${name} is ${orWords(values)}, not "${text}"`);
}

/** Returns a duration such as `5s` or `1m30s` in milliseconds; without the flag, the default. @throws UsageError */
export function durationMs(
  flags: ParsedFlags,
  name: string,
  bounds: { default: string; min: string; max: string },
): number {
  const text = flags.text(name) ?? bounds.default;
  const ms = parseGoDuration(text);
  if (ms !== undefined && ms >= parseGoDuration(bounds.min)! && ms <= parseGoDuration(bounds.max)!) return ms;
  const { min, max } = bounds;
  throw new UsageError(
    `--${name} is a duration from ${min} to ${max}, such as ${bounds.default}, not "${text}"`,
  );
}

/** @throws UsageError */
export function timeoutMs(flags: ParsedFlags, defaultValue = '5s'): number {
  return durationMs(flags, 'timeout', { default: defaultValue, min: '1ms', max: '10m' });
}

/** The last second of the year 9998, so that a window of a year that begins in it ends in a year with four digits. */
const lastSecond = 253_370_764_799;
/** The upper bound of times that commands accept. */
export const endOfTimeMs = (lastSecond + 1) * 1000;

/**
 * Returns a time in milliseconds since 1970. Accepts RFC 3339, or seconds since 1970; with `nowMs` also a duration such as 10m, which
 * counts back from then. @throws UsageError
 */
export function readTime(flag: string, text: string, nowMs?: number): number {
  const agoMs = nowMs === undefined || /^\d+$/.test(text) ? undefined : parseGoDuration(text);
  if (nowMs !== undefined && agoMs !== undefined && agoMs >= 0) return nowMs - agoMs;
  if (/^\d{4}-\d\d-\d\dT[\d:.]+$/i.test(text)) {
    throw new UsageError(
      `${flag} "${text}" has no time zone: end it with Z, or with an offset such as +01:00`,
    );
  }
  const isDate = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/i.test(text);
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(isDate ? text : '');
  if (Number.isNaN(ms)) {
    const ago = nowMs === undefined ? '' : ', or a duration such as 10m';
    throw new UsageError(
      `${flag} is a time such as 2026-01-31T12:00:00Z or seconds since 1970${ago}, not "${text}"`,
    );
  }
  if (ms >= 0 && ms < endOfTimeMs) return ms;
  throw new UsageError(
    `${flag} "${text}" is not from 1970 to 9998: ${lastSecond} seconds since 1970 at most`,
  );
}

/** The parts of an output stream that the process uses. */
export interface PrintedStream {
  on(event: 'error', listener: (error: NodeJS.ErrnoException) => void): unknown;
}

/**
 * Handles write errors of streams. If no program reads any more (`weir check rules | head`), the rest of the output goes nowhere and the
 * command's exit status stays. The first other error, such as a full disk, is passed to `failed`.
 */
export function handleWriteErrors(
  streams: readonly PrintedStream[],
  failed: (error: NodeJS.ErrnoException) => void,
): void {
  let hasFailed = false;
  for (const stream of streams) {
    stream.on('error', (error) => {
      if (error.code === 'EPIPE' || hasFailed) return;
      hasFailed = true;
      failed(error);
    });
  }
}

/** Prints a line on standard error. It may quote file names and rules, so it is escaped. */
export function printProblem(text: string): void {
  io().stderr.write(`${programName()}: ${escaped(text)}\n`);
}

const standardInputsRead = new WeakSet<CommandIo>();

/** Returns the file of standard input for a command that is about to read all of it. @throws UsageError if it was read before */
export function standardInputFile(): string | number {
  const { stdinFile } = io();
  if (standardInputsRead.has(io())) throw new UsageError('only one argument can be "-", standard input');
  standardInputsRead.add(io());
  return stdinFile;
}

/** Reads the file of an argument. `name` begins the message; `path` may be the number of an open file. @throws UsageError */
export function readArgumentFile(name: string, path: string | number): Buffer {
  try {
    return readBoundedFile(path);
  } catch (error) {
    throw new UsageError(`${name}: ${systemErrorReason(error)}`, { cause: error });
  }
}

/** The advice for a limiter that answers 401. */
export const tokenHint = 'requires a valid token: --token-file, or WEIR_TOKEN_FILE';

/** Like `readArgumentFile`, for a URL. `hint` is added for a status. Redirects are not followed, so that a token goes nowhere else. */
export async function fetchArgument<T>(
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
    if (error instanceof Error && error.name === 'TimeoutError')
      throw new UsageError(`${url.origin}: no answer within ${timeoutMs} ms`, { cause: error });
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    const first: unknown = cause instanceof AggregateError ? cause.errors[0] : cause;
    throw new UsageError(`${url.origin}: ${systemErrorReason(first)}`, { cause: error });
  }
}
