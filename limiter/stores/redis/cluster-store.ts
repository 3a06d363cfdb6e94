import { attendedMs, attendedTimers, systemTimers } from '../../../process/time/clock.ts';
import { type CounterOp, type CounterStore, StoreError, type SubmitOptions } from '../counter-store.ts';
import { type FoldedRun, failOp } from '../folded-run.ts';
import { lookThenCount } from '../stop-when-over.ts';
import {
  type Batch,
  type CallCounts,
  CallPlaces,
  maxKeysPerCall,
  settle,
  usualCallBounds,
} from './call-places.ts';
import { ClusterCommands } from './cluster-commands.ts';
import { ClusterNodes, type NodePlace, type NodeSilence, placeName } from './cluster-nodes.ts';
import { ClusterTopology } from './cluster-topology.ts';
import { applyPlainly, PlainCounting } from './plain-counting.ts';
import type { ClusterAddress } from './redis-address.ts';
import { type ConnectionCounts, RedisConnection, type RedisConnectionOptions } from './redis-connection.ts';
import { areScriptsRefused, RedisErrors, type RedisScripts } from './redis-error.ts';
import type { RedisStoreOptions } from './redis-store.ts';
import { applyByScript } from './scripts.ts';
import { type StartRetryOptions, startWithRetry } from './start-retry.ts';
import { TurnGathering } from './turn-gathering.ts';

export interface RedisClusterStoreOptions
  extends Pick<RedisConnectionOptions, 'tls' | 'timeoutMs' | 'random' | 'closeOnReadOnly'>,
    Pick<RedisStoreOptions, 'calls' | 'timers' | 'windowMs'>,
    Partial<NodeSilence> {
  address: ClusterAddress;
  /** Nodes that are asked at a time for one batch. Defaults to all. */
  parallelism?: number | undefined;
  /** REDIS_SCRIPTS; refunds alone use one. Defaults to `auto`. */
  scripts?: RedisScripts | undefined;
  /** Told once, when `auto` goes on without scripts. The reason holds no credentials. */
  onScriptsRefused?: ((reason: string) => void) | undefined;
  /** Told at every change of `connected`. */
  onChange?: ((connected: boolean, reason?: string) => void) | undefined;
  /** A node, as `host:port`, was lost or fell silent, or it answers again. */
  onNodeChange?: ((node: string, reached: boolean, reason?: string) => void) | undefined;
  /** An attempt to connect to a node failed, or an open connection broke. Holds no credentials. */
  onFailure?: ((message: string) => void) | undefined;
  /** A node answered a command that counts with an error: its first word, and its text without credentials. */
  onRefusal?: ((code: string, text: string) => void) | undefined;
}

/**
 * Counts in a Redis Cluster: what arrives in one turn of the event loop is folded by key and goes out as INCRBY and
 * EXPIRE, all of one node together.
 */
export class RedisClusterStore implements CounterStore {
  readonly #options: RedisClusterStoreOptions;
  readonly #errors: RedisErrors;
  readonly #nodes: ClusterNodes;
  readonly #topology: ClusterTopology;
  readonly #commands: ClusterCommands;
  readonly #plain: PlainCounting;
  readonly #gathering: TurnGathering;
  readonly #places: CallPlaces<Batch>;
  #scripts: RedisScripts;
  #connected = false;
  #closed = false;

  constructor(options: RedisClusterStoreOptions) {
    const { address, timeoutMs, parallelism, scripts = 'auto', windowMs } = options;
    const { timers, random, silenceMs = 700, probeIntervalMs = 250 } = options;
    this.#options = options;
    this.#scripts = scripts;
    const errors = new RedisErrors({
      timeoutMs,
      password: address.password,
      onRefusal: options.onRefusal,
    });
    this.#errors = errors;
    this.#nodes = new ClusterNodes({
      newConnection: (place, onChange) => this.#newConnection(place, onChange),
      onChange: (place, reached, reason) => this.#nodeChanged(placeName(place), reached, reason),
      timers: timers ?? attendedTimers,
      random,
      silenceMs,
      probeIntervalMs,
      lingerMs: timeoutMs,
    });
    this.#topology = new ClusterTopology({
      nodes: this.#nodes,
      seeds: address.seeds,
      translate: (error) => (error instanceof StoreError ? error : errors.fromOwnCommand(error)),
    });
    this.#commands = new ClusterCommands({ topology: this.#topology, errors, timeoutMs });
    this.#plain = new PlainCounting({
      commands: this.#commands,
      clamp: (run) => this.#clamp(run),
      timeoutMs,
      ...(parallelism === undefined ? {} : { parallelism }),
      timedOut: () => errors.timedOut(),
      monotonicMs: attendedMs,
    });
    this.#gathering = new TurnGathering({
      windowMs,
      timers: timers ?? systemTimers,
      monotonicMs: () => performance.now(),
      send: (batch) => this.#places.take(batch),
    });
    this.#places = new CallPlaces<Batch>({
      ...(options.calls ?? usualCallBounds),
      timeoutMs,
      timers: timers ?? attendedTimers,
      go: (batch) => this.#count(batch),
      refuse: (batch, waitedMs) => {
        batch.fail(errors.noPlace(waitedMs));
        settle(batch);
      },
    });
  }

  /** Whether any node answers. Keys of the others fail at once. */
  get connected(): boolean {
    return this.#connected;
  }

  get connectionCounts(): Readonly<ConnectionCounts> {
    return this.#nodes.counts;
  }

  /** Calls under way, those that wait for a place, and those that got none. */
  get callCounts(): CallCounts {
    return this.#places;
  }

  /** Masters that the cluster names, and how many of them answer. */
  get nodeCounts(): { known: number; reached: number } {
    const { masters } = this.#topology;
    return { known: masters.length, reached: masters.filter(({ reached }) => reached).length };
  }

  /** Reads the topology and waits for the first PONG, again and again; then follows the cluster by itself. */
  connect(retry: Omit<StartRetryOptions, 'attempt' | 'label' | 'random' | 'stopped'>): Promise<void> {
    return startWithRetry({
      ...retry,
      label: this.#options.address.label,
      random: this.#options.random,
      stopped: () => this.#closed,
      attempt: async () => {
        if (this.#closed) throw this.#errors.closed();
        await this.#topology.read();
        await Promise.all(this.#topology.masters.map((node) => node.opening));
        await this.ping();
      },
    });
  }

  submit(ops: CounterOp[], options: SubmitOptions, done: () => void): void {
    if (!this.#connected || this.#closed) {
      const error = this.#closed ? this.#errors.closed() : this.#notConnected();
      for (const op of ops) failOp(op, error);
      done();
    } else if (ops.length === 0) {
      done();
    } else if (!options.stopWhenOver) {
      this.#gathering.add(ops, { callsLeft: 0, done });
    } else if (ops.length > maxKeysPerCall) {
      lookThenCount(this, ops, done);
    } else {
      this.#gathering.addWhole(ops, { callsLeft: 0, done });
    }
  }

  /** Asks every node that is reached; one answer is enough. */
  async ping(patienceMs?: number): Promise<void> {
    const nodes = this.#topology.masters.filter((node) => node.connection.connected);
    if (nodes.length === 0) throw this.#closed ? this.#errors.closed() : this.#notConnected();
    const pings = nodes.map((node) => node.connection.ping(patienceMs));
    const outcome = await Promise.any(pings).catch((error: AggregateError) => error);
    if (outcome instanceof AggregateError) throw outcome.errors[0];
  }

  close(): Promise<void> {
    this.#closed = true;
    this.#places.close();
    this.#topology.close();
    return this.#nodes.close();
  }

  #count(batch: Batch): void {
    const counted = batch.leaveOutAbandoned() ? batch.countPlainly(this.#plain) : Promise.resolve();
    void counted.then(() => {
      this.#places.free();
      settle(batch);
    });
  }

  async #clamp(run: FoldedRun): Promise<void> {
    if (this.#scripts === 'never') return applyPlainly(this.#commands, run);
    try {
      await applyByScript(this.#commands, run);
    } catch (error) {
      if (!areScriptsRefused(error)) throw error;
      if (this.#scripts === 'auto')
        this.#options.onScriptsRefused?.(this.#errors.fromOwnCommand(error).message);
      this.#scripts = 'never';
      await applyPlainly(this.#commands, run);
    }
  }

  #notConnected(): StoreError {
    return this.#errors.notConnected(this.#topology.lastFailure);
  }

  #newConnection(place: NodePlace, onChange: RedisConnectionOptions['onChange']): RedisConnection {
    const { address, timeoutMs, random, tls, closeOnReadOnly, onFailure } = this.#options;
    const { username, password } = address;
    return new RedisConnection({
      address: { endpoint: place, username, password, db: 0, label: placeName(place) },
      tls,
      closeOnReadOnly,
      timeoutMs,
      random,
      onFailure: (message) => onFailure?.(`node ${placeName(place)}: ${message}`),
      onChange,
    });
  }

  #nodeChanged(name: string, reached: boolean, reason: string | undefined): void {
    this.#options.onNodeChange?.(name, reached, reason);
    if (!reached) this.#topology.troubled();
    const connected = this.#nodes.reached.length > 0;
    if (connected === this.#connected) return;
    this.#connected = connected;
    if (!this.#closed) this.#options.onChange?.(connected, reason);
  }
}
