/** Types of the library. They import nothing, so that `index.d.ts` stands alone. */

/** What happens when the store cannot answer. */
export type OnError = 'allow' | 'deny' | 'throw';

/** A client of `ioredis`: an own connection is faster, because it writes and reads what it needs alone. */
export interface IoredisClient {
  readonly status: string;
  callBuffer(command: string, ...args: string[]): Promise<unknown>;
}

/** A client of `redis` (node-redis). */
export interface NodeRedisClient {
  readonly isReady: boolean;
  sendCommand(args: string[]): Promise<unknown>;
}

export interface RedisStoreOptions {
  /**
   * `redis://[user:password@]host:port[/db]`, `rediss://` for TLS, `host:port`, the path of a Unix socket, or an open client, which
   * stays yours to close.
   */
  redis: string | IoredisClient | NodeRedisClient;
  /** `sentinel`: `redis` is `name,host:port,...`; `cluster`: `host:port,...`. Defaults to `single`. */
  type?: 'single' | 'sentinel' | 'cluster';
  /** How long connecting and every command to the store may take. Defaults to 250; `reset` waits at least 1000. */
  timeoutMs?: number;
}

/** A rule file as an object, as YAML would be read. */
export interface RuleFile {
  readonly domain: string;
  readonly descriptors?: readonly object[];
}

/** The path of a rule file or of a folder of them; the text of a rule file; or rule files as objects. */
export type Rules = string | RuleFile | readonly RuleFile[];

export type LimiterEvent =
  | {
      readonly type: 'rules-loaded';
      readonly domains: readonly string[];
      readonly warnings: readonly string[];
    }
  /** The rules before stay in force. */
  | { readonly type: 'rules-rejected'; readonly errors: readonly string[] }
  /** A decision was made by `onError`. */
  | { readonly type: 'store-error'; readonly message: string }
  /** A domain that has no rules was asked for, so that nothing is limited; once for each. */
  | { readonly type: 'no-domain'; readonly domain: string }
  /** Something about requests that lets clients avoid their limits; once for each cause. */
  | { readonly type: 'warning'; readonly message: string }
  /** Everything that a limiter would log. */
  | {
      readonly type: 'log';
      readonly level: 'fatal' | 'error' | 'warn' | 'info' | 'debug';
      readonly message: string;
      readonly fields: Readonly<Record<string, unknown>>;
    };

export interface LimiterOptions {
  rules: Rules;
  /** Defaults to memory. */
  store?: RedisStoreOptions | undefined;
  /** Defaults to `allow`. */
  onError?: OnError | undefined;
  /** What it throws, or rejects with, is lost. */
  onEvent?: ((event: LimiterEvent) => unknown) | undefined;
  /** Settings of a limiter by their names, such as `CACHE_KEY_PREFIX`. Limiters that share its counters need the same. */
  settings?: Readonly<Record<string, string>> | undefined;
}

/** A value that is not a string counts as its JSON, and a list of one value as that value. */
export type Value = string | number | bigint | boolean | null | undefined | object;

/** The entries of one descriptor, in their order. */
export type Entries = Readonly<Record<string, Value>> | readonly (readonly [key: string, value: Value])[];

/** One descriptor, or several. */
export type Descriptors = Entries | readonly Entries[];

export interface CallOptions {
  /** Defaults to 1. */
  hits?: number | undefined;
  /** The call rejects with its reason. Hits that were sent to the store may be counted all the same. */
  signal?: AbortSignal | undefined;
}

/**
 * `limit`: over a limit, `store`: decided by `onError`, `too-large`: the request has more descriptors, entries or bytes than a limiter
 * takes, `no-rule`: no rule matches, `unlimited`: the rule that matches says so, `shadow`: over the limit of a rule in shadow mode,
 * which lets pass. Undefined: within the limits.
 */
export type Reason = 'limit' | 'store' | 'too-large' | 'no-rule' | 'unlimited' | 'shadow' | undefined;

interface Outcome {
  readonly allowed: boolean;
  readonly reason: Reason;
  /** Where the rule stands: `shop.account`. */
  readonly rule: string | undefined;
  /** Hits per window. Undefined, as the following, where no counter was asked. */
  readonly limit: number | undefined;
  readonly remaining: number | undefined;
  /** Until the window ends, or a token is there again. */
  readonly resetMs: number | undefined;
}

export type DescriptorDecision = Outcome;

/** Of several descriptors or limits, the numbers are those of the limit that refuses longest, else of the one with the least remaining. */
export interface Decision extends Outcome {
  /** Undefined where the request is allowed, or waiting does not help. */
  readonly retryAfterMs: number | undefined;
  /** The limit headers, and on a refusal Retry-After. */
  readonly headers: Readonly<Record<string, string>>;
  /** In the order of the descriptors. */
  readonly perDescriptor: readonly DescriptorDecision[];
}

/** A descriptor with an amount of its own, for rules that count different things: `{ entries: { user: 'ann' }, amount: 600 }`. */
export interface DescriptorAmount {
  readonly entries: Entries;
  readonly amount: number;
}

/** One descriptor, or several, each with or without an amount of its own. */
export type ReservedDescriptors = Entries | DescriptorAmount | readonly (Entries | DescriptorAmount)[];

export interface ReserveOptions {
  /** What the request may cost at most. Required unless every descriptor has its own amount. */
  amount?: number | undefined;
  /** When an uncommitted reservation expires. Defaults to a minute. */
  ttlMs?: number | undefined;
  /** Yours, which makes the call repeatable in its domain. */
  id?: string | undefined;
  signal?: AbortSignal | undefined;
}

export interface Reservation {
  readonly allowed: boolean;
  /** As of a decision; `full`: a bound on the number of reservations is reached. */
  readonly reason: Reason | 'full';
  /** Undefined where nothing is reserved. */
  readonly id: string | undefined;
  /** That of the options. */
  readonly amount: number | undefined;
  readonly expiresAt: Date | undefined;
  readonly retryAfterMs: number | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /**
   * Charges what the request cost, one number or one for each descriptor; defaults to the amounts. Resolves with what was charged, to the
   * first descriptor where they differ.
   */
  commit(actual?: number | readonly number[]): Promise<number>;
  /** Gives all of it back. */
  release(): Promise<void>;
}

export interface Limiter {
  /** Counts, and says whether the request may pass. A refusal is a value. */
  check(domain: string, descriptors: Descriptors, options?: CallOptions): Promise<Decision>;
  /** Says the same, and counts nothing. */
  peek(domain: string, descriptors: Descriptors, options?: CallOptions): Promise<Decision>;
  /** Takes hits back. */
  refund(domain: string, descriptors: Descriptors, options?: CallOptions): Promise<Decision>;
  /** Removes the counters of these descriptors. Resolves with how many there were. */
  reset(domain: string, descriptors: Descriptors): Promise<number>;
  /** Holds an amount on all limits, or on none of them. */
  reserve(domain: string, descriptors: ReservedDescriptors, options?: ReserveOptions): Promise<Reservation>;
  /**
   * Takes new rules, or reads the path again. Bad rules change nothing: `rules-rejected` says why, and the result is false.
   */
  reload(rules?: Rules): Promise<boolean>;
  close(): Promise<void>;
}

/** `invalid`: what was asked, or given to `createLimiter`, makes no sense; `store`: the store failed, with `onError: 'throw'`. */
export interface LimiterErrorDetails {
  readonly code: 'invalid' | 'store' | 'conflict' | 'unsupported' | 'closed';
}
