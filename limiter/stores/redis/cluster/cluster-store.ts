import type { Operation } from '../../operation.ts';
import { countAll, type SubmitOptions } from '../../store.ts';
import type { StoreError } from '../../store-error.ts';
import type { PlainCounting } from '../plain-counting.ts';
import { RedisStoreBase, type RedisStoreBaseOptions } from '../redis-store-base.ts';
import { type Batch, finishBatch } from '../turn-batches.ts';
import type { ClusterAddress } from '../wire/redis-address.ts';
import type { ConnectionCounts, KeyedCommands } from '../wire/redis-connection.ts';
import { isTryAgain } from '../wire/redis-error.ts';
import { RedisClusterClient } from './cluster.ts';
import { ClusterKeysOver } from './cluster-keys-over.ts';
import type { ClusterNode } from './cluster-nodes.ts';
import { submitToSlots } from './cluster-reservations.ts';
import { keySlot } from './cluster-topology.ts';

export interface RedisClusterStoreOptions extends RedisStoreBaseOptions {
  address: ClusterAddress;
  /** The maximum number of nodes that are asked at the same time for one batch. Defaults to all nodes. */
  parallelism?: number | undefined;
  /**
   * Whether there may be reservations. Defaults to true. If false, the store does not look for reservations on counters that are
   * over.
   */
  keepsReservations?: boolean | undefined;
  /** STORE_BREAKER_SILENCE: a node that answers nothing for this time, or an eighth less, is connected again. Defaults to 700 ms. */
  silenceMs?: number | undefined;
  /** Called when a node, as `host:port`, was lost or no longer answers, or when it answers again. */
  onNodeChange?: ((node: string, reached: boolean, reason?: string) => void) | undefined;
}

/**
 * Counts in a Redis Cluster. Ops that arrive in one turn of the event loop are folded by key. They are sent as SET and INCRBY, or as the
 * program if a slot needs a script. All commands for one node are sent together.
 */
export class RedisClusterStore extends RedisStoreBase {
  readonly #cluster: RedisClusterClient;
  protected override readonly commands: KeyedCommands;
  readonly #plain: PlainCounting;
  readonly #keysOver: ClusterKeysOver | undefined;
  #connected = false;

  constructor(options: RedisClusterStoreOptions) {
    const { address, keepsReservations = true, parallelism, onNodeChange, onChange } = options;
    const { silenceMs = 700 } = options;
    const cluster = new RedisClusterClient({
      ...options,
      // A breaker around all nodes waits longer.
      silenceMs: silenceMs * (7 / 8),
      onNodeChange: (node, reached, reason) => {
        onNodeChange?.(node, reached, reason);
        const connected = cluster.nodes.reached.length > 0;
        if (connected === this.#connected) return;
        this.#connected = connected;
        if (!this.closed) onChange?.(connected, reason);
      },
    });
    super(options, address.label, cluster.errors, true);
    const { commands } = cluster;
    this.#cluster = cluster;
    this.commands = commands;
    if (keepsReservations)
      this.#keysOver = new ClusterKeysOver({
        commands,
        monotonicMs: () => performance.now(),
      });
    this.#plain = this.plainCounting(commands, parallelism);
  }

  /** Whether any node answers. Ops on keys of the other nodes fail immediately. */
  override get connected(): boolean {
    return this.#connected;
  }

  get connectionCounts(): Readonly<ConnectionCounts> {
    return this.#cluster.nodes.counts;
  }

  /** The number of masters that the cluster names, and how many of them answer. */
  get nodeCounts(): { known: number; reached: number } {
    const { masters } = this.#cluster.topology;
    return { known: masters.length, reached: masters.filter(isConnected).length };
  }

  override submit(ops: Operation[], options: SubmitOptions, done: () => void): void {
    if (ops[0]?.hold !== undefined) {
      const submit = (part: Operation[], each: () => void): void => super.submit(part, countAll, each);
      submitToSlots(ops, { submit, notes: this.notes }, done);
      return;
    }
    const keysOver = this.#keysOver;
    // Without scripts there are no reservations.
    if (this.withoutScripts || keysOver === undefined) super.submit(ops, options, done);
    else super.submit(ops, options, () => keysOver.note(ops, done));
  }

  /** Asks every connected node. One answer is enough. */
  override async ping(patienceMs?: number): Promise<void> {
    const nodes = this.#cluster.topology.masters.filter(isConnected);
    if (nodes.length === 0) throw this.closed ? this.#cluster.errors.closed() : this.notConnected();
    const pings = nodes.map((node) => node.connection.ping(patienceMs));
    const outcome = await Promise.any(pings).catch((error: AggregateError) => error);
    if (outcome instanceof AggregateError) throw outcome.errors[0];
  }

  protected override disconnect(): void {
    this.#cluster.close();
  }

  /** Reads the topology. Afterward, the store follows changes of the cluster on its own. */
  protected override async attempt(): Promise<void> {
    if (this.closed) throw this.#cluster.errors.closed();
    await this.#cluster.open();
    await this.ping();
  }

  protected override notConnected(): StoreError {
    const { errors, topology } = this.#cluster;
    return errors.notConnected(topology.lastFailure);
  }

  override send(batch: Batch): void {
    const counted = batch.leaveOutAbandoned() ? this.count(batch) : Promise.resolve();
    void counted.then(() => finishBatch(batch, this.places));
  }

  protected override async count(batch: Batch): Promise<void> {
    if (this.withoutScripts) return batch.countPlainly(this.#plain);
    const { placed, rest } = batch.spread(keySlot);
    await Promise.all([
      rest.countPlainly(this.#plain),
      this.#plain.byPlace({
        items: placed,
        keyOf: ({ key }) => key,
        work: (slot) => this.runProgram(slot),
        fail: (slot, error) => slot.fail(error),
      }),
    ]);
  }

  protected override sentAgain(batch: Batch, error: unknown): Batch[] | undefined {
    return isTryAgain(error) ? apart(batch) : super.sentAgain(batch, error);
  }
}

function isConnected({ connection }: ClusterNode): boolean {
  return connection.connected;
}

/**
 * Returns batches of single operations, so that those whose keys are on one node still work while a slot moves. Returns undefined if the
 * batch has only one operation.
 */
function apart(batch: Batch): Batch[] | undefined {
  const { placed, rest } = batch.spread((key) => key);
  const all = rest.isEmpty ? placed : [...placed, rest];
  if (all.length > 1) return all;
  if (!batch.hasLeases) return undefined;
  // The batch has a counter and a ledger that does not exist yet.
  batch.dropLeases();
  return [batch];
}
