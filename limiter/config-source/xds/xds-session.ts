export interface BackoffOptions {
  initialMs: number;
  maxMs: number;
  /** Each wait is so many times the one before. With 1 or less every wait is the initial one. */
  factor: number;
  /** A random point between the initial wait and the one due, instead of the one due. */
  jitter: boolean;
  /** The first wait is the initial one with jitter, too, as in envoyproxy/ratelimit. Otherwise it varies as the second does. */
  exactFirst: boolean;
  /** From 0 to below 1. */
  random: () => number;
}

/**
 * The wait before what failed is tried again. Not `retryDelayMs`: factor and jitter are settings, as in envoyproxy/ratelimit. `attempt` counts from 0. Never below initial nor above max, in whole milliseconds.
 */
export function backoffMs(options: BackoffOptions, attempt: number): number {
  const { initialMs, maxMs, factor, jitter, exactFirst, random } = options;
  const steps = jitter && !exactFirst ? Math.max(1, attempt) : attempt;
  const dueMs = Math.min(maxMs, initialMs * factor ** steps);
  const waitMs = jitter ? initialMs + random() * (dueMs - initialMs) : dueMs;
  return Math.round(Math.min(maxMs, Math.max(initialMs, waitMs)));
}

// What an xDS client does next (aggregated, in either form). Pure: the owner carries out the actions and reports
// what happened.
//
//              start               opened             settled, or received
//       idle ────────> connecting ────────> open:new ───────────────────────> open:settled
//                       ^      │               │                                   │
//                   due │      │ ended         │ ended                             │ ended
//                       │      v               │                                   │
//                       waiting <──────────────┴───────────────────────────────────┘
//
//       open:settled ──ended, renewable──> connecting
//       open:new ──declined──> connecting
//       any ──close──> closed
//
// Beside it, one response at a time is loaded, whatever becomes of the stream that it came over:
//
//                 received              received: waits, in the place of one that waits already
//       resting ───────────> loading ──┐
//          ^                 │    ^    │
//          └─────────────────┘    └────┘ loaded, another one waits
//             loaded: ACK or NACK, if its stream is still the open one
//
// A stream that settled, and that the server ended for a token that there is a newer one for by now (`renewable`), is
// opened again at once, and nobody is notified.
//
// An outage begins when a connection or a stream ends, and is over when a stream has settled: it brought a response or
// stood for a while. It is reported once. A server that does not know the form of xDS it is asked for declines: that is no outage,
// and it is asked in the other form at once. An event that does not fit the state changes nothing.

/** What has to be known of a response; the rest is the owner's. */
export interface VersionedResponse {
  version: string;
  nonce: string;
}

export type LoadResult =
  | { accepted: true }
  | {
      accepted: false;
      message: string;
      /** What is refused, where the rest is in force. Undefined: everything. */
      refused?: readonly RefusedRules[] | undefined;
    };

/** A resource by its name, and why it is not in force. */
export interface RefusedRules {
  name: string;
  message: string;
}

/** `version` is always the one last accepted, over all streams; empty before the first. */
export interface SessionRequest {
  version: string;
  /** Of the response that is accepted or refused; empty in the first request of a stream. */
  nonce: string;
  /** Why the response is refused. */
  error: string | undefined;
  /** Of a response that is refused in part. */
  refused?: readonly RefusedRules[] | undefined;
}

export type SessionAction<R> =
  | { do: 'connect' }
  | { do: 'send'; request: SessionRequest }
  | { do: 'load'; response: R }
  /** Report `due` then. */
  | { do: 'wait'; delayMs: number }
  /** Report `settled` then, if the stream is still open. */
  | { do: 'settle'; delayMs: number }
  /** `isNews` at the first failure of an outage. The wait that follows is `retryMs`. */
  | { do: 'report-lost'; reason: string; isNews: boolean; retryMs: number }
  | { do: 'report-connected'; afterOutage: boolean }
  /** The stream stands, and no response ever came. Once. */
  | { do: 'report-no-rules' };

export type SessionState = 'idle' | 'connecting' | 'open:new' | 'open:settled' | 'waiting' | 'closed';

export interface SessionOptions {
  /**
   * CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: the first wait after an attempt to connect that failed. Further ones
   * grow as `backoff` says, and start anew with a connection that stands. Where it is above their maximum it stays.
   */
  connectRetryMs: number;
  /** After a stream that broke. Starts anew once a stream settled. */
  backoff: BackoffOptions;
}

/** Chosen: longer than a server takes to refuse a stream, shorter than a person's patience. */
export const settleMs = 5_000;

export class XdsSession<R extends VersionedResponse> {
  readonly #options: SessionOptions;
  #state: SessionState = 'idle';
  /** Counts streams, so that an answer never goes to another stream than its response came over. */
  #stream = 0;
  /** Connections refused, and streams broken, one after another. */
  #refusals = 0;
  #breaks = 0;
  #acceptedVersion = '';
  #loading: { response: R; stream: number } | undefined;
  #next: R | undefined;
  #isOutage = false;
  /** The next stream goes on where one ended for its token. */
  #isRenewal = false;
  #hasResponse = false;

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  get state(): SessionState {
    return this.#state;
  }

  get isOpen(): boolean {
    return this.#state === 'open:new' || this.#state === 'open:settled';
  }

  /** A response that comes now waits for another one. */
  get isLoading(): boolean {
    return this.#loading !== undefined;
  }

  start(): SessionAction<R>[] {
    if (this.#state !== 'idle') return [];
    this.#state = 'connecting';
    return [{ do: 'connect' }];
  }

  /** The connection stands, and requests can be sent. */
  opened(): SessionAction<R>[] {
    if (this.#state !== 'connecting') return [];
    this.#state = 'open:new';
    this.#refusals = 0;
    this.#stream++;
    return [this.#send('', undefined), { do: 'settle', delayMs: settleMs }];
  }

  /** The stream has stood for `settleMs`. */
  settled(): SessionAction<R>[] {
    if (this.#state !== 'open:new') return [];
    return [...this.#settle(), ...(this.#hasResponse ? [] : [{ do: 'report-no-rules' } as const])];
  }

  received(response: R): SessionAction<R>[] {
    if (!this.isOpen) return [];
    this.#hasResponse = true;
    const reported = this.#state === 'open:new' ? this.#settle() : [];
    if (this.#loading !== undefined) {
      this.#next = response;
      return reported;
    }
    return [...reported, this.#load(response)];
  }

  /** The load that was asked for is over. */
  loaded(loadResult: LoadResult): SessionAction<R>[] {
    const loading = this.#loading;
    if (loading === undefined || this.#state === 'closed') return [];
    this.#loading = undefined;
    const { response, stream } = loading;
    if (loadResult.accepted) this.#acceptedVersion = response.version;
    const actions: SessionAction<R>[] = [];
    if (this.isOpen && stream === this.#stream) {
      actions.push(this.#answer(response.nonce, loadResult));
    }
    if (this.#next !== undefined) actions.push(this.#load(this.#next));
    this.#next = undefined;
    return actions;
  }

  /** An attempt to connect failed, or the stream is over, however. `renewable`: for its token, and there is another. */
  ended(reason: string, renewable = false): SessionAction<R>[] {
    if (this.#state !== 'connecting' && !this.isOpen) return [];
    if (renewable && this.#state === 'open:settled') {
      this.#state = 'connecting';
      this.#next = undefined;
      this.#isRenewal = true;
      return [{ do: 'connect' }];
    }
    this.#isRenewal = false;
    const delayMs = this.#state === 'connecting' ? this.#refusedMs() : this.#brokenMs();
    this.#state = 'waiting';
    this.#next = undefined;
    const isNews = !this.#isOutage;
    this.#isOutage = true;
    return [
      { do: 'report-lost', reason, isNews, retryMs: delayMs },
      { do: 'wait', delayMs },
    ];
  }

  /** The server does not know what it was asked, and can be asked in another way. Nothing where it knew. */
  declined(): SessionAction<R>[] {
    if (this.#state !== 'open:new') return [];
    this.#state = 'connecting';
    return [{ do: 'connect' }];
  }

  /** The wait is over. */
  due(): SessionAction<R>[] {
    if (this.#state !== 'waiting') return [];
    this.#state = 'connecting';
    return [{ do: 'connect' }];
  }

  close(): void {
    this.#state = 'closed';
  }

  #refusedMs(): number {
    const { connectRetryMs: initialMs, backoff } = this.#options;
    const maxMs = Math.max(initialMs, backoff.maxMs);
    return backoffMs({ ...backoff, initialMs, maxMs }, this.#refusals++);
  }

  #brokenMs(): number {
    return backoffMs(this.#options.backoff, this.#breaks++);
  }

  #settle(): SessionAction<R>[] {
    this.#state = 'open:settled';
    this.#breaks = 0;
    const afterOutage = this.#isOutage;
    this.#isOutage = false;
    if (this.#isRenewal) {
      this.#isRenewal = false;
      return [];
    }
    return [{ do: 'report-connected', afterOutage }];
  }

  #load(response: R): SessionAction<R> {
    this.#loading = { response, stream: this.#stream };
    return { do: 'load', response };
  }

  #send(nonce: string, error: string | undefined): SessionAction<R> {
    return { do: 'send', request: { version: this.#acceptedVersion, nonce, error } };
  }

  #answer(nonce: string, loadResult: LoadResult): SessionAction<R> {
    if (loadResult.accepted) return this.#send(nonce, undefined);
    const { message: error, refused } = loadResult;
    if (refused === undefined) return this.#send(nonce, error);
    return { do: 'send', request: { version: this.#acceptedVersion, nonce, error, refused } };
  }
}
