/** Types of the library. They import nothing, so that `index.d.ts` stands alone. */

/** The decision if the store cannot answer. */
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
  /** The timeout for connecting, and for every command to the store. Defaults to 250; `reset` waits at least 1000. */
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
  /** A property of requests that lets clients avoid their limits. Reported once for each cause. */
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
  /** The store. Defaults to memory. */
  store?: RedisStoreOptions | undefined;
  /** The decision if the store fails. Defaults to `allow`. */
  onError?: OnError | undefined;
  /** A function that receives events. Its errors and rejections are ignored. */
  onEvent?: ((event: LimiterEvent) => unknown) | undefined;
  /** Settings of a limiter by their names, such as `CACHE_KEY_PREFIX`. Limiters that share its counters need the same settings. */
  settings?: Readonly<Record<string, string>> | undefined;
}

/** A value that is not a string counts as its JSON, and a list of one value as that value. */
export type Value = string | number | bigint | boolean | null | undefined | object;

/** The entries of one descriptor, in their order. */
export type Entries = Readonly<Record<string, Value>> | readonly (readonly [key: string, value: Value])[];

/** One descriptor, or several. */
export type Descriptors = Entries | readonly Entries[];

export interface CallOptions {
  /** The number of hits. Defaults to 1. */
  hits?: number | undefined;
  /** The call rejects with its reason. Hits that were sent to the store may be counted all the same. */
  signal?: AbortSignal | undefined;
}

/**
 * `limit`: over a limit, `store`: decided by `onError`, `too-large`: the request has more descriptors, entries or bytes than a
 * limiter accepts, `no-rule`: no rule matches, `unlimited`: the matching rule is unlimited, `shadow`: over the limit of a rule in
 * shadow mode, which allows the request. Undefined if the request is within the limits.
 */
export type Reason = 'limit' | 'store' | 'too-large' | 'no-rule' | 'unlimited' | 'shadow' | undefined;

interface Outcome {
  readonly allowed: boolean;
  readonly reason: Reason;
  /** The path of the rule: `shop.account`. */
  readonly rule: string | undefined;
  /** Hits per window. Like the following fields, undefined if no counter was read. */
  readonly limit: number | undefined;
  readonly remaining: number | undefined;
  /** The time until the window ends, or until a token is available again. */
  readonly resetMs: number | undefined;
}

export type DescriptorDecision = Outcome;

/**
 * A decision. For several descriptors or limits, the numbers are those of the limit that rejects for the longest time. If none
 * rejects, they are those of the limit with the least remaining.
 */
export interface Decision extends Outcome {
  /** Undefined if the request is allowed, or if waiting does not help. */
  readonly retryAfterMs: number | undefined;
  /** The limit headers, and on a rejection Retry-After. */
  readonly headers: Readonly<Record<string, string>>;
  /** One decision for each descriptor, in their order. */
  readonly perDescriptor: readonly DescriptorDecision[];
}

/** A descriptor with an amount of its own, for rules that count different things: `{ entries: { user: 'ann' }, amount: 600 }`. */
export interface DescriptorAmount {
  readonly entries: Entries;
  readonly amount: number;
}

/** One descriptor, or several, each with or without its own amount. */
export type ReservedDescriptors = Entries | DescriptorAmount | readonly (Entries | DescriptorAmount)[];

export interface ReserveOptions {
  /** The maximum cost of the request. Required unless every descriptor has its own amount. */
  amount?: number | undefined;
  /** The time after which an uncommitted reservation expires. Defaults to a minute. */
  ttlMs?: number | undefined;
  /** Your id, which makes the call repeatable in its domain. */
  id?: string | undefined;
  signal?: AbortSignal | undefined;
}

export interface Reservation {
  readonly allowed: boolean;
  /** The reason, as in a decision. `full`: a bound on the number of reservations is reached. */
  readonly reason: Reason | 'full';
  /** Undefined if nothing is reserved. */
  readonly id: string | undefined;
  /** The amount in the options. */
  readonly amount: number | undefined;
  readonly expiresAt: Date | undefined;
  readonly retryAfterMs: number | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /**
   * Charges the cost of the request, as one number or one for each descriptor. Defaults to the amounts. Resolves with the charged
   * amount, or with that of the first descriptor if they differ.
   */
  commit(actual?: number | readonly number[]): Promise<number>;
  /** Returns the whole amount. */
  release(): Promise<void>;
}

export interface Limiter {
  /** Counts hits, and returns whether the request may pass. A rejection is a value, not an error. */
  check(domain: string, descriptors: Descriptors, options?: CallOptions): Promise<Decision>;
  /** Returns the same decision, and counts nothing. */
  peek(domain: string, descriptors: Descriptors, options?: CallOptions): Promise<Decision>;
  /** Returns hits to the counters. */
  refund(domain: string, descriptors: Descriptors, options?: CallOptions): Promise<Decision>;
  /** Removes the counters of these descriptors. Resolves with the number of removed counters. */
  reset(domain: string, descriptors: Descriptors): Promise<number>;
  /** Holds an amount on all limits, or on none of them. */
  reserve(domain: string, descriptors: ReservedDescriptors, options?: ReserveOptions): Promise<Reservation>;
  /**
   * Takes new rules, or reads the path again. Bad rules change nothing: the event `rules-rejected` has the reason, and the result
   * is false.
   */
  reload(rules?: Rules): Promise<boolean>;
  close(): Promise<void>;
}

/** `invalid`: the arguments of a call or of `createLimiter` are invalid; `store`: the store failed, with `onError: 'throw'`. */
export interface LimiterErrorDetails {
  readonly code: 'invalid' | 'store' | 'conflict' | 'unsupported' | 'closed';
}
