/**
 * A reset removes counters from the store, and then has all limiters forget what they remember of them:
 *
 *   the one that is asked            the store               the others
 *   removes counters, ledgers  ----> gone
 *   forgets, all its threads
 *   {"is":"reset", keys}  ---------> news ----------------> forget, all their threads
 *                         <--------- news <---------------- {"is":"confirmed"}
 *
 * In this order, a command that is sent after a limiter forgot finds the counter gone, and the result of an earlier one is not
 * remembered (`Order`). A limiter that was disconnected may have missed messages, so it forgets everything when it listens again.
 */
import { errorText } from '../../process/log/error-text.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { Heartbeats, LimiterName } from './heartbeats.ts';
import type { CounterRef, MissingRight, StoreAdmin } from './store-admin/store-admin.ts';

export interface NotifiedLimiter extends LimiterName {
  /** Whether all its threads have forgotten the counters in time. */
  readonly confirmed: boolean;
  readonly afterMs?: number;
}

export interface ResetOutcome {
  /** The number of counters that existed. */
  readonly reset: number;
  readonly limiters: readonly NotifiedLimiter[];
  readonly missing: readonly MissingRight[];
}

export interface CounterResetsOptions {
  storeAdmin: StoreAdmin;
  heartbeats: Pick<Heartbeats, 'living'>;
  self: LimiterName;
  /** Makes every thread of this process forget these counters; undefined: it is unknown which. */
  forget(keys: readonly string[] | undefined): Promise<unknown>;
  newId(): string;
  clock: Clock;
  timers: Timers;
}

/** The time that the answer waits for limiters. */
export const confirmationMs = 1_000;
/** Chosen: the keys in one message. */
const keysPerMessage = 500;

/** The replies of limiters to one message. */
interface AwaitedReplies {
  readonly unconfirmed: Set<string>;
  readonly confirmed: Map<string, NotifiedLimiter>;
  readonly sinceMs: number;
  onAll: () => void;
}

type News =
  | { is: 'reset'; id: string; from: string; keys: string[] }
  | ({ is: 'confirmed'; id: string } & LimiterName);

const cannotSay =
  'memcached cannot notify other limiters, so they use their cached counters until the windows end';

export class CounterResets {
  readonly #options: CounterResetsOptions;
  readonly #waiting = new Map<string, AwaitedReplies>();
  #endNews = (): void => {};
  #hasListened = false;

  constructor(options: CounterResetsOptions) {
    this.#options = options;
  }

  start(): void {
    const { storeAdmin, forget } = this.#options;
    this.#endNews = storeAdmin.subscribe({
      received: (text) => this.#received(text),
      back: () => {
        // Missed messages are not repeated.
        if (this.#hasListened) forget(undefined).catch(() => {});
        this.#hasListened = true;
      },
    });
  }

  close(): void {
    this.#endNews();
  }

  /** Rejects as the store admin does if the counters cannot be removed. */
  async reset(counters: readonly CounterRef[]): Promise<ResetOutcome> {
    const { storeAdmin, heartbeats } = this.#options;
    // Undefined: it is not known which limiters there are.
    const asked = heartbeats.living().catch(() => undefined);
    const reset = await storeAdmin.remove(counters);
    const living = await asked;
    const notReported: MissingRight[] = [];
    const reports: Promise<NotifiedLimiter[]>[] = [];
    for (let first = 0; first < counters.length; first += keysPerMessage) {
      const keys = counters.slice(first, first + keysPerMessage).map(({ key }) => key);
      reports.push(this.#report(keys, living, notReported));
    }
    const reported = await Promise.all(reports);
    const missing = new Map([...notReported, ...storeAdmin.missing].map((one) => [one.command, one]));
    return { reset, limiters: inAll(reported), missing: [...missing.values()] };
  }

  /** Resolves when all limiters that are known to be alive have forgotten these counters, or when their time is up. */
  async #report(
    keys: string[],
    living: readonly LimiterName[] | undefined,
    notReported: MissingRight[],
  ): Promise<NotifiedLimiter[]> {
    const { storeAdmin, self, forget, newId, clock, timers } = this.#options;
    const id = newId();
    const known = living ?? [self];
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiting: AwaitedReplies = {
      unconfirmed: new Set(known.map(({ instance }) => instance)),
      confirmed: new Map(),
      sinceMs: clock.monotonicMs(),
      // There may be limiters that are not known.
      onAll: living === undefined ? () => {} : resolve,
    };
    this.#waiting.set(id, waiting);
    const callOff = timers.after(confirmationMs, resolve);
    forget(keys).then(
      () => this.#confirmed({ id, ...self }),
      () => {},
    );
    const news: News = { is: 'reset', id, from: self.instance, keys };
    const problem = await publishProblem(storeAdmin, JSON.stringify(news));
    if (problem !== undefined) {
      notReported.push({ command: 'PUBLISH', message: problem });
      for (const instance of waiting.unconfirmed)
        if (instance !== self.instance) waiting.unconfirmed.delete(instance);
      waiting.onAll = resolve;
      if (waiting.unconfirmed.size === 0) resolve();
    }
    await promise;
    callOff();
    this.#waiting.delete(id);
    const silent = known.filter(({ instance }) => !waiting.confirmed.has(instance));
    return [...waiting.confirmed.values(), ...silent.map((one) => ({ ...one, confirmed: false }))];
  }

  #received(text: string): void {
    const { self, forget, storeAdmin } = this.#options;
    const news = parsedNews(text);
    if (news?.is === 'confirmed') this.#confirmed(news);
    if (news?.is !== 'reset' || news.from === self.instance) return;
    const { name, instance } = self;
    const confirmed: News = { is: 'confirmed', id: news.id, name, instance };
    forget(news.keys)
      .then(() => storeAdmin.publish(JSON.stringify(confirmed)))
      // The limiter that sent the reset reports this one as silent.
      .catch(() => {});
  }

  #confirmed({ id, name, instance }: { id: string } & LimiterName): void {
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return;
    const afterMs = Math.round(this.#options.clock.monotonicMs() - waiting.sinceMs);
    waiting.confirmed.set(instance, { name, instance, confirmed: true, afterMs });
    waiting.unconfirmed.delete(instance);
    if (waiting.unconfirmed.size === 0) waiting.onAll();
  }
}

/** Publishes a message. Returns the problem if it was not sent, otherwise undefined. */
async function publishProblem(storeAdmin: StoreAdmin, text: string): Promise<string | undefined> {
  if (storeAdmin.kind === 'memcache') return cannotSay;
  try {
    if (await storeAdmin.publish(text)) return undefined;
  } catch (error) {
    return errorText(error);
  }
  return storeAdmin.missing.find(({ command }) => command === 'PUBLISH')?.message ?? 'it is denied';
}

/** Returns undefined for other texts: other programs may use the channel, and later versions may send other messages. */
function parsedNews(text: string): News | undefined {
  try {
    const news = JSON.parse(text) as News;
    if (news.is === 'reset' && !Array.isArray(news.keys)) return undefined;
    return news;
  } catch {
    return undefined;
  }
}

/** Merges the replies of each limiter to all messages. */
function inAll(reported: readonly NotifiedLimiter[][]): NotifiedLimiter[] {
  const all = new Map<string, NotifiedLimiter>();
  for (const one of reported.flat()) {
    const before = all.get(one.instance) ?? one;
    const isSlower = (one.afterMs ?? 0) > (before.afterMs ?? 0);
    all.set(one.instance, !one.confirmed || (before.confirmed && isSlower) ? one : before);
  }
  return [...all.values()].sort((one, other) => (one.name < other.name ? -1 : 1));
}
