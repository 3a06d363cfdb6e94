import {
  type MemcacheAddress,
  MemcacheConnection,
  type MemcacheConnectionOptions,
} from './memcache-connection.ts';
import { keyHash } from './memcache-key.ts';

export interface MemcacheNodesOptions
  extends Pick<MemcacheConnectionOptions, 'tls' | 'timeoutMs' | 'random'> {
  /** At least 1. A key always uses the same connection, so that its commands stay in order. */
  connectionsPerNode: number;
  /** Called when a node cannot be used, with the reason, or can be used again. */
  onChange(node: string, up: boolean, reason: string): void;
}

/** A node, which may be listed several times. */
class MemcacheNode {
  readonly connections: readonly MemcacheConnection[];
  #connectionsDown = 0;

  constructor(address: MemcacheAddress, options: MemcacheNodesOptions) {
    const { connectionsPerNode, onChange, ...rest } = options;
    const changed = (up: boolean, reason: string): void => {
      const wasUp = this.up;
      this.#connectionsDown += up ? -1 : 1;
      if (this.up !== wasUp) onChange(address.label, up, reason);
    };
    this.connections = Array.from(
      { length: connectionsPerNode },
      () => new MemcacheConnection({ ...rest, address, onChange: changed }),
    );
  }

  get up(): boolean {
    return this.#connectionsDown === 0;
  }
}

/** The nodes in the order that all limiters share, so that every limiter finds a key on the same node. */
export class MemcacheNodes {
  readonly #options: MemcacheNodesOptions;
  #byLabel = new Map<string, MemcacheNode>();
  #listed: MemcacheNode[] = [];

  constructor(options: MemcacheNodesOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#byLabel.size;
  }

  get down(): number {
    return [...this.#byLabel.values()].filter((node) => !node.up).length;
  }

  /** The number of open connections. */
  get connectionsReady(): number {
    return this.connections().filter((connection) => connection.ready).length;
  }

  connections(): MemcacheConnection[] {
    return [...this.#byLabel.values()].flatMap((node) => node.connections);
  }

  /** Returns the first connection of each node. */
  perNode(): MemcacheConnection[] {
    return [...this.#byLabel.values()].map((node) => node.connections[0] as MemcacheConnection);
  }

  /** Replaces the list of nodes. Commands in flight to a removed node are answered with an error. */
  set(addresses: readonly MemcacheAddress[]): void {
    const before = this.#byLabel;
    this.#byLabel = new Map();
    this.#listed = addresses.map((address) => {
      const known = this.#byLabel.get(address.label) ?? before.get(address.label);
      const node = known ?? new MemcacheNode(address, this.#options);
      this.#byLabel.set(address.label, node);
      return node;
    });
    for (const [label, node] of before) {
      if (this.#byLabel.has(label)) continue;
      for (const connection of node.connections) connection.close();
    }
    for (const connection of this.connections()) connection.open();
  }

  /**
   * Returns the connection for a key, or undefined if there are no nodes. The choice is that of gomemcache: its hash modulo the number of
   * nodes.
   */
  connectionOf(key: string): MemcacheConnection | undefined {
    const count = this.#listed.length;
    if (count === 0) return undefined;
    const hash = keyHash(key);
    const { connections } = this.#listed[hash % count] as MemcacheNode;
    return connections[Math.floor(hash / count) % connections.length];
  }
}

/**
 * Reads addresses separated by commas. The order determines which keys a node has. A repeated address gets twice the keys, as with the Go
 * service.
 * @throws Error if an item is neither `host:port` nor a path
 */
export function parseMemcacheAddresses(text: string): MemcacheAddress[] {
  return text.split(',').map((item) => parseMemcacheAddress(item.trim()));
}

/** @throws Error. An address with a `/` is the path of a Unix socket. */
function parseMemcacheAddress(label: string): MemcacheAddress {
  if (label.includes('/')) return { endpoint: { path: label }, label };
  const [, bracketed, plain, digits] = /^(?:\[([^\]]+)\]|([^:@/\s[\]]+)):(\d{1,5})$/.exec(label) ?? [];
  const host = bracketed ?? plain;
  const port = Number(digits);
  if (host === undefined) throw new Error(`memcached node "${label}" is neither host:port nor a path`);
  if (port < 1 || port > 65_535) throw new Error(`memcached node "${label}" has a port outside 1..65535`);
  return { endpoint: { host, port }, label };
}

/** The signature of `resolveSrv` in node:dns/promises. For MEMCACHE_SRV: nodes from the SRV records of a name. RFC 2782. */
export type ResolveSrv = (name: string) => Promise<readonly { name: string; port: number }[]>;

/** Whether a name has the form `_service._proto.name`, which the Go service requires. */
export function isSrvName(name: string): boolean {
  return /^_.+?\._.+?\..+$/.test(name);
}

/**
 * Returns nodes in the order of the Go service, on which all limiters agree: its texts `target.:port`, sorted by their bytes. Go keeps
 * the dot at the end of a target, which affects the order. Rejects if there is no record.
 */
export async function lookUpNodes(name: string, resolve: ResolveSrv): Promise<MemcacheAddress[]> {
  const records = await resolve(name);
  if (records.length === 0) throw new Error(`no SRV record for ${name}`);
  return records
    .map((record) => `${record.name.replace(/\.$/, '')}.:${record.port}`)
    .sort()
    .map((text) => parseMemcacheAddress(text.replace('.:', ':')));
}
