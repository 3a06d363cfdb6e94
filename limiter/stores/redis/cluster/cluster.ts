import { StoreError } from '../../store-error.ts';
import { type ClusterAddress, type NodePlace, placeName } from '../wire/redis-address.ts';
import { RedisConnection, type RedisConnectionOptions } from '../wire/redis-connection.ts';
import { RedisErrors } from '../wire/redis-error.ts';
import { ClusterCommands } from './cluster-commands.ts';
import { ClusterNodes } from './cluster-nodes.ts';
import { ClusterTopology } from './cluster-topology.ts';

export interface ClusterOptions extends Omit<RedisConnectionOptions, 'address' | 'counts' | 'onChange'> {
  readonly address: ClusterAddress;
  /** Called when a node, as `host:port`, was lost or no longer answers, or when it answers again. */
  readonly onNodeChange?: ((node: string, reached: boolean, reason?: string) => void) | undefined;
}

/** The connection to a Redis Cluster: its nodes, and the commands to them. */
export class RedisClusterClient {
  readonly errors: RedisErrors;
  readonly nodes: ClusterNodes;
  readonly topology: ClusterTopology;
  readonly commands: ClusterCommands;

  constructor({ address, onNodeChange, ...options }: ClusterOptions) {
    const { timeoutMs, onRejection, onFailure } = options;
    const { username, password, seeds } = address;
    const errors = new RedisErrors({ timeoutMs, password, onRejection });
    const onChange = (place: NodePlace, reached: boolean, reason?: string): void => {
      onNodeChange?.(placeName(place), reached, reason);
      if (!reached) this.topology.troubled();
    };
    this.errors = errors;
    this.nodes = new ClusterNodes({
      newConnection: (place, counts) => {
        const label = placeName(place);
        return new RedisConnection({
          ...options,
          address: { endpoint: place, username, password, db: 0, label },
          counts,
          // The commands report what counting was rejected.
          onRejection: undefined,
          onFailure: (message) => onFailure?.(`node ${label}: ${message}`),
          onChange: (reached, reason) => onChange(place, reached, reason),
        });
      },
      timeoutMs,
    });
    this.topology = new ClusterTopology({
      nodes: this.nodes,
      seeds,
      translate: (error) => (error instanceof StoreError ? error : errors.fromOwnCommand(error)),
      onMissed: (place, reason) => onChange(place, false, reason),
    });
    this.commands = new ClusterCommands({ topology: this.topology, errors, timeoutMs });
  }

  /** Reads which nodes exist. Then waits until each of them is connected or has failed. */
  async open(): Promise<void> {
    await this.topology.read();
    await this.connected();
  }

  async connected(): Promise<void> {
    await Promise.all(this.topology.masters.map((node) => node.open()));
  }

  close(): void {
    this.topology.close();
    this.nodes.close();
  }
}
