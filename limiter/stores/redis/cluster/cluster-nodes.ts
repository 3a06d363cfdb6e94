import { looseAttendedTimers, type Timers } from '../../../../process/time/clock.ts';
import { BreakerState, BreakerTimer, type BreakerTimes } from '../../failure/breaker-state.ts';
import { StoreError } from '../../store-error.ts';
import { type NodePlace, placeName } from '../wire/redis-address.ts';
import type { ConnectionCounts, RedisConnection } from '../wire/redis-connection.ts';
import { ReplyError } from '../wire/resp.ts';

/** How a node that hangs is found out, and found back. */
export interface NodeSilence {
  /** STORE_BREAKER_SILENCE: it is not asked when it answered nothing for so long, or up to an eighth less. */
  silenceMs: number;
  /** STORE_BREAKER_PROBE_INTERVAL: how often it is asked for a PING then, less up to a quarter. */
  probeIntervalMs: number;
}

interface ClusterNodeOptions extends NodeSilence {
  place: NodePlace;
  /** The connection reports `onChange` when it comes and goes. */
  newConnection: (onChange: (connected: boolean, reason?: string) => void) => RedisConnection;
  timers: Timers;
  random: () => number;
  /** Reported at every change of `reached`. */
  onChange: (reached: boolean, reason?: string) => void;
}

/** A node and the one connection to it. */
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
        new StoreError(`node ${name} is not asked until it answers again`, {
          transient: true,
          notCounted: true,
        }),
      isAnswer: (error) => error instanceof ReplyError,
      onChange: () => this.#note('it does not answer'),
    });
    this.open();
  }

  /** It is connected, and answers as far as is known. */
  get reached(): boolean {
    return this.#reached;
  }

  /** The last attempt to connect that `open` made: settles either way. */
  get opening(): Promise<void> {
    return this.#opening;
  }

  /** Why that attempt failed. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Attempts again where no attempt has succeeded yet; a connection that was lost comes back by itself. */
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

  /** Reports `onChange`, once, of a node that no attempt has reached yet. */
  reportIfMissed(): void {
    if (this.#failure === undefined || this.#wasMissed || this.connection.counts.total > 0) return;
    this.#wasMissed = true;
    this.#onChange(false, (this.#failure as Error).message);
  }

  /** Written before it returns, or not at all. Rejects with the connection's error, or at once while the node hangs. */
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
  /** Reported at every change of a node's `reached`. */
  onChange: (place: NodePlace, reached: boolean, reason?: string) => void;
  /** How long a node that is no longer needed may still answer, by `attendedMs`: twice as long at most. */
  lingerMs: number;
}

/** The connections to a cluster's nodes, at most one each. */
export class ClusterNodes {
  readonly #options: ClusterNodesOptions;
  readonly #nodes = new Map<string, ClusterNode>();
  readonly #lingering = new Map<ClusterNode, () => void>();
  /** Of connections that are gone. */
  readonly #gone: ConnectionCounts = { active: 0, total: 0, localClose: 0 };

  constructor(options: ClusterNodesOptions) {
    this.#options = options;
  }

  /** Of all nodes together, as they are when they are read. */
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

  /** Those that answer, as far as is known. */
  get reached(): ClusterNode[] {
    return [...this.#nodes.values()].filter((node) => node.reached);
  }

  /** The node there, a new one if need be. */
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

  /** Lets go of all other nodes, once what they were asked is answered or given up. */
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

  /** Once more, where something is still under way: it was asked late, or is about to be given up. */
  #linger(node: ClusterNode, onceMore: boolean): void {
    const callOff = looseAttendedTimers.after(this.#options.lingerMs, () => {
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
  /** One call beside the breaker. */
  probe: () => Promise<unknown>;
  /** What calls reject with that were sent and not answered. */
  unanswered: () => Error;
  /** What calls reject with that were never sent. */
  unsent: () => Error;
  /** Whether a call that rejected so was answered all the same. */
  isAnswer: (error: unknown) => boolean;
  onChange?: ((open: boolean) => void) | undefined;
}

/** Opens at the tick after these: an eighth earlier than the silence, before a breaker around everything, for which nine ticks are silence. */
const quietTicks = 6;

/**
 * A breaker around the calls to one server of several: those that wait when it falls silent reject, and all others at
 * once until it answers a probe. Unlike `BreakerStore` it lets everybody through then: who calls is bounded already.
 */
export class NodeBreaker {
  readonly #options: NodeBreakerOptions;
  readonly #state = new BreakerState({ quietTicks });
  /** Rejects each call under way. */
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
        if (this.#waiting.delete(reject)) this.#state.heard = true;
        resolve(value);
      },
      (error: unknown) => {
        if (this.#waiting.delete(reject) && this.#options.isAnswer(error)) this.#state.heard = true;
        reject(error);
      },
    );
    return promise;
  }

  /** Ends its timers. Calls under way are left to end by themselves. */
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
