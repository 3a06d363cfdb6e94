/** Command lines of the scripts that people start by `npm run`: what they say when something is wrong with one. */

/** A command line that cannot be understood; the message is for the person who typed it. */
export class FlagError extends Error {
  override readonly name = 'FlagError';
}

export interface NumberFlag {
  flag: string;
  text: string;
  min: number;
  max: number;
  /** Defaults to any number. */
  whole?: boolean;
  /** Why there is the lower bound. */
  because?: string;
}

/** @throws FlagError with the bounds */
export function numberFlag({ flag, text, min, max, whole = false, because }: NumberFlag): number {
  const value = /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max && (!whole || Number.isInteger(value))) return value;
  const kind = whole ? 'a whole number' : 'a number';
  const reason = value < min && because !== undefined ? `: ${because}` : '';
  throw new FlagError(`${flag} is ${kind} from ${min} to ${max}, not "${text}"${reason}`);
}

/** What was read. Ends the process: with help where `read` returns nothing, with what is wrong where it throws. */
export function readOrExplain<Options>(
  read: () => Options | undefined,
  { help, script }: { help: string; script: string },
): Options {
  try {
    const options = read();
    if (options !== undefined) return options;
    process.stdout.write(help);
    process.exit(0);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (!(error instanceof FlagError) && !code?.startsWith('ERR_PARSE_ARGS_')) throw error;
    // The first sentence names the flag; what follows explains how Node's own parser would have it.
    const [sentence] = (error as Error).message.split('. ', 1);
    process.stderr.write(`${sentence}\n"npm run ${script} -- --help" describes its arguments.\n`);
    process.exit(2);
  }
}
