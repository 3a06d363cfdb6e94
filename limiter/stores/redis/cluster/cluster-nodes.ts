import { type Timers, unrefUnblockedTimers } from '../../../../process/time/clock.ts';
import { BreakerState, BreakerTimer, type BreakerTimes } from '../../failure/breaker-state.ts';
import { StoreError } from '../../store-error.ts';
import { type NodePlace, placeName } from '../wire/redis-address.ts';
import type { ConnectionCounts, RedisConnection } from '../wire/redis-connection.ts';
import { ReplyError } from '../wire/resp.ts';

/** Settings for detecting that a node hangs and that it is back. */
export interface NodeSilence {
  /** STORE_BREAKER_SILENCE: a node is no longer asked if it answered nothing for this time, or up to an eighth less. */
  silenceMs: number;
  /** STORE_BREAKER_PROBE_INTERVAL: the interval of PINGs to such a node, less up to a quarter. */
  probeIntervalMs: number;
}

interface ClusterNodeOptions extends NodeSilence {
  place: NodePlace;
  /** Creates the connection, which reports `onChange` when it opens and ends. */
  newConnection: (onChange: (connected: boolean, reason?: string) => void) => RedisConnection;
  timers: Timers;
  random: () => number;
  /** Called at every change of `reached`. */
  onChange: (reached: boolean, reason?: string) => void;
}

/** A node and its only connection. */
export class ClusterNode {
  readonly place: NodePlace;
  readonly connection: RedisConnection;
  readonly #breaker: NodeBreaker;
  readonly #onChange: (reached: boolean, reason?: string) => void;
  #reached = false;
  #wasMissed = false;
  #opening: Promise<void> = Promise.resolve();
  #isOpening = false;
  #failure: unknown;

  constructor(options: ClusterNodeOptions) {
    const { place, timers, random, silenceMs, probeIntervalMs } = options;
    const name = placeName(place);
    this.place = place;
    this.#onChange = options.onChange;
    this.connection = options.newConnection((_, reason) => this.#note(reason));
    this.#breaker = new NodeBreaker({
      timers,
      random,
      silenceMs,
      probeIntervalMs,
      probe: () => this.connection.ping(silenceMs),
      unanswered: () =>
        new StoreError(`node ${name} did not answer in time (STORE_BREAKER_SILENCE)`, { transient: true }),
      unsent: () =>
        new StoreError(`node ${name} does not get calls until it answers again`, {
          transient: true,
          notCounted: true,
        }),
      isAnswer: (error) => error instanceof ReplyError,
      onChange: () => this.#note('it does not answer'),
    });
    this.open();
  }

  /** Whether the node is connected and answers, as far as is known. */
  get reached(): boolean {
    return this.#reached;
  }

  /** The last attempt of `open` to connect. It resolves either way. */
  get opening(): Promise<void> {
    return this.#opening;
  }

  /** The reason why that attempt failed. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Tries to connect again if no attempt has succeeded yet. A lost connection reopens by itself. */
  open(): void {
    if (this.#isOpening || this.connection.counts.total > 0) return;
    this.#isOpening = true;
    this.#failure = undefined;
    this.#opening = this.connection
      .open()
      .catch((error: unknown) => {
        this.#failure = error;
      })
      .finally(() => {
        this.#isOpening = false;
      });
  }

  /** Calls `onChange` once for a node that no attempt has reached yet. */
  reportIfMissed(): void {
    if (this.#failure === undefined || this.#wasMissed || this.connection.counts.total > 0) return;
    this.#wasMissed = true;
    this.#onChange(false, (this.#failure as Error).message);
  }

  /** Sends a command before it returns, or not at all. Rejects with the connection's error, or immediately while the node hangs. */
  send(name: string, args: string[]): Promise<unknown> {
    return this.#breaker.call(() => this.connection.send(name, args));
  }

  close(): void {
    this.#breaker.close();
    this.connection.close();
  }

  #note(reason: string | undefined): void {
    const reached = this.connection.connected && !this.#breaker.open;
    if (reached === this.#reached) return;
    this.#reached = reached;
    if (reached) this.#onChange(true);
    else this.#onChange(false, reason);
  }
}

export interface ClusterNodesOptions
  extends Pick<ClusterNodeOptions, 'timers' | 'random' | 'silenceMs' | 'probeIntervalMs'> {
  newConnection: (
    place: NodePlace,
    onChange: (connected: boolean, reason?: string) => void,
  ) => RedisConnection;
  /** Called at every change of a node's `reached`. */
  onChange: (place: NodePlace, reached: boolean, reason?: string) => void;
  /** How long a node that is no longer needed may still answer, on the scale of `unblockedMs`. It may take up to twice as long. */
  lingerMs: number;
}

/** The connections to a cluster's nodes, at most one each. */
export class ClusterNodes {
  readonly #options: ClusterNodesOptions;
  readonly #nodes = new Map<string, ClusterNode>();
  readonly #lingering = new Map<ClusterNode, () => void>();
  /** The counts of closed connections. */
  readonly #gone: ConnectionCounts = { active: 0, total: 0, localClose: 0 };

  constructor(options: ClusterNodesOptions) {
    this.#options = options;
  }

  /** The counts of all nodes together, at the time of reading. */
  get counts(): Readonly<ConnectionCounts> {
    const sum = (name: keyof ConnectionCounts) => this.#sum(name);
    return {
      get active() {
        return sum('active');
      },
      get total() {
        return sum('total');
      },
      get localClose() {
        return sum('localClose');
      },
    };
  }

  /** The nodes that answer, as far as is known. */
  get reached(): ClusterNode[] {
    return [...this.#nodes.values()].filter((node) => node.reached);
  }

  /** Returns the node of a place. Creates it if necessary. */
  at(place: NodePlace): ClusterNode {
    const name = placeName(place);
    const known = this.#nodes.get(name);
    if (known !== undefined) return known;
    const { newConnection, onChange, ...options } = this.#options;
    const node = new ClusterNode({
      ...options,
      place,
      newConnection: (changed) => newConnection(place, changed),
      onChange: (reached, reason) => onChange(place, reached, reason),
    });
    this.#nodes.set(name, node);
    return node;
  }

  /** Drops all other nodes, once their commands are answered or have failed. */
  keep(places: ReadonlySet<string>): void {
    for (const [name, node] of this.#nodes) {
      if (places.has(name)) continue;
      this.#nodes.delete(name);
      this.#linger(node, true);
    }
  }

  close(): void {
    for (const node of this.#nodes.values()) node.close();
    for (const node of this.#lingering.keys()) this.#part(node);
  }

  #sum(name: keyof ConnectionCounts): number {
    let sum = this.#gone[name];
    for (const { connection } of this.#nodes.values()) sum += connection.counts[name];
    for (const { connection } of this.#lingering.keys()) sum += connection.counts[name];
    return sum;
  }

  /** Closes a node later. If a command is still in progress then, it waits once more: the command was sent late, or is about to fail. */
  #linger(node: ClusterNode, onceMore: boolean): void {
    const callOff = unrefUnblockedTimers.after(this.#options.lingerMs, () => {
      if (onceMore && !node.connection.isIdle) this.#linger(node, false);
      else this.#part(node);
    });
    this.#lingering.set(node, callOff);
  }

  #part(node: ClusterNode): void {
    this.#lingering.get(node)?.();
    this.#lingering.delete(node);
    node.close();
    this.#gone.total += node.connection.counts.total;
    this.#gone.localClose += node.connection.counts.localClose;
  }
}

export interface NodeBreakerOptions extends BreakerTimes {
  /** Makes one call that bypasses the breaker. */
  probe: () => Promise<unknown>;
  /** Creates the error of calls that were sent and not answered. */
  unanswered: () => Error;
  /** Creates the error of calls that were never sent. */
  unsent: () => Error;
  /** Whether an error of a call is an answer of the server. */
  isAnswer: (error: unknown) => boolean;
  onChange?: ((open: boolean) => void) | undefined;
}

/**
 * The number of quiet ticks after which the breaker opens at the next tick. This is an eighth earlier than a breaker around all nodes,
 * which opens after nine ticks of silence.
 */
const quietTicks = 6;

/**
 * A breaker around the calls to one of several servers. When the server falls silent, waiting calls are rejected. All others are rejected
 * immediately until the server answers a probe. Unlike `BreakerStore`, it then lets every call through, because the callers already have
 * bounds.
 */
export class NodeBreaker {
  readonly #options: NodeBreakerOptions;
  readonly #state = new BreakerState({ quietTicks });
  /** Functions that reject each call in progress. */
  readonly #waiting = new Set<(error: Error) => void>();
  readonly #timer: BreakerTimer;

  constructor(options: NodeBreakerOptions) {
    this.#options = options;
    this.#timer = new BreakerTimer(this.#state, options, {
      onTick: () => this.#tick(),
      probe: options.probe,
      onProbed: (failure) => {
        if (failure === undefined) options.onChange?.(false);
      },
    });
  }

  get open(): boolean {
    return this.#state.phase === 'open' || this.#state.phase === 'probing';
  }

  /** Calls `send` before it returns, or not at all. */
  call<T>(send: () => Promise<T>): Promise<T> {
    if (this.open) return Promise.reject(this.#options.unsent());
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#waiting.add(reject);
    this.#timer.startTicks();
    send().then(
      (value) => {
        if (this.#waiting.delete(reject)) this.#state.hasAnswered = true;
        resolve(value);
      },
      (error: unknown) => {
        if (this.#waiting.delete(reject) && this.#options.isAnswer(error)) this.#state.hasAnswered = true;
        reject(error);
      },
    );
    return promise;
  }

  /** Ends the breaker's timers. Calls in progress end on their own. */
  close(): void {
    this.#timer.close();
  }

  #tick(): void {
    this.#state.tick(this.#waiting.size > 0);
    const { phase } = this.#state;
    if (phase === 'open') this.#opens();
    else if (phase === 'closed' && this.#waiting.size === 0) this.#timer.stopTicks();
  }

  #opens(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    this.#options.onChange?.(true);
    this.#timer.probeLater();
    const error = this.#options.unanswered();
    for (const reject of waiting) reject(error);
  }
}
