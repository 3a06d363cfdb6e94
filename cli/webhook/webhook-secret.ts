/** Where `weir webhook verify` has its secrets from. Never an argument: others on the machine can read those. */
import { readFileSync } from 'node:fs';
import { secretPath } from '../../control-plane/webhooks/secret-api.ts';
import { parseSigningSecrets, SecretError } from '../../control-plane/webhooks/signing-keys.ts';
import { systemErrorReason } from '../../process/log/error-text.ts';
import { UsageError } from '../shared/flags.ts';

export interface SecretFlags {
  file: string | undefined;
  /** Name of an environment variable. Defaults to WEBHOOK_SECRET. */
  variable: string | undefined;
  /** Address of a control plane's secret lookup. */
  from: string | undefined;
  /** Name of the environment variable with the token for `from`. Defaults to API_TOKEN. */
  tokenVariable: string | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

const lookupTimeoutMs = 10_000;

/** Rejects with a UsageError that says what is missing. */
export async function findSecrets(flags: SecretFlags, env: Environment): Promise<string[]> {
  const { file, variable, from, tokenVariable } = flags;
  if ([file, variable, from].filter((flag) => flag !== undefined).length > 1) {
    throw new UsageError('only one of --secret-file, --secret-env and --secret-from can be given');
  }
  if (file !== undefined) return parsed(readSecretFile(file), file);
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

function readSecretFile(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(`${path}: ${systemErrorReason(error)}`, { cause: error });
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
  const answer = await fetched(url, token);
  const key = typeof answer === 'object' && answer !== null && 'key' in answer ? answer.key : undefined;
  if (typeof key !== 'string') throw new UsageError(`${url.origin} answered without a "key"`);
  return key;
}

async function fetched(url: URL, token: string): Promise<unknown> {
  try {
    const response = await fetch(url, {
      headers: { authorization: `Bearer ${token}` },
      redirect: 'error',
      signal: AbortSignal.timeout(lookupTimeoutMs),
    });
    if (!response.ok)
      throw new UsageError(`${url.origin} answered ${response.status}${hint(response.status)}`);
    return await response.json();
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    const first: unknown = cause instanceof AggregateError ? cause.errors[0] : cause;
    throw new UsageError(`${url.origin}: ${systemErrorReason(first)}`, { cause: error });
  }
}

function hint(status: number): string {
  if (status === 401) return ': it does not know the token';
  if (status === 429) return ': it does not know the token, and too many wrong ones came from here';
  if (status === 404) return ': its webhooks are off, or this is not the address of the secret lookup';
  return '';
}
