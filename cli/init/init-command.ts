import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { packageFile } from '../../process/files/package-file.ts';
import { systemErrorReason } from '../../process/log/error-text.ts';
import { CommandError, commandOf, type ParsedFlags, UsageError } from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import {
  type ProxyName,
  parseBy,
  parseDomain,
  parseLimit,
  programWord,
  proxyNames,
  type Starter,
  type StarterAnswers,
  starterFiles,
} from './starter.ts';

const help = `Usage: weir init [folder] [flags]

Writes a first limit into a folder (default: weir): rules, the configuration of your proxy, and commands that show a 429 answer.
Asks four questions at a terminal, unless flags answer them. Does not change existing files.

  --by <what>[,...]      what to limit by: address, header:<name> or path. Several are counted in combination
  --limit <n>/<window>   the limit of each, such as 100/minute, 100/min or 5/10s
  --domain <name>        the name of the rules, here and in the proxy
  --proxy <name>         ${proxyNames.join(', ')}. Choose none if your program asks the limiter
                         over HTTP
  --force                overwrite existing files

  weir init
  weir init limits --by header:x-api-key --limit 100/minute --domain shop --proxy envoy

Exit status: 0 when all files were written, 1 when a file exists or cannot be written, 2 for a wrong command line.
`;

/** Answers one question; undefined at the end of input. */
export type AskQuestion = (question: string) => Promise<string | undefined>;

interface Question<Name extends keyof Flags> {
  flag: Name;
  question: string;
  /** The meaning of an empty answer. */
  usual: string;
  read(text: string): Flags[Name] | string;
}

interface Flags {
  by: StarterAnswers['by'];
  limit: StarterAnswers['limit'];
  domain: { domain: string };
  proxy: { proxy: ProxyName };
}

const questions: { [Name in keyof Flags]: Question<Name> } = {
  by: {
    flag: 'by',
    question: 'What gets its own limit: each address, header:<name> or path? Separate several by commas',
    usual: 'address',
    read: parseBy,
  },
  limit: {
    flag: 'limit',
    question: 'How many requests may each make',
    usual: '100/minute',
    read: parseLimit,
  },
  domain: { flag: 'domain', question: 'The domain of the rules', usual: 'shop', read: parseDomain },
  proxy: {
    flag: 'proxy',
    question: `Which proxy asks: ${proxyNames.join(', ')} (your program asks over HTTP)`,
    usual: 'envoy',
    read: (text) => {
      const proxy = proxyNames.find((name) => name === text.toLowerCase());
      return proxy === undefined ? `"${text}" is not one of ${proxyNames.join(', ')}` : { proxy };
    },
  },
};

export const initCommand = commandOf(
  help,
  async (flags) => {
    const [folder = 'weir', stray] = flags.positionals;
    if (stray !== undefined) throw new UsageError(`init takes one folder, "${stray}" is another`);
    // Steps are typed into a shell as printed, so the name must need no quotes.
    if (!/^[\w./-]+$/.test(folder) || folder.startsWith('-'))
      throw new UsageError(`"${folder}": take a folder of letters, digits, ".", "_", "-" and "/"`);
    const terminal = io().stdin.isTTY && io().stdout.isTTY ? openTerminal() : undefined;
    try {
      const by = flags.list('by').join(',') || undefined;
      const text = (name: string) => (name === 'by' ? by : flags.text(name));
      const answers = await answersOf({ text }, terminal?.ask);
      write(
        starterFiles(answers, folder, packageExample, programWord(io().cwd())),
        folder,
        flags.on('force'),
      );
    } finally {
      terminal?.close();
    }
    return 0;
  },
  { values: { proxy: proxyNames } },
);

function openTerminal(): { ask: AskQuestion; close(): void } {
  const lines = createInterface({ input: io().stdin, output: io().stdout });
  const ended = new Promise<undefined>((resolve) => lines.once('close', () => resolve(undefined)));
  return { ask: (question) => Promise.race([lines.question(question), ended]), close: () => lines.close() };
}

/** `ask` reads from a terminal, if there is one. @throws UsageError */
export async function answersOf(
  flags: Pick<ParsedFlags, 'text'>,
  ask: AskQuestion | undefined,
): Promise<StarterAnswers> {
  const all = Object.values(questions);
  const missing = all.filter(({ flag }) => flags.text(flag) === undefined);
  if (ask === undefined && missing.length > 0)
    throw new UsageError(
      `there is no terminal to ask the questions: give ${missing.map(({ flag }) => `--${flag}`).join(', ')}`,
    );
  // Flags are checked before any question.
  for (const one of all) if (flags.text(one.flag) !== undefined) answerOf(one, flags.text(one.flag)!);
  const by = await answered(questions.by, flags, ask);
  const limit = await answered(questions.limit, flags, ask);
  const { domain } = await answered(questions.domain, flags, ask);
  const { proxy } = await answered(questions.proxy, flags, ask);
  return { by, limit, domain, proxy };
}

async function answered<Name extends keyof Flags>(
  question: Question<Name>,
  flags: Pick<ParsedFlags, 'text'>,
  ask: AskQuestion | undefined,
): Promise<Flags[Name]> {
  const given = flags.text(question.flag);
  if (given !== undefined || ask === undefined) return answerOf(question, given ?? question.usual);
  let problem = '';
  for (;;) {
    const text = await ask(`${problem}${question.question} [${question.usual}]: `);
    if (text === undefined) throw new CommandError('no file was written: the questions were not answered');
    const answer = question.read(text.trim() || question.usual);
    if (typeof answer !== 'string') return answer;
    problem = `${answer}\n`;
  }
}

function answerOf<Name extends keyof Flags>(question: Question<Name>, text: string): Flags[Name] {
  const answer = question.read(text);
  if (typeof answer === 'string') throw new UsageError(`--${question.flag}: ${answer}`);
  return answer;
}

function packageExample(path: string): string {
  try {
    return packageFile(path);
  } catch {
    throw new CommandError(
      `${path} is not in this installation: it is in the npm package, and in the repository`,
    );
  }
}

/** Writes the files, or none if a file exists already. */
function write({ files, steps, notes }: Starter, folder: string, isForced: boolean): void {
  const paths = [...files].map(([name, text]) => ({ path: join(folder, name), text }));
  const taken = paths.filter(({ path }) => existsSync(path));
  if (taken.length > 0 && !isForced) {
    const names = taken.map(({ path }) => path).join(', ');
    throw new CommandError(
      `no file was written, because these already exist: ${names}; --force overwrites them`,
    );
  }
  for (const { path, text } of paths) {
    try {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text, { flag: isForced ? 'w' : 'wx' });
    } catch (error) {
      throw new CommandError(`${path}: ${systemErrorReason(error)}`);
    }
    io().stdout.write(`wrote ${path}\n`);
  }
  for (const { what, command } of steps) io().stdout.write(`\n${what}\n  ${command}\n`);
  for (const note of notes) io().stdout.write(`\n${note}\n`);
}
