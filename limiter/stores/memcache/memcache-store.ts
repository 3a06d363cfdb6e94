/**
 * Counts in memcache as the Go service does: it sends one question for all keys of a turn and connection, computes the answers from the
 * reply, and then sends the increments without waiting for their answers. So simultaneous requests of several limiters can exceed a
 * limit, while those of one limiter cannot. If a node cannot be asked, its totals count as 0, and requests pass.
 */
import type { Clock } from '../../../process/time/clock.ts';
import type { ClientTls } from '../client-tls.ts';
import { maxTotal } from '../folded-run.ts';
import { answerAll, failAll, type Operation } from '../operation.ts';
import type { OnceClaims, Store, SubmitOptions } from '../store.ts';
import type { StoreError } from '../store-error.ts';
import { addCommand, GetCommand, versionCommand } from './command.ts';
import {
  type ChangeEvents,
  CounterBatch,
  type KeyCount,
  type PendingBatch,
  RequestedKeys,
  sendDecrease,
  sendIncrease,
} from './counter-batch.ts';
import type { MemcacheAddress, MemcacheConnection } from './memcache-connection.ts';
import { memcacheKey } from './memcache-key.ts';
import { MemcacheNodes } from './memcache-nodes.ts';
import { closedError, notConnected } from './reply-reader.ts';

export interface MemcacheEvents extends ChangeEvents {
  /** Called when the questions of one request are answered. */
  onRequest(outcome: { keys: number; found: number; failed: boolean }): void;
  /** Called when a key that memcache does not accept was hashed. */
  onHashedKey(): void;
  /** Called for a counter whose value is not a number. It counts as 0. */
  onBadValue(key: string): void;
  /** Called when a node that is available rejected a question. */
  onGetRejected(error: string): void;
  /** Called when a node went down or came back. */
  onNode(node: string, up: boolean, reason: string): void;
}

export interface MemcacheStoreOptions {
  /** The nodes, in the order that all limiters share. `setNodes` changes them. */
  nodes: readonly MemcacheAddress[];
  /** Undefined: no TLS. */
  tls?: ClientTls | undefined;
  /** The connections to each node; below 1 means 2, as with gomemcache. */
  connectionsPerNode: number;
  /** The timeout of connecting and of every command. Defaults to 500 ms, as in gomemcache. */
  timeoutMs?: number;
  clock: Pick<Clock, 'nowMs'>;
  /** Returns a number from 0 to below 1. */
  random: () => number;
  /**
   * Whether STORE_FAILURE_MODE is set, so that an op fails if its node cannot be asked. Otherwise it counts from 0, as in the Go service,
   * which lets such requests pass. Defaults to false.
   */
  failsWithNode?: boolean;
  events: MemcacheEvents;
}

/** The keys that fit into the 16 KiB that memcached reads at a time. */
const keysPerGet = 64;
/** Above this, memcache takes an expiry as seconds since 1970. */
const longestRelativeSeconds = 30 * 86_400;

export class MemcacheStore implements Store, OnceClaims {
  readonly claims = this;
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #events: MemcacheEvents;
  readonly #timeoutMs: number;
  readonly #nodes: MemcacheNodes;
  readonly #asked = new RequestedKeys();
  #open: CounterBatch | undefined;
  #requestsUnderWay = 0;
  #closed = false;
  readonly #failsWithNode: boolean;
  readonly #keyOf = (op: Operation) => this.#legalKey(op);

  constructor(options: MemcacheStoreOptions) {
    const { tls, random, connectionsPerNode, timeoutMs = 500, events } = options;
    this.#clock = options.clock;
    this.#events = events;
    this.#timeoutMs = timeoutMs;
    this.#failsWithNode = options.failsWithNode ?? false;
    this.#nodes = new MemcacheNodes({
      tls,
      timeoutMs,
      random,
      connectionsPerNode: connectionsPerNode < 1 ? 2 : connectionsPerNode,
      onChange: (node, up, reason) => events.onNode(node, up, reason),
    });
    this.#nodes.set(options.nodes);
  }

  /** The number of nodes, of nodes that are down, and of open connections, for gauges. */
  get figures(): { nodes: number; down: number; connections: number } {
    return { nodes: this.#nodes.size, down: this.#nodes.down, connections: this.#nodes.connectionsReady };
  }

  /** Moves keys to their places in the new list. Counts on other nodes are lost. */
  setNodes(nodes: readonly MemcacheAddress[]): void {
    if (!this.#closed) this.#nodes.set(nodes);
  }

  submit(ops: Operation[], options: SubmitOptions, done: () => void): void {
    if (this.#closed) {
      failAll(ops, closedError());
      done();
    } else if (ops.length === 0) {
      done();
    } else {
      if (this.#open === undefined) setImmediate(() => this.#ask());
      this.#open ??= new CounterBatch();
      this.#requestsUnderWay += 1;
      const { stopWhenOver } = options;
      this.#open.add({ ops, stopWhenOver, done, keysLeft: 0, failed: false }, this.#keyOf);
    }
  }

  /** As in `Claims`, with `add`. */
  claim(name: string, seconds: number): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const done = (reply: string | StoreError): void =>
        typeof reply === 'string' ? resolve(reply === 'STORED') : reject(reply);
      const key = memcacheKey(name);
      const command = addCommand(key, 1, expiryOf(seconds, this.#clock.nowMs()), done);
      const connection = this.#closed ? undefined : this.#nodes.connectionOf(key);
      if (connection === undefined) command.onError(this.#closed ? closedError() : notConnected());
      else connection.send(command);
    });
  }

  /** Resolves when every node has answered. */
  async ping(): Promise<void> {
    if (this.#closed) throw closedError();
    await Promise.all(
      this.#nodes.perNode().map(
        (connection) =>
          new Promise<void>((resolve, reject) => {
            connection.send(
              versionCommand((reply) => (typeof reply === 'string' ? resolve() : reject(reply))),
            );
          }),
      ),
    );
  }

  /** Waits for commands in flight, at most for the timeout of a command, because they contain hits that were admitted. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#ask();
    const untilMs = performance.now() + this.#timeoutMs;
    while (!this.#isIdle() && performance.now() < untilMs) await new Promise((next) => setTimeout(next, 5));
    for (const connection of this.#nodes.connections()) connection.close();
  }

  #isIdle(): boolean {
    return this.#requestsUnderWay === 0 && this.#nodes.connections().every((connection) => connection.idle);
  }

  #legalKey(op: Operation): string {
    const key = memcacheKey(op.key);
    if (key !== op.key) this.#events.onHashedKey();
    return key;
  }

  /** Sends the questions of a turn. */
  #ask(): void {
    const batch = this.#open;
    this.#open = undefined;
    if (batch === undefined) return;
    const unasked = batch.requests.filter((request) => request.keysLeft === 0);
    const byConnection = new Map<MemcacheConnection | undefined, KeyCount[]>();
    for (const count of batch.keys.values()) {
      const connection = this.#nodes.connectionOf(count.key);
      const counts = byConnection.get(connection);
      if (counts === undefined) byConnection.set(connection, [count]);
      else counts.push(count);
    }
    for (const [connection, counts] of byConnection) {
      for (let i = 0; i < counts.length; i += keysPerGet)
        this.#askFor(connection, counts.slice(i, i + keysPerGet), batch);
    }
    this.#conclude(unasked, batch);
  }

  #askFor(connection: MemcacheConnection | undefined, counts: KeyCount[], batch: CounterBatch): void {
    const totals = new Map<string, number>();
    for (const count of counts) this.#asked.add(count);
    const command = new GetCommand(
      counts.map((count) => count.key),
      (key, value) => totals.set(key, this.#readTotal(key, value)),
      (error) => this.#answered({ batch, counts, totals, error }),
    );
    if (connection === undefined) command.onError(notConnected());
    else connection.send(command);
  }

  #readTotal(key: string, value: string | undefined): number {
    const total = parseTotal(value);
    if (total === undefined) this.#events.onBadValue(key);
    return total ?? 0;
  }

  #answered(answer: {
    batch: CounterBatch;
    counts: KeyCount[];
    totals: Map<string, number>;
    error: StoreError | undefined;
  }): void {
    const { batch, counts, totals, error } = answer;
    if (error !== undefined) this.#events.onGetRejected(error.message);
    const ready: PendingBatch[] = [];
    for (const count of counts) {
      this.#asked.remove(count);
      const total = totals.get(count.key);
      if (error === undefined) count.answer(total !== undefined, total ?? 0);
      // Only a question was sent, so nothing was counted.
      else if (this.#failsWithNode) count.error = error.marked(true);
      for (const request of count.requests) {
        request.keysLeft -= 1;
        if (error !== undefined) request.failed = true;
        if (request.keysLeft === 0) ready.push(request);
      }
    }
    this.#conclude(inOrder(ready, batch), batch);
  }

  /** Sends the changes of all requests together, before callers get their totals. */
  #conclude(requests: readonly PendingBatch[], batch: CounterBatch): void {
    const changed = new Set<KeyCount>();
    for (const request of requests) {
      for (const count of batch.conclude(request)) changed.add(count);
      this.#reportOf(request, batch);
    }
    for (const count of changed) this.#change(count);
    this.#requestsUnderWay -= requests.length;
    answerAll(requests, ({ done }) => done());
  }

  #reportOf({ ops, failed }: PendingBatch, batch: CounterBatch): void {
    let keys = 0;
    let found = 0;
    for (const op of ops) {
      const count = batch.keys.get(op.key);
      if (count === undefined) continue;
      keys += 1;
      if (count.found === true) found += 1;
    }
    if (keys > 0) this.#events.onRequest({ keys, found, failed });
  }

  #change(count: KeyCount): void {
    const { key, ttlSeconds } = count;
    const connection = this.#nodes.connectionOf(key);
    if (connection === undefined) return;
    const send = connection.send.bind(connection);
    let wasMissing = count.found === false;
    for (const change of count.takeChanges()) {
      const hits = Math.abs(change);
      this.#asked.overlook(key, change);
      if (change < 0) {
        sendDecrease({ key, hits, send, events: this.#events });
        continue;
      }
      const expiry = (): number => expiryOf(ttlSeconds, this.#clock.nowMs());
      sendIncrease({ key, hits, expiry, wasMissing, send, events: this.#events });
      wasMissing = false;
    }
  }
}

function inOrder(ready: PendingBatch[], batch: CounterBatch): PendingBatch[] {
  if (ready.length === batch.requests.length) return batch.requests;
  const isReady = new Set(ready);
  return ready.length < 2 ? ready : batch.requests.filter((request) => isReady.has(request));
}

/** Reads a number of 64 bits. memcache leaves trailing blanks if `decr` made the number shorter. */
function parseTotal(value: string | undefined): number | undefined {
  if (value === undefined || !/^\d{1,20} *$/.test(value)) return undefined;
  return Math.min(maxTotal, Number(value));
}

function expiryOf(ttlSeconds: number, nowMs: number): number {
  return ttlSeconds <= longestRelativeSeconds ? ttlSeconds : Math.floor(nowMs / 1000) + ttlSeconds;
}
