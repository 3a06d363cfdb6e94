import { unrefUnblockedTimers } from '../../../../process/time/clock.ts';
import type { StoreError } from '../../store-error.ts';
import { type NodePlace, placeName } from '../wire/redis-address.ts';
import type { ConnectionCounts, RedisConnection } from '../wire/redis-connection.ts';

/** A node and its only connection. */
export class ClusterNode {
  readonly place: NodePlace;
  readonly connection: RedisConnection;

  constructor(place: NodePlace, connection: RedisConnection) {
    this.place = place;
    this.connection = connection;
    void this.open();
  }

  /** Connects if no attempt has succeeded yet. Resolves to the reason of a failure. A lost connection reopens by itself. */
  open(): Promise<StoreError | undefined> {
    if (this.connection.wasConnected) return Promise.resolve(undefined);
    return this.connection.open().then(
      () => undefined,
      (error: StoreError) => error,
    );
  }
}

export interface ClusterNodesOptions {
  /** Creates the connection to a node, which uses `counts`. */
  newConnection: (place: NodePlace, counts: ConnectionCounts) => RedisConnection;
  /** The maximum time for a command, on the scale of `unblockedMs`. */
  timeoutMs: number;
}

/** The connections to a cluster's nodes, at most one each. */
export class ClusterNodes {
  readonly counts: ConnectionCounts = { active: 0, total: 0, localClose: 0 };
  readonly #options: ClusterNodesOptions;
  readonly #nodes = new Map<string, ClusterNode>();
  readonly #lingering = new Set<ClusterNode>();

  constructor(options: ClusterNodesOptions) {
    this.#options = options;
  }

  /** The connected nodes. */
  get reached(): ClusterNode[] {
    return [...this.#nodes.values()].filter(({ connection }) => connection.connected);
  }

  /** Returns the node of a place. Creates it if necessary. */
  at(place: NodePlace): ClusterNode {
    const { newConnection } = this.#options;
    return this.#nodes.getOrInsertComputed(
      placeName(place),
      () => new ClusterNode(place, newConnection(place, this.counts)),
    );
  }

  /** Drops all other nodes. Commands that are sent to them during the timeout may still be answered. */
  keep(places: ReadonlySet<string>): void {
    for (const [name, node] of this.#nodes) {
      if (places.has(name)) continue;
      this.#nodes.delete(name);
      this.#lingering.add(node);
      unrefUnblockedTimers.after(2 * this.#options.timeoutMs, () => {
        this.#lingering.delete(node);
        node.connection.close();
      });
    }
  }

  close(): void {
    for (const { connection } of [...this.#nodes.values(), ...this.#lingering]) connection.close();
  }
}
