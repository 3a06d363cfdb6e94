import type { ConnectionCounts, RedisConnection } from '../redis-connection.ts';
import { type NodePlace, placeName } from './node-place.ts';

export interface ClusterNodesOptions {
  newConnection: (place: NodePlace) => RedisConnection;
  /** How long a node that is no longer needed may still answer. */
  lingerMs: number;
}

/** A node and the one connection to it. */
export interface ClusterNode {
  readonly place: NodePlace;
  readonly connection: RedisConnection;
  /** The last attempt to connect that was made here: settles either way. */
  opening: Promise<void>;
  isOpening: boolean;
  /** Why that attempt failed. */
  failure: unknown;
}

/** The connections to a cluster's nodes, at most one each. */
export class ClusterNodes {
  readonly #options: ClusterNodesOptions;
  readonly #nodes = new Map<string, ClusterNode>();
  readonly #lingering = new Map<RedisConnection, NodeJS.Timeout>();
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

  /** Those with a connection. */
  get connected(): ClusterNode[] {
    return [...this.#nodes.values()].filter((node) => node.connection.connected);
  }

  /** The node there, a new one if need be. */
  at(place: NodePlace): ClusterNode {
    const name = placeName(place);
    const known = this.#nodes.get(name);
    if (known !== undefined) return known;
    const connection = this.#options.newConnection(place);
    const node = { place, connection, opening: Promise.resolve(), isOpening: false, failure: undefined };
    this.#nodes.set(name, node);
    open(node);
    return node;
  }

  /** Attempts again where no attempt has succeeded yet; connections that were lost come back by themselves. */
  reopen(node: ClusterNode): void {
    if (!node.isOpening && node.connection.counts.total === 0) open(node);
  }

  /** Lets go of all other nodes, once what they were asked is answered or given up. */
  keep(places: ReadonlySet<string>): void {
    for (const [name, { connection }] of this.#nodes) {
      if (places.has(name)) continue;
      this.#nodes.delete(name);
      const timer = setTimeout(() => void this.#part(connection), this.#options.lingerMs);
      timer.unref();
      this.#lingering.set(connection, timer);
    }
  }

  async close(): Promise<void> {
    const needed = [...this.#nodes.values()].map(({ connection }) => connection.close());
    const lingering = [...this.#lingering.keys()].map((connection) => this.#part(connection));
    await Promise.all([...needed, ...lingering]);
  }

  #sum(name: keyof ConnectionCounts): number {
    let sum = this.#gone[name];
    for (const { connection } of this.#nodes.values()) sum += connection.counts[name];
    for (const connection of this.#lingering.keys()) sum += connection.counts[name];
    return sum;
  }

  async #part(connection: RedisConnection): Promise<void> {
    clearTimeout(this.#lingering.get(connection));
    await connection.close();
    if (!this.#lingering.delete(connection)) return;
    this.#gone.total += connection.counts.total;
    this.#gone.localClose += connection.counts.localClose;
  }
}

function open(node: ClusterNode): void {
  node.isOpening = true;
  node.failure = undefined;
  node.opening = node.connection
    .open()
    .catch((error: unknown) => {
      node.failure = error;
    })
    .finally(() => {
      node.isOpening = false;
    });
}
