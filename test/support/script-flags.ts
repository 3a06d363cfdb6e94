/** Command lines of scripts for contributors: their flags, their help, and what they print about a wrong command line. */
import { type ParseArgsConfig, parseArgs } from 'node:util';

/** A command line that cannot be understood. The message is for the person who typed it. */
export class FlagError extends Error {
  override readonly name = 'FlagError';
}

interface NumberFlag {
  type: 'number';
  min: number;
  max: number;
  default?: number;
  /** Whether a fraction is an error. */
  whole?: boolean;
  /** The reason for the lower bound. */
  because?: string;
}

/** The flags of a script, by their names. */
type FlagRows = Readonly<
  Record<
    string,
    | NumberFlag
    | { type: 'boolean' }
    | { type: 'string'; default?: string }
    /** A flag that can be repeated. */
    | { type: 'strings'; default?: readonly string[] }
  >
>;

type WithDefault<Row, Value> = Row extends { default: unknown } ? Value : Value | undefined;
type ValueOf<Row> = Row extends { type: 'boolean' }
  ? boolean
  : Row extends { type: 'strings' }
    ? string[]
    : WithDefault<Row, Row extends { type: 'number' } ? number : string>;
/** The values of flags, by their names. */
export type FlagValues<Rows> = { -readonly [Name in keyof Rows]: ValueOf<Rows[Name]> };

/** The command line of one script. */
export interface ScriptFlags<Read> {
  readonly help: string;
  /** Returns undefined if the arguments ask for help. @throws FlagError, or an error of Node's parser */
  parse(args: readonly string[]): Read | undefined;
}

/**
 * Describes a command line. `help` begins with `Usage: npm run soak -- [`. Every script also has `--help` and `-h`. `read` makes the
 * result from the values and the arguments without a flag, which are an error unless `takesWords` is set.
 */
export function defineFlags<const Rows extends FlagRows, Read = FlagValues<Rows>>({
  help,
  rows,
  takesWords = false,
  read = (values) => values as unknown as Read,
}: {
  help: string;
  rows: Rows;
  takesWords?: boolean;
  /** @throws FlagError */
  read?: (values: FlagValues<Rows>, words: string[]) => Read;
}): ScriptFlags<Read> {
  const options: ParseArgsConfig['options'] = { help: { type: 'boolean', short: 'h' } };
  for (const [name, { type }] of Object.entries(rows))
    options[name] = { type: type === 'boolean' ? type : 'string', multiple: type === 'strings' };
  return {
    help,
    parse: (args) => {
      const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: takesWords });
      if (values['help'] === true) return undefined;
      const found = Object.entries(rows).map(([name, row]) => [name, flagValue(name, row, values[name])]);
      return read(Object.fromEntries(found), positionals);
    },
  };
}

function flagValue(name: string, row: FlagRows[string], given: unknown): unknown {
  if (row.type === 'boolean') return given ?? false;
  if (row.type === 'strings') return given ?? row.default ?? [];
  if (given === undefined) return row.default;
  return row.type === 'number' ? numberOf(name, row, String(given)) : given;
}

/** @throws FlagError with the bounds */
export function numberOf(
  name: string,
  { min, max, whole = false, because }: NumberFlag,
  text: string,
): number {
  const value = /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max && (!whole || Number.isInteger(value))) return value;
  const kind = whole ? 'a whole number' : 'a number';
  const reason = value < min && because !== undefined ? `: ${because}` : '';
  throw new FlagError(`--${name} is ${kind} from ${min} to ${max}, not "${text}"${reason}`);
}

/** Reads the command line of this process. Ends the process with the help, or with an explanation of what is wrong. */
export function scriptFlags<Read>({ help, parse }: ScriptFlags<Read>): Read {
  const read = explaining(help, () => parse(process.argv.slice(2)));
  if (read !== undefined) return read;
  process.stdout.write(help);
  process.exit(0);
}

/** Checks more of a command line. Ends the process with an explanation if `check` throws a FlagError. */
export function explaining<Result>(help: string, check: () => Result): Result {
  try {
    return check();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (!(error instanceof FlagError) && !code?.startsWith('ERR_PARSE_ARGS_')) throw error;
    // The first sentence names the flag. The others explain the syntax of Node's parser.
    const [sentence] = (error as Error).message.split('. ', 1);
    const [, command] = /^Usage: (.*?) (?=[[<])/.exec(help) ?? [];
    process.stderr.write(`${sentence}\n"${command} --help" describes its arguments.\n`);
    process.exit(2);
  }
}
