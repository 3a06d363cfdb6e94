import { ReplyError } from 'ioredis';
import { StoreError } from '../store-error.ts';

/** First words of Redis's replies after which the same command may succeed a moment later. */
const transientReplies = new Set([
  'BUSY',
  'CLUSTERDOWN',
  'LOADING',
  'MASTERDOWN',
  'NOREPLICAS',
  'OOM',
  'READONLY',
  'TRYAGAIN',
]);

/**
 * Every error of the client library and of Redis becomes one of ours here. None is kept as the cause: the library hangs
 * a command's arguments on its errors, AUTH's among them.
 */
export class RedisErrors {
  readonly #timeoutMs: number;
  readonly #secrets: string[];

  constructor(options: { timeoutMs: number; username: string | undefined; password: string | undefined }) {
    this.#timeoutMs = options.timeoutMs;
    this.#secrets = [options.password, options.username].filter(
      (text) => text !== undefined && text !== '',
    ) as string[];
  }

  notConnected(): StoreError {
    return new StoreError('Redis is not connected', { transient: true });
  }

  closed(): StoreError {
    return new StoreError('Redis store is closed', { transient: false });
  }

  timedOut(): StoreError {
    return new StoreError(`Redis did not answer within ${this.#timeoutMs} ms`, { transient: true });
  }

  /** For a command that was refused or not answered, and for one key's error in a script's answer. */
  fromCommand(error: unknown): StoreError {
    if (!(error instanceof Error)) return this.unexpectedAnswer();
    if (error instanceof ReplyError) {
      const [code = ''] = error.message.split(' ', 1);
      return new StoreError(`Redis answered: ${this.#scrub(error.message)}`, {
        transient: transientReplies.has(code),
      });
    }
    // The library's own errors have neither class nor code, only these texts.
    if (isTimeout(error)) return this.timedOut();
    if (error.message.startsWith("Stream isn't writeable")) return this.notConnected();
    return new StoreError('connection to Redis was lost before it answered', { transient: true });
  }

  /** For an attempt to connect. */
  fromConnecting(error: unknown): StoreError {
    if (!(error instanceof Error) || error instanceof ReplyError || isTimeout(error))
      return this.fromCommand(error);
    return new StoreError(this.#scrub(error.message), { transient: true });
  }

  unexpectedAnswer(): StoreError {
    return new StoreError('Redis gave an answer of an unexpected form', { transient: false });
  }

  /** Servers that do not know a command repeat its arguments, which may be those of AUTH. */
  #scrub(text: string): string {
    let shown = text;
    for (const secret of this.#secrets) shown = shown.replaceAll(secret, '*****');
    return shown;
  }
}

/** Whether Redis does not know the script yet. It ran nothing then. */
export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}

/** Whether the server took the command and said nothing in time: the connection is no good any more. */
export function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === 'Command timed out';
}
