import { tlsErrorText } from '../../client-tls.ts';
import { StoreError } from '../../store-error.ts';
import { ReplyError, UnexpectedReply } from './resp.ts';

/** The first words of Redis errors after which the same command may succeed a moment later. Redis has not executed the command. */
const transientReplies = new Set([
  'BUSY',
  'CLUSTERDOWN',
  'LOADING',
  'MASTERDOWN',
  'MISCONF',
  'NOREPLICAS',
  'OOM',
  'READONLY',
  'TRYAGAIN',
]);

/** Turns every error of a connection and of Redis into a StoreError. */
export class RedisErrors {
  readonly #timeoutMs: number;
  readonly #password: string | undefined;
  readonly #onReadOnly: (() => void) | undefined;
  readonly #onRejection: ((code: string, text: string) => void) | undefined;

  /**
   * `onReadOnly` is called for every READONLY that Redis answers, even for one key of a script. `onRejection` is called for every error
   * that it answers, with its first word and the whole text, which contains no credentials.
   */
  constructor(options: {
    timeoutMs: number;
    password: string | undefined;
    onReadOnly?: (() => void) | undefined;
    onRejection?: ((code: string, text: string) => void) | undefined;
  }) {
    this.#timeoutMs = options.timeoutMs;
    this.#password = options.password || undefined;
    this.#onReadOnly = options.onReadOnly;
    this.#onRejection = options.onRejection;
  }

  /** Returns the error for a missing connection. `reason`: why the last attempt to connect failed. */
  notConnected(reason?: string): StoreError {
    return notConnected('Redis', reason);
  }

  /** Returns the error of a call without a place. `waitedMs` is undefined if the store is being closed. */
  noPlace(waitedMs: number | undefined): StoreError {
    if (waitedMs === undefined) return this.closed();
    const within = waitedMs === 0 ? '' : ` within ${waitedMs} ms`;
    const text = `too many calls to Redis were open${within} (REDIS_POOL_SIZE)`;
    return new StoreError(text, { transient: true, notCounted: true, noAnswer: true });
  }

  closed(): StoreError {
    return new StoreError('Redis store is closed', { transient: false, notCounted: true });
  }

  /** Returns the error for a replica that sentinels name as the master. */
  isReplica(): StoreError {
    return new StoreError('the server that the sentinels name is a replica', { transient: true });
  }

  timedOut(afterMs = this.#timeoutMs): StoreError {
    return new StoreError(`Redis did not answer within ${afterMs} ms`, { transient: true, noAnswer: true });
  }

  /** Returns the error for a command that was rejected or not answered, and for one key's error in a script's answer. */
  fromCommand(error: unknown): StoreError {
    if (error instanceof Error && error instanceof ReplyError) {
      const code = replyCode(error);
      if (code === 'READONLY') this.#onReadOnly?.();
      this.#onRejection?.(code, this.#scrub(replyText(error)));
    } else if (error instanceof UnexpectedReply) {
      this.#onRejection?.(error.name, error.message);
    }
    return this.fromOwnCommand(error);
  }

  /**
   * Returns the same error for commands that count nothing, such as PING and login commands, without calling `onReadOnly` or
   * `onRejection`.
   */
  fromOwnCommand(error: unknown): StoreError {
    if (!(error instanceof Error)) return this.unexpectedAnswer();
    if (error instanceof UnexpectedReply) return new StoreError(error.message, { transient: false });
    if (error instanceof ReplyError) {
      const transient = transientReplies.has(replyCode(error));
      // Other replies may be from a proxy, which does not know what the server did.
      return new StoreError(`Redis answered: ${this.#scrub(replyText(error))}`, {
        transient,
        notCounted: transient,
      });
    }
    if (error instanceof StoreError && error.notCounted) return error;
    if (isTimeout(error)) return this.timedOut(error.afterMs);
    return new StoreError('connection to Redis was lost before it answered', { transient: true });
  }

  /** Returns the error for an attempt to connect. */
  fromConnecting(error: unknown): StoreError {
    if (error instanceof StoreError) return error;
    if (!(error instanceof Error) || error instanceof ReplyError || isTimeout(error))
      return this.fromOwnCommand(error);
    const text = systemErrorText(error) ?? tlsErrorText(error) ?? this.#scrub(error.message);
    return new StoreError(text, { transient: true });
  }

  unexpectedAnswer(): StoreError {
    return unexpectedAnswer();
  }

  /**
   * Returns the text without credentials. Servers that do not know a command repeat its arguments, shortened and escaped. These may
   * be those of AUTH.
   */
  #scrub(text: string): string {
    const shown = text.replace(/,? with args beginning with.*/s, '');
    if (this.#password === undefined || !shown.includes(this.#password)) return shown;
    // Asterisks in place of a short password, or of a word, would reveal it to readers who know the text around them.
    const [code = ''] = shown.split(' ', 1);
    const start = code.includes(this.#password) ? '' : `${code} `;
    return `${start}(the rest is hidden because it contains the password)`;
  }
}

/** Returns the error for a missing connection to a server or a node of a cluster, by its name. */
export function notConnected(server: string, reason: string | undefined): StoreError {
  const text = `${server} is not connected${reason === undefined ? '' : `: ${reason}`}`;
  return new StoreError(text, { transient: true, notCounted: true });
}

function replyCode(error: Error): string {
  const [code = ''] = replyText(error).split(' ', 1);
  return code;
}

/** Returns the text of an error. In scripts, Redis 6 begins it with a minus, and Redis 6.2 with the script's line before that. */
function replyText({ message }: Error): string {
  return message.replace(/^(?:@user_script: \d+: )?-/, '');
}

/**
 * Returns a system error's text, composed from its parts: its own text also names the path of a unix socket as configured, which may
 * by mistake be a URL with a password.
 */
function systemErrorText(error: Error): string | undefined {
  const first = error instanceof AggregateError ? (error.errors[0] as unknown) : error;
  const { syscall, code, address, port, hostname } = first as {
    [name in 'syscall' | 'code' | 'address' | 'port' | 'hostname']?: unknown;
  };
  if (typeof syscall !== 'string' || typeof code !== 'string') return undefined;
  const place = port === undefined ? hostname : `${address}:${port}`;
  return [syscall, code, place].filter((part) => part !== undefined).join(' ');
}

/** Whether Redis does not know the script yet. It has not executed the script. */
export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}

/** Whether the keys of a slot are temporarily on two nodes. The node that reports this has not executed the command. */
export function isTryAgain(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('TRYAGAIN');
}

/** The server received the command and did not answer in time. The connection is then unusable. */
class CommandTimedOut extends Error {
  readonly afterMs: number;

  constructor(afterMs: number) {
    super('Command timed out');
    this.afterMs = afterMs;
  }
}

export function isTimeout(error: unknown): error is CommandTimedOut {
  return error instanceof CommandTimedOut;
}

export function commandTimedOut(afterMs: number): Error {
  return new CommandTimedOut(afterMs);
}

/** Whether the connection was ended, by either side, and no error describes the reason. */
export function isClosed(error: unknown): boolean {
  return error instanceof Error && error.message === closedText;
}

export function connectionClosed(): Error {
  return new Error(closedText);
}

const closedText = 'Connection is closed.';

/** Returns the error for a server that is not Redis, or runs in another mode. */
export function unexpectedAnswer(): StoreError {
  return new StoreError('Redis gave an answer of an unexpected form', { transient: false });
}

/** REDIS_SCRIPTS: `never` runs no scripts; `auto` runs them until the server rejects one. */
export type RedisScripts = 'auto' | 'never';

/** Whether the server runs no scripts, or none for this user, or none for keys of several slots. It has not executed the script. */
export function areScriptsRejected(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  return /^(?:NOPERM|CROSSSLOT|ERR unknown command)\b/i.test(error.message) && !isAboutKey(error.message);
}

/** Whether the user has no access to a key of the call. Redis has not executed the call. */
export function isKeyRejected(error: unknown): error is Error {
  return error instanceof Error && isAboutKey(error.message);
}

/**
 * Whether the error is about a key. A user who may not access a key may not do so by plain commands either. Redis 6 uses another text
 * than later versions.
 */
function isAboutKey(text: string): boolean {
  return /^NOPERM\b.*\baccess (?:a key|one of the keys)\b/i.test(text);
}

/** Returns what an operator can do about an error of Redis. `code` is its first word. Returns undefined if the error's text is sufficient. */
export function rejectionHint(
  { code, text }: { code: string; text: string },
  given: { prefix: 'REDIS_' | 'REDIS_PERSECOND_'; isCluster: boolean },
): string | undefined {
  const { prefix, isCluster } = given;
  if ((code === 'MOVED' || code === 'ASK') && !isCluster)
    return `it is a node of a Redis Cluster: set ${prefix}TYPE=cluster`;
  if (code === 'NOAUTH') return `it requires a password: set ${prefix}AUTH`;
  return hints.get(isDeniedInScript(text) ? 'NOPERM' : code);
}

/** Whether the user's ACL denies a command or a key within a script, where the error has another first word. Redis and Valkey differ. */
function isDeniedInScript(text: string): boolean {
  return /\bACL failure in script\b|\buser executing the script can't\b/.test(text);
}

const hints: ReadonlyMap<string, string> = new Map([
  [
    'OOM',
    'it has reached maxmemory: raise it, or set maxmemory-policy volatile-lru (for budgets, use a separate Redis with noeviction)',
  ],
  ['NOPERM', "the user's ACL denies it: docs/store.md lists the rights of a limiter"],
  ['READONLY', 'it is a replica: REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR=true opens a new connection'],
  ['MISCONF', 'it cannot save to its disk'],
]);

/** The codes of certificates whose signer is unknown. */
const unknownSigner = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

/**
 * Returns a suffix for the text of a failed attempt to connect: the TLS setting that may be the cause, or nothing. A server that was
 * reached before, with the same settings, is not suspected of speaking TLS.
 */
export function connectingHint(error: unknown, given: { tls: boolean; wasConnected: boolean }): string {
  if (!(error instanceof Error)) return '';
  const { code } = error as { code?: unknown };
  if (given.tls) {
    if (code === 'ETIMEDOUT') return ' (no connection, or no TLS handshake: does the port support TLS?)';
    return unknownSigner.has(String(code))
      ? ' (set REDIS_TLS_CACERT to authorities that the limiter should trust)'
      : '';
  }
  const wasHungUp = code === 'ECONNRESET' || code === 'EPIPE' || isClosed(error);
  return wasHungUp && !given.wasConnected ? ' (if it uses TLS, set REDIS_TLS=true)' : '';
}
