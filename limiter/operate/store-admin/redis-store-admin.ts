/**
 * The store admin of BACKEND_TYPE=redis: one server, the master that sentinels know, or a cluster, and also the Redis of limits per
 * second.
 */
import { type Timers, unblockedMs } from '../../../process/time/clock.ts';
import { largestExactNumber } from '../../algorithms/algorithm-bound.ts';
import { readCounter, removeCounter } from '../../stores/redis/stored-counters.ts';
import { isClosed } from '../../stores/redis/wire/redis-error.ts';
import {
  integerReply,
  ReplyError,
  textReply,
  textsReply,
  UnexpectedReply,
} from '../../stores/redis/wire/resp.ts';
import type { StoredCounter } from '../../stores/store.ts';
import { StoreError } from '../../stores/store-error.ts';
import type { RedisServers, ServerToScan } from './redis-servers.ts';
import { RedisSubscription } from './redis-subscription.ts';
import {
  type CounterRef,
  isStoreAdminKey,
  type MissingRight,
  type RecordTable,
  type ScannedKeys,
  type ScanQuery,
  type StoreAdmin,
  StoreAdminRejection,
  type SubscriptionListener,
} from './store-admin.ts';

export interface RedisStoreAdminOptions {
  main: RedisServers;
  /** Undefined without REDIS_PERSECOND. */
  perSecond: RedisServers | undefined;
  /** CACHE_KEY_PREFIX. */
  prefix: string;
  /** Whether counters may have ledgers of leases. */
  leases: boolean;
  /** BUDGET_RECORD_TTL. */
  recordMs: number;
  timers: Timers;
  /** Called when a command is rejected for the first time, and again after it worked in between. */
  onMissing: (missing: MissingRight) => void;
}

/** Where a scan continues: the Redis, the server, and the cursor from SCAN. */
interface ScanPlace {
  readonly perSecond: boolean;
  /** Empty for the first server. */
  readonly server: string;
  readonly cursor: string;
}

const beginning: ScanPlace = { perSecond: false, server: '', cursor: '0' };

/** The time before a command is sent again that a proxy answered by closing the connection. */
const rejectedByClosingMs = 30_000;

/** Commands that proxies may not know, and that may be sent twice. */
const mayClose: ReadonlySet<string> = new Set(['SCAN', 'PUBLISH']);
const closedAtIt = 'the connection was closed, perhaps by a proxy that does not support the command';
const unknownPlace = 'the cursor is not from this limiter';

/** ARGV: the field, the expected text, and the new text. */
const exchangeScript = `
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
`;

/** ARGV: the field, and the expected text. */
const removalScript = `
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
`;

export class RedisStoreAdmin implements StoreAdmin {
  readonly kind = 'redis';
  readonly #options: RedisStoreAdminOptions;
  readonly #missing = new Map<string, MissingRight & { againMs: number }>();
  readonly #news: RedisSubscription;

  constructor(options: RedisStoreAdminOptions) {
    this.#options = options;
    this.#news = new RedisSubscription({
      channel: this.#ownKey('news'),
      servers: options.main,
      timers: options.timers,
      onRejection: (message) => this.#rejected('SUBSCRIBE', message ?? closedAtIt, 0),
      onSubscribed: () => void this.#missing.delete('SUBSCRIBE'),
    });
  }

  get missing(): readonly MissingRight[] {
    return [...this.#missing.values()].map(({ command, message }) => ({ command, message }));
  }

  async scan({ prefixes, from, count }: ScanQuery): Promise<ScannedKeys> {
    const place = from === undefined ? beginning : parsePlace(from);
    const servers = place?.perSecond ? this.#options.perSecond : this.#options.main;
    if (place === undefined || servers === undefined)
      throw new StoreAdminRejection(unknownPlace, { isQuestions: true });
    await servers.ready();
    const all = servers.all();
    const at = all.find(({ name }) => name >= place.server);
    if (at === undefined)
      return { counters: [], scanned: 0, place: this.#after(place, all, undefined), notes: [] };
    const cursor = at.name === place.server ? place.cursor : '0';
    const common = commonBeginning(prefixes);
    const pattern = common === '' ? [] : ['MATCH', `${escapedGlob(common)}*`];
    let found: ReturnType<typeof scanReply>;
    try {
      const args = [cursor, ...pattern, 'COUNT', String(count)];
      found = await this.#try('SCAN', servers, () => at.send('scan', args).then(scanReply));
    } catch (error) {
      if (all.length === 1 || this.#missing.has('SCAN')) throw error;
      const note = `${at.name} does not answer, so its counters are not listed: ${(error as Error).message}`;
      return { counters: [], scanned: 0, place: this.#after(place, all, at), notes: [note] };
    }
    const counters: CounterRef[] = [];
    for (const key of found.keys) {
      if (isStoreAdminKey(key) || !prefixes.some((prefix) => key.startsWith(prefix))) continue;
      counters.push({ key, perSecond: place.perSecond });
    }
    const scanned = found.keys.length;
    const { next } = found;
    const isGone = at.name !== place.server && place.server !== '';
    const notes = isGone
      ? [`${place.server} is no longer a master: the rest of its counters is not listed`]
      : [];
    if (next === '0') return { counters, scanned, place: this.#after(place, all, at), notes };
    return { counters, scanned, place: placeText({ ...place, server: at.name, cursor: next }), notes };
  }

  async read(counters: readonly CounterRef[]): Promise<(StoredCounter | undefined)[]> {
    return this.#each(counters, ({ key }, servers) => readCounter(servers.commands, key, this.#options));
  }

  async remove(counters: readonly CounterRef[]): Promise<number> {
    const removed = await this.#each(counters, ({ key }, servers) =>
      removeCounter(servers.commands, key, this.#options),
    );
    return removed.reduce((sum, one) => sum + one, 0);
  }

  async publish(text: string): Promise<boolean> {
    const { main } = this.#options;
    await main.ready();
    try {
      await this.#try('PUBLISH', main, () => this.#publish(text));
      return true;
    } catch (error) {
      if (this.#missing.has('PUBLISH')) return false;
      throw error;
    }
  }

  subscribe(listener: SubscriptionListener): () => void {
    return this.#news.subscribe(listener);
  }

  async records(table: RecordTable): Promise<Map<string, string>> {
    const texts = await this.#onRecords('HGETALL', table, [], (reply) => textsReply('HGETALL', reply, 2));
    const records = new Map<string, string>();
    for (let i = 0; i + 1 < texts.length; i += 2) records.set(texts[i]!, texts[i + 1]!);
    return records;
  }

  async record(table: RecordTable, field: string): Promise<string | undefined> {
    return this.#onRecords('HGET', table, [field], (reply) => textReply('HGET', reply));
  }

  async putRecord(
    table: RecordTable,
    field: string,
    text: string,
    when: 'always' | 'absent' | { is: string } = 'always',
  ): Promise<boolean> {
    if (when === 'always') {
      await this.#onRecords('HSET', table, [field, text], isOneOf('HSET'));
      return true;
    }
    if (when === 'absent') return this.#onRecords('HSETNX', table, [field, text], isOneOf('HSETNX'));
    return this.#scriptOnRecords(exchangeScript, table, [field, when.is, text]);
  }

  async removeRecord(table: RecordTable, field: string, is?: string): Promise<boolean> {
    if (is !== undefined) return this.#scriptOnRecords(removalScript, table, [field, is]);
    return this.#onRecords('HDEL', table, [field], isOneOf('HDEL'));
  }

  async close(): Promise<void> {
    this.#news.close();
    this.#options.main.close();
    this.#options.perSecond?.close();
  }

  /** All own keys are in one hash slot, so that one server of a cluster has them. */
  #ownKey(name: RecordTable | 'news'): string {
    return `weir:{${this.#options.prefix}}:${name}`;
  }

  /** Publishes at the first server that responds: the nodes of a cluster forward messages to each other. */
  async #publish(text: string): Promise<number> {
    const { main } = this.#options;
    const args = [this.#ownKey('news'), text];
    let failure: unknown = main.errors.notConnected();
    for (const server of main.all()) {
      try {
        return integerReply('PUBLISH', await server.send('publish', args), 0, largestExactNumber);
      } catch (error) {
        if (error instanceof ReplyError || error instanceof UnexpectedReply) throw error;
        failure = error;
      }
    }
    throw failure;
  }

  /** `read` throws if the command cannot return such a reply. */
  async #onRecords<T>(
    command: string,
    table: RecordTable,
    args: string[],
    read: (reply: unknown) => T,
  ): Promise<T> {
    const { main } = this.#options;
    await main.ready();
    const key = this.#ownKey(table);
    const send = () => main.commands.send(key, command.toLowerCase(), [key, ...args]);
    return this.#try(command, main, () => send().then(read));
  }

  async #scriptOnRecords(script: string, table: RecordTable, args: string[]): Promise<boolean> {
    const { main } = this.#options;
    await main.ready();
    const key = this.#ownKey(table);
    const run = () => main.commands.send(key, 'eval', [script, '1', key, ...args]);
    return this.#try('EVAL', main, () => run().then(isOneOf('EVAL')));
  }

  /** Sends all commands at once, so that they go out together. */
  async #each<T>(
    counters: readonly CounterRef[],
    ask: (counter: CounterRef, servers: RedisServers) => Promise<T>,
  ): Promise<T[]> {
    const { main, perSecond = main } = this.#options;
    if (counters.some((one) => !one.perSecond)) await main.ready();
    if (counters.some((one) => one.perSecond)) await perSecond.ready();
    return Promise.all(counters.map((one) => ask(one, one.perSecond ? perSecond : main)));
  }

  /** Sends a command and notes if it is rejected. Rejects with a StoreError. */
  async #try<T>(command: string, servers: RedisServers, send: () => Promise<T>): Promise<T> {
    const known = this.#missing.get(command);
    if (known !== undefined && unblockedMs() < known.againMs) throw rejected(known.message);
    try {
      const reply = await send().catch(async (error: unknown) => {
        if (!mayClose.has(command) || !isClosed(error)) throw error;
        // The server may have ended at that moment.
        await servers.ready();
        return send();
      });
      this.#missing.delete(command);
      return reply;
    } catch (error) {
      if (mayClose.has(command) && isClosed(error)) {
        this.#rejected(command, closedAtIt, unblockedMs() + rejectedByClosingMs);
        throw rejected(closedAtIt);
      }
      const reported = error instanceof StoreError ? error : servers.errors.fromOwnCommand(error);
      // This is not a missing right: REDIS_TYPE is wrong, which decisions report.
      const isElsewhere = error instanceof ReplyError && error.message.startsWith('MOVED ');
      if (error instanceof ReplyError && !reported.transient && !isElsewhere)
        this.#rejected(command, reported.message, 0);
      throw reported;
    }
  }

  #rejected(command: string, message: string, againMs: number): void {
    const isNew = !this.#missing.has(command);
    const missing = { command, message, againMs };
    this.#missing.set(command, missing);
    if (isNew) this.#options.onMissing(missing);
  }

  #after(place: ScanPlace, all: readonly ServerToScan[], done: ServerToScan | undefined): string | undefined {
    const next = done && all.find(({ name }) => name > done.name);
    if (next !== undefined) return placeText({ ...place, server: next.name, cursor: '0' });
    if (place.perSecond || this.#options.perSecond === undefined) return undefined;
    return placeText({ perSecond: true, server: '', cursor: '0' });
  }
}

function rejected(message: string): StoreError {
  return new StoreError(message, { transient: false, notCounted: true });
}

/** The next cursor and the keys of a reply to SCAN. */
function scanReply(reply: unknown): { next: string; keys: string[] } {
  if (!Array.isArray(reply) || reply.length !== 2) throw new UnexpectedReply('SCAN', reply);
  const [cursor, keys] = reply as unknown[];
  const next = textReply('SCAN', cursor);
  if (next === undefined || !/^\d{1,20}$/.test(next)) throw new UnexpectedReply('SCAN', cursor);
  return { next, keys: textsReply('SCAN', keys) };
}

/** Reads 1 and 0 as true and false. */
function isOneOf(command: string): (reply: unknown) => boolean {
  return (reply) => integerReply(command, reply, 0, 1) === 1;
}

function commonBeginning([first = '', ...others]: readonly string[]): string {
  let length = first.length;
  while (!others.every((other) => other.startsWith(first.slice(0, length)))) length -= 1;
  return first.slice(0, length);
}

function escapedGlob(text: string): string {
  return text.replace(/[\\*?[\]]/g, '\\$&');
}

function placeText({ perSecond, server, cursor }: ScanPlace): string {
  return `${perSecond ? 's' : 'm'} ${cursor} ${server}`;
}

function parsePlace(text: string): ScanPlace | undefined {
  const [, store, cursor, server] = /^([ms]) (\d{1,20}) (\S*)$/.exec(text) ?? [];
  if (cursor === undefined || server === undefined) return undefined;
  return { perSecond: store === 's', server, cursor };
}
