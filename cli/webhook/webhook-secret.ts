/** Reads the secrets of `weir webhook verify`, never from an argument, which others on the machine can read. */
import { parseSigningSecrets, SecretError, secretPath } from '../../control-plane/webhooks/signing-keys.ts';
import { fetchArgument, readArgumentFile, UsageError } from '../shared/flags.ts';

export interface SecretFlags {
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
export async function findSecrets(flags: SecretFlags, env: Environment): Promise<string[]> {
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
