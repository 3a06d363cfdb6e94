import { ClusterNode, type ClusterNodeOptions } from './cluster-nodes.ts';
import { type NodePlace, placeName } from './node-place.ts';
import type { ConnectionCounts, RedisConnection } from './redis-connection.ts';

export interface ClusterNodesOptions
  extends Pick<ClusterNodeOptions, 'timers' | 'random' | 'silenceMs' | 'probeIntervalMs'> {
  newConnection: (
    place: NodePlace,
    onChange: (connected: boolean, reason?: string) => void,
  ) => RedisConnection;
  /** Told at every change of a node's `reached`. */
  onChange: (place: NodePlace, reached: boolean, reason?: string) => void;
  /** How long a node that is no longer needed may still answer. */
  lingerMs: number;
}

/** The connections to a cluster's nodes, at most one each. */
export class ClusterNodes {
  readonly #options: ClusterNodesOptions;
  readonly #nodes = new Map<string, ClusterNode>();
  readonly #lingering = new Map<ClusterNode, NodeJS.Timeout>();
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
      const timer = setTimeout(() => void this.#part(node), this.#options.lingerMs);
      timer.unref();
      this.#lingering.set(node, timer);
    }
  }

  async close(): Promise<void> {
    const needed = [...this.#nodes.values()].map((node) => node.close());
    const lingering = [...this.#lingering.keys()].map((node) => this.#part(node));
    await Promise.all([...needed, ...lingering]);
  }

  #sum(name: keyof ConnectionCounts): number {
    let sum = this.#gone[name];
    for (const { connection } of this.#nodes.values()) sum += connection.counts[name];
    for (const { connection } of this.#lingering.keys()) sum += connection.counts[name];
    return sum;
  }

  async #part(node: ClusterNode): Promise<void> {
    clearTimeout(this.#lingering.get(node));
    await node.close();
    if (!this.#lingering.delete(node)) return;
    this.#gone.total += node.connection.counts.total;
    this.#gone.localClose += node.connection.counts.localClose;
  }
}
