import {
  parseSigningSecrets,
  SecretError,
  secretPath,
  type VerifyResult,
  verifyDelivery,
} from '../../control-plane/webhooks/signing-keys.ts';
import { parseGoDuration } from '../../process/settings/go-values.ts';
import {
  commandOf,
  fetchArgument,
  type ParsedFlags,
  readArgumentFile,
  readTime,
  standardInputFile,
  UsageError,
} from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import { outputForm as outputFormat } from '../shared/report.ts';
import { dataText } from '../shared/text.ts';

/**
 * Reads headers as programs write them: a JSON object, or lines `name: value` as in `curl -D` and HTTP itself. A first line without a
 * name is skipped, and an empty line ends the headers. Returns names in lower case.
 */
export function parseHeaders(text: string, origin: string): Map<string, string> {
  return text.trimStart().startsWith('{') ? headersOfJson(text, origin) : headersOfLines(text, origin);
}

/** Reads one `name: value`. */
export function parseHeader(line: string, origin: string): [name: string, value: string] {
  const match = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*(.*?)[ \t]*$/.exec(line);
  if (match === null) throw new UsageError(`${origin} is not of the form "name: value"`);
  return [(match[1] as string).toLowerCase(), match[2] as string];
}

function headersOfLines(text: string, origin: string): Map<string, string> {
  const headers = new Map<string, string>();
  const lines = text.split(/\r?\n/);
  for (const [index, line] of lines.entries()) {
    if (line === '') break;
    const isStartLine = index === 0 && /^(?:HTTP\/\S+ \d|[A-Z]+ \S+ HTTP\/)/.test(line);
    if (!isStartLine) headers.set(...parseHeader(line, `${origin}: line ${index + 1}`));
  }
  return headers;
}

function headersOfJson(text: string, origin: string): Map<string, string> {
  const headers = new Map<string, string>();
  for (const [name, value] of Object.entries(parsedJson(text, origin))) {
    // Some frameworks give every header a list.
    const first: unknown = Array.isArray(value) ? value[0] : value;
    if (typeof first !== 'string' && typeof first !== 'number') {
      throw new UsageError(`${origin}: the header ${name} is not text`);
    }
    headers.set(name.toLowerCase(), String(first));
  }
  return headers;
}

function parsedJson(text: string, origin: string): object {
  try {
    return JSON.parse(text) as object;
  } catch (error) {
    throw new UsageError(`${origin}: neither JSON nor lines "name: value"`, { cause: error });
  }
}

const help = `Usage: weir webhook verify [flags] < body

Verifies a delivery of the control plane's webhooks: whether its body and headers were signed with the secret, and when.

  --headers <file>           a file with the headers: lines "name: value" as written by curl -D, or a JSON object
  --header <"name: value">   one header; repeat the flag for several
  --body <file>              a file with the unchanged body; - for standard input (default)
  --secret-file <file>       a file with the signing secret (whsec_...)
  --secret-env <name>        the environment variable that holds it (default WEBHOOK_SECRET)
  --secret-from <url>        get the secret from a control plane, for example https://weir:19001
  --token-env <name>         the environment variable with the token for the control plane (default API_TOKEN)
  --tolerance <duration>     how much its time may differ from now (default 5m)
  --now <time>               verify as if it were this time: RFC 3339 or seconds since 1970
  -o, --output <form>        how to print the result: table (default), json or yaml

The secret cannot be an argument, because other users of the machine could read it. Exit status: 0 when the delivery is valid, 1 when it is not. 2 for a wrong command line, or a file or a secret that cannot be read.
`;

export const webhookCommand = commandOf(
  help,
  (flags) => {
    const [word, stray] = flags.positionals;
    if (word === undefined) throw new UsageError('webhook needs the word verify: weir webhook verify');
    if (word !== 'verify') throw new UsageError(`webhook can only verify, not "${word}"`);
    if (stray !== undefined) throw new UsageError(`webhook verify takes only flags, not "${stray}"`);
    return verify(flags);
  },
  { words: ['verify'] },
);

async function verify(flags: ParsedFlags): Promise<number> {
  const output = outputFormat(flags);
  const toleranceMs = tolerance(flags.text('tolerance') ?? '5m');
  const now = flags.text('now');
  const nowMs = now === undefined ? Date.now() : readTime('--now', now);
  const headers = givenHeaders(flags);
  const secrets = await findSecrets(
    {
      file: flags.text('secret-file'),
      variable: flags.text('secret-env'),
      from: flags.text('secret-from'),
      tokenVariable: flags.text('token-env'),
    },
    io().env,
  );
  const bodyPath = flags.text('body') ?? '-';
  const body = readArgumentFile(`--body ${bodyPath}`, bodyPath === '-' ? standardInputFile() : bodyPath);
  const result = verifyDelivery({ headers, body }, { secrets, toleranceMs, nowMs });
  io().stdout.write(output === 'text' ? describe(result) : dataText(`${JSON.stringify(result)}\n`, output));
  return result.valid ? 0 : 1;
}

function describe(result: VerifyResult): string {
  if (!result.valid) return `invalid: ${result.message}\n`;
  return `valid: ${result.id}, sent ${new Date(result.timestampSeconds * 1000).toISOString()}\n`;
}

function givenHeaders(flags: ParsedFlags): Map<string, string> {
  const path = flags.text('headers');
  const single = flags.list('header').map((line) => parseHeader(line, `--header ${JSON.stringify(line)}`));
  if (path === undefined && single.length === 0)
    throw new UsageError('webhook verify needs --headers or --header');
  if (path === '-') throw new UsageError('--headers is a file: standard input is for the body');
  const fromFile =
    path === undefined ? [] : parseHeaders(`${readArgumentFile(`--headers ${path}`, path)}`, path);
  return new Map([...fromFile, ...single]);
}

function tolerance(text: string): number {
  const ms = parseGoDuration(text);
  if (ms !== undefined && ms >= 0) return ms;
  throw new UsageError(`--tolerance is a duration such as 5m or 24h, not "${text}"`);
}

/** Where the secrets come from: never an argument, which others on the machine can read. */
interface SecretFlags {
  file: string | undefined;
  /** The name of an environment variable. Defaults to WEBHOOK_SECRET. */
  variable: string | undefined;
  /** The address of a control plane's secret lookup. */
  from: string | undefined;
  /** The name of the environment variable with the token for `from`. Defaults to API_TOKEN. */
  tokenVariable: string | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

const lookupTimeoutMs = 10_000;

/** Rejects with a UsageError that says which source is missing. */
async function findSecrets(flags: SecretFlags, env: Environment): Promise<string[]> {
  const { file, variable, from, tokenVariable } = flags;
  if ([file, variable, from].filter((flag) => flag !== undefined).length > 1) {
    throw new UsageError('only one of --secret-file, --secret-env and --secret-from can be given');
  }
  if (file !== undefined) return parsed(`${readArgumentFile(file, file)}`, file);
  if (from !== undefined) return parsed(await lookUp(from, tokenVariable ?? 'API_TOKEN', env), from);
  const name = variable ?? 'WEBHOOK_SECRET';
  const value = env[name];
  if (value === undefined || value === '') {
    throw new UsageError(
      `the environment variable ${name} is not set: give it, --secret-file or --secret-from`,
    );
  }
  return parsed(value, name);
}

function parsed(text: string, origin: string): string[] {
  try {
    return parseSigningSecrets(text);
  } catch (error) {
    if (!(error instanceof SecretError)) throw error;
    throw new UsageError(`${origin}: ${error.message}`, { cause: error });
  }
}

async function lookUp(base: string, tokenVariable: string, env: Environment): Promise<string> {
  const token = env[tokenVariable]?.trim() ?? '';
  if (!/^[!-~]+$/.test(token)) {
    throw new UsageError(`--secret-from needs a token in the environment variable ${tokenVariable}`);
  }
  const url = URL.parse(base.replace(/\/+$/, '') + secretPath);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') {
    throw new UsageError('--secret-from is a URL such as https://host:port, without credentials');
  }
  const headers = { authorization: `Bearer ${token}` };
  const read = (response: Response): Promise<unknown> => response.json();
  const answer = await fetchArgument(url, { headers, timeoutMs: lookupTimeoutMs }, read, hint);
  const key = typeof answer === 'object' && answer !== null && 'key' in answer ? answer.key : undefined;
  if (typeof key !== 'string') throw new UsageError(`${url.origin} answered without a "key"`);
  return key;
}

function hint(status: number): string {
  if (status === 401) return ': it does not know the token';
  if (status === 429) return ': it does not know the token, and too many wrong ones came from this address';
  if (status === 404) return ': its webhooks are off, or this is not the address of the secret lookup';
  return '';
}
