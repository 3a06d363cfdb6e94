export interface BackoffOptions {
  initialMs: number;
  maxMs: number;
  /** Each wait is the previous wait times this factor. With 1 or less, every wait is the initial one. */
  factor: number;
  /** With jitter, a wait is a random time between the initial wait and the computed one. */
  jitter: boolean;
  /** Whether jitter does not affect the first wait, as in envoyproxy/ratelimit. Otherwise, the first wait varies as the second does. */
  exactFirst: boolean;
  /** A random number from 0 to below 1. */
  random: () => number;
}

/**
 * Returns the wait before the next attempt, in whole milliseconds, at least `initialMs` and at most `maxMs`. `attempt` counts from 0.
 * `retryDelayMs` is not used here, because factor and jitter are settings, as in envoyproxy/ratelimit.
 */
export function backoffMs(options: BackoffOptions, attempt: number): number {
  const { initialMs, maxMs, factor, jitter, exactFirst, random } = options;
  const steps = jitter && !exactFirst ? Math.max(1, attempt) : attempt;
  const dueMs = Math.min(maxMs, initialMs * factor ** steps);
  const waitMs = jitter ? initialMs + random() * (dueMs - initialMs) : dueMs;
  return Math.round(Math.min(maxMs, Math.max(initialMs, waitMs)));
}

// Decides what an xDS client does next, with either form of aggregated discovery. Pure: the owner carries out the actions
// and reports what happened.
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
// Independently of the stream, the client loads one response at a time:
//
//                 received              received: waits, and replaces a response that waits already
//       resting ───────────> loading ──┐
//          ^                 │    ^    │
//          └─────────────────┘    └────┘ loaded, another one waits
//             loaded: ACK or NACK, if its stream is still the open one
//
// If the server ends a settled stream because of its token, and there is a newer token by now (`renewable`), the client opens a
// new stream at once and reports nothing.
//
// An outage begins when a connection or a stream ends. It ends when a stream has settled: a response arrived, or the stream stayed
// open for a while. An outage is reported once. A server that does not support the requested form of xDS declines. This is not an
// outage, and the client requests the other form at once. An event that does not fit the state changes nothing.

/** The parts of a response that the session reads. The owner may add others. */
export interface VersionedResponse {
  version: string;
  nonce: string;
}

export type LoadResult =
  | { accepted: true }
  | {
      accepted: false;
      message: string;
      /** The rejected resources, if the others are in force; undefined if the whole response is rejected. */
      rejected?: readonly RejectedRules[] | undefined;
    };

/** The name of a rejected resource, and the reason for its rejection. */
export interface RejectedRules {
  name: string;
  message: string;
}

/** A request of the stream. `version` is the last accepted version, over all streams; empty before the first. */
export interface SessionRequest {
  version: string;
  /** The nonce of the response that this request acknowledges or rejects; empty in the first request of a stream. */
  nonce: string;
  /** The reason why the response is rejected; undefined for an ACK. */
  error: string | undefined;
  /** The rejected resources of a response that is rejected in part. */
  rejected?: readonly RejectedRules[] | undefined;
}

export type SessionAction<R> =
  | { do: 'connect' }
  | { do: 'send'; request: SessionRequest }
  | { do: 'load'; response: R }
  /** Call `due` after this time. */
  | { do: 'wait'; delayMs: number }
  /** Call `settled` after this time, if the stream is still open. */
  | { do: 'settle'; delayMs: number }
  /** `isNews` is true for the first failure of an outage. The next attempt follows after `retryMs`. */
  | { do: 'report-lost'; reason: string; isNews: boolean; retryMs: number }
  | { do: 'report-connected'; afterOutage: boolean }
  /** The stream has settled, and no response has arrived on any stream. Reported once. */
  | { do: 'report-no-rules' };

export type SessionState = 'idle' | 'connecting' | 'open:new' | 'open:settled' | 'waiting' | 'closed';

export interface SessionOptions {
  /**
   * CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: the first wait after a failed attempt to connect. Further waits grow by `backoff`
   * and start again from this one after a connection. If it is above the maximum of `backoff`, every wait is this one.
   */
  connectRetryMs: number;
  /** Waits after a stream has ended. They start again from the initial wait once a stream has settled. */
  backoff: BackoffOptions;
}

/** Chosen: a server that rejects a stream does so sooner, and an operator who watches the log would wait longer. */
export const settleMs = 5_000;

export class XdsSession<R extends VersionedResponse> {
  readonly #options: SessionOptions;
  #state: SessionState = 'idle';
  /** Counts streams, so that an ACK or NACK is only sent on the stream of its response. */
  #stream = 0;
  /** The numbers of consecutive failed connections, and of consecutive streams that ended before they settled. */
  #rejections = 0;
  #breaks = 0;
  #acceptedVersion = '';
  #loading: { response: R; stream: number } | undefined;
  #next: R | undefined;
  #isOutage = false;
  /** Whether the next stream replaces one that ended because of its token. */
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

  /** Whether a response is being loaded, so that the next one has to wait. */
  get isLoading(): boolean {
    return this.#loading !== undefined;
  }

  start(): SessionAction<R>[] {
    if (this.#state !== 'idle') return [];
    this.#state = 'connecting';
    return [{ do: 'connect' }];
  }

  /** The connection is up, and requests can be sent. */
  opened(): SessionAction<R>[] {
    if (this.#state !== 'connecting') return [];
    this.#state = 'open:new';
    this.#rejections = 0;
    this.#stream++;
    return [this.#send('', undefined), { do: 'settle', delayMs: settleMs }];
  }

  /** The stream has been open for `settleMs`. */
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

  /** The last load has ended. */
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

  /** An attempt to connect failed, or the stream ended. `renewable`: it ended because of its token, and there is a newer token. */
  ended(reason: string, renewable = false): SessionAction<R>[] {
    if (this.#state !== 'connecting' && !this.isOpen) return [];
    if (renewable && this.#state === 'open:settled') {
      this.#state = 'connecting';
      this.#next = undefined;
      this.#isRenewal = true;
      return [{ do: 'connect' }];
    }
    this.#isRenewal = false;
    const delayMs = this.#state === 'connecting' ? this.#pauseAfterRejectionMs() : this.#brokenMs();
    this.#state = 'waiting';
    this.#next = undefined;
    const isNews = !this.#isOutage;
    this.#isOutage = true;
    return [
      { do: 'report-lost', reason, isNews, retryMs: delayMs },
      { do: 'wait', delayMs },
    ];
  }

  /** The server does not support this form of xDS. Returns no actions if the stream has settled, as the server then does support it. */
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

  #pauseAfterRejectionMs(): number {
    const { connectRetryMs: initialMs, backoff } = this.#options;
    const maxMs = Math.max(initialMs, backoff.maxMs);
    return backoffMs({ ...backoff, initialMs, maxMs }, this.#rejections++);
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
    const { message: error, rejected } = loadResult;
    if (rejected === undefined) return this.#send(nonce, error);
    return { do: 'send', request: { version: this.#acceptedVersion, nonce, error, rejected } };
  }
}
