import { hash, randomBytes } from 'node:crypto';
import { anonymousCaller, callerName, unknownCaller } from '../../limiter/callers/callers-file.ts';
import { commandOf, UsageError } from '../shared/flags.ts';
import { io } from '../shared/io.ts';

const help = `Usage: weir callers token <name>

Creates a token for a caller of a limiter that has CALLERS_FILE. The command prints the token on standard output once; you cannot get it again. The file stores the SHA-256 of the token, which the command prints on standard error as the lines of an entry.

  weir callers token billing > token

docs/callers.md has the format of the file; weir check reads it.
Exit status: 0, or 2 for a wrong command line.
`;

/** Chosen: 256 bits cannot be guessed. */
const secretBytes = 32;

export const callersCommand = commandOf(
  help,
  (flags) => {
    const [verb, name, stray] = flags.positionals;
    if (verb !== 'token') throw new UsageError('callers needs the word token, and a name');
    if (name === undefined) throw new UsageError('callers token needs the name of the caller');
    if (stray !== undefined)
      throw new UsageError(`callers token takes one name, found another one: "${stray}"`);
    if (name === unknownCaller || name === anonymousCaller) {
      throw new UsageError(
        `the name "${name}" is reserved: statistics use it for callers that match no entry`,
      );
    }
    if (!callerName.test(name)) {
      throw new UsageError(
        `"${name}" is not a name of a caller: at most 63 letters, digits, "-" and "_", beginning with a letter or digit`,
      );
    }
    const secret = randomBytes(secretBytes).toString('base64url');
    io().stdout.write(`${name}.${secret}\n`);
    io().stderr.write(entryText(name, hash('sha256', secret)));
    return 0;
  },
  { words: ['token'] },
);

function entryText(name: string, digest: string): string {
  return [
    'Add this entry to the callers file, with the domains of the caller:',
    `  - name: ${name}`,
    `    token_sha256: ${digest}`,
    '    domains: []',
    '',
  ].join('\n');
}
