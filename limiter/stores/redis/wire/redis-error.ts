import { tlsErrorText } from '../../client-tls.ts';
import { StoreError } from '../../store-error.ts';
import { ReplyError, UnexpectedReply } from './resp.ts';

/** First words of Redis's replies after which the same command may succeed a moment later. Redis ran nothing then. */
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

/** Every error of a connection and of Redis becomes one of a store's here. */
export class RedisErrors {
  readonly #timeoutMs: number;
  readonly #password: string;
  readonly #onReadOnly: (() => void) | undefined;
  readonly #onRefusal: ((code: string, text: string) => void) | undefined;

  /**
   * `onReadOnly` is notified of every READONLY that Redis answers, be it for one key of a script; `onRefusal` of every error
   * that it answers, by its first word, with the whole text, which holds no credentials.
   */
  constructor(options: {
    timeoutMs: number;
    password: string | undefined;
    onReadOnly?: (() => void) | undefined;
    onRefusal?: ((code: string, text: string) => void) | undefined;
  }) {
    this.#timeoutMs = options.timeoutMs;
    this.#password = options.password ?? '';
    this.#onReadOnly = options.onReadOnly;
    this.#onRefusal = options.onRefusal;
  }

  /** `reason`: why the last attempt to connect failed. */
  notConnected(reason?: string): StoreError {
    return notConnected('Redis', reason);
  }

  /** `waitedMs` undefined: the store is being closed. */
  noPlace(waitedMs: number | undefined): StoreError {
    if (waitedMs === undefined) return this.closed();
    const within = waitedMs === 0 ? '' : ` within ${waitedMs} ms`;
    const text = `no place for a call to Redis was free${within} (REDIS_POOL_SIZE)`;
    return new StoreError(text, { transient: true, notCounted: true, unheard: true });
  }

  closed(): StoreError {
    return new StoreError('Redis store is closed', { transient: false, notCounted: true });
  }

  /** For a server that sentinels name as the master. */
  isReplica(): StoreError {
    return new StoreError('the server that the sentinels name is a replica', { transient: true });
  }

  timedOut(afterMs = this.#timeoutMs): StoreError {
    return new StoreError(`Redis did not answer within ${afterMs} ms`, { transient: true, unheard: true });
  }

  /** For a command that was refused or not answered, and for one key's error in a script's answer. */
  fromCommand(error: unknown): StoreError {
    if (error instanceof Error && error instanceof ReplyError) {
      const code = replyCode(error);
      if (code === 'READONLY') this.#onReadOnly?.();
      this.#onRefusal?.(code, this.#scrub(replyText(error)));
    } else if (error instanceof UnexpectedReply) {
      this.#onRefusal?.(error.name, error.message);
    }
    return this.fromOwnCommand(error);
  }

  /** The same for commands that count nothing, as PING and those of logging in: nobody is notified. */
  fromOwnCommand(error: unknown): StoreError {
    if (!(error instanceof Error)) return this.unexpectedAnswer();
    if (error instanceof UnexpectedReply) return new StoreError(error.message, { transient: false });
    if (error instanceof ReplyError) {
      const transient = transientReplies.has(replyCode(error));
      // Of other replies a proxy may be the author, which does not know what the server did.
      return new StoreError(`Redis answered: ${this.#scrub(replyText(error))}`, {
        transient,
        notCounted: transient,
      });
    }
    if (error instanceof StoreError && error.notCounted) return error;
    if (isTimeout(error)) return this.timedOut();
    return new StoreError('connection to Redis was lost before it answered', { transient: true });
  }

  /** For an attempt to connect. */
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

  /** Servers that do not know a command repeat its arguments, shortened and escaped, which may be those of AUTH. */
  #scrub(text: string): string {
    const shown = text.replace(/,? with args beginning with.*/s, '');
    if (this.#password === '' || !shown.includes(this.#password)) return shown;
    // Stars in place of a short password, or of a word, would spell it to anyone who knows the text around them.
    const [code = ''] = shown.split(' ', 1);
    const start = code.includes(this.#password) ? '' : `${code} `;
    return `${start}(the rest is not shown: it repeats the password)`;
  }
}

/** Of a server, or one node of a cluster, by its name. */
export function notConnected(server: string, reason: string | undefined): StoreError {
  const text = `${server} is not connected${reason === undefined ? '' : `: ${reason}`}`;
  return new StoreError(text, { transient: true, notCounted: true });
}

function replyCode(error: Error): string {
  const [code = ''] = replyText(error).split(' ', 1);
  return code;
}

/** Redis 6 begins what it says to a command of a script with a minus, Redis 6.2 with the script's line before that. */
function replyText({ message }: Error): string {
  return message.replace(/^(?:@user_script: \d+: )?-/, '');
}

/**
 * What the system says, put together from its parts: its own text also names the path of a unix socket as it was
 * given, which may be a URL with a password by mistake.
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

/** Whether Redis does not know the script yet. It ran nothing then. */
export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}

/** Whether keys of one slot are, for now, on two nodes. The node that says so ran nothing. */
export function isTryAgain(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('TRYAGAIN');
}

/** Whether the server took the command and said nothing in time: the connection is no good any more. */
export function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === timedOutText;
}

export function commandTimedOut(): Error {
  return new Error(timedOutText);
}

const timedOutText = 'Command timed out';

/** Whether the connection ended, by whomever, and no error says why. */
export function isClosed(error: unknown): boolean {
  return error instanceof Error && error.message === closedText;
}

export function connectionClosed(): Error {
  return new Error(closedText);
}

const closedText = 'Connection is closed.';

/** It is no Redis, or one in another mode. */
export function unexpectedAnswer(): StoreError {
  return new StoreError('Redis gave an answer of an unexpected form', { transient: false });
}

/** REDIS_SCRIPTS: `never` runs none; `auto` runs them until the server refuses one. */
export type RedisScripts = 'auto' | 'never';

/** Whether the server runs no scripts, or not for this user, or not for keys of several slots. It ran nothing then. */
export function areScriptsRefused(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  return /^(?:NOPERM|CROSSSLOT|ERR unknown command)\b/i.test(error.message) && !isAboutKey(error.message);
}

/** Whether the user may not touch a key of the call. It ran nothing then. */
export function isKeyRefused(error: unknown): error is Error {
  return error instanceof Error && isAboutKey(error.message);
}

/** A user who may not touch a key may not do so by plain commands either. Redis 6 says it in other words than later ones. */
function isAboutKey(text: string): boolean {
  return /^NOPERM\b.*\baccess (?:a key|one of the keys)\b/i.test(text);
}

/** What an operator can do about an error that Redis answered, by its first word; undefined where its text says all. */
export function refusalHint(
  code: string,
  given: { prefix: 'REDIS_' | 'REDIS_PERSECOND_'; isCluster: boolean },
): string | undefined {
  const { prefix, isCluster } = given;
  if ((code === 'MOVED' || code === 'ASK') && !isCluster)
    return `it is a node of a Redis Cluster: set ${prefix}TYPE=cluster`;
  if (code === 'NOAUTH') return `it asks for a password: set ${prefix}AUTH`;
  return hints.get(code);
}

const hints: ReadonlyMap<string, string> = new Map([
  [
    'OOM',
    'it is at its maxmemory: raise that, or set maxmemory-policy volatile-lru (budgets: a Redis of their own with noeviction)',
  ],
  ['NOPERM', "the user's ACL forbids it: see docs/store.md for what a limiter needs"],
  ['READONLY', 'it is a replica: REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR=true connects anew'],
  ['MISCONF', 'it cannot save to its disk'],
]);

/** Codes of a certificate whose signer is not known. */
const unknownSigner = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

/**
 * Goes behind the text of an attempt to connect that failed: which setting of TLS may be why, or nothing. A server that
 * has been there before, in the same settings, is not suspected of speaking TLS.
 */
export function connectingHint(error: unknown, given: { tls: boolean; wasConnected: boolean }): string {
  if (!(error instanceof Error)) return '';
  const { code } = error as { code?: unknown };
  if (given.tls) {
    if (code === 'ETIMEDOUT') return ' (no connection, or no answer to TLS: is it a port that speaks TLS?)';
    return unknownSigner.has(String(code)) ? ' (REDIS_TLS_CACERT names authorities to trust)' : '';
  }
  const wasHungUp = code === 'ECONNRESET' || code === 'EPIPE' || isClosed(error);
  return wasHungUp && !given.wasConnected ? ' (if it speaks TLS, set REDIS_TLS=true)' : '';
}
