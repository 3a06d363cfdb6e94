import type { Timers } from '../../../../process/time/clock.ts';
import { StoreError } from '../../store-error.ts';
import { type ClusterAddress, placeName } from '../wire/redis-address.ts';
import { RedisConnection, type RedisConnectionOptions } from '../wire/redis-connection.ts';
import { RedisErrors } from '../wire/redis-error.ts';
import { ClusterCommands } from './cluster-commands.ts';
import { ClusterNodes, type NodeSilence } from './cluster-nodes.ts';
import { ClusterTopology } from './cluster-topology.ts';

export interface ClusterOptions extends Omit<RedisConnectionOptions, 'address' | 'onChange'>, NodeSilence {
  readonly address: ClusterAddress;
  readonly timers: Timers;
  /** Called when a node, as `host:port`, was lost or no longer answers, or when it answers again. */
  readonly onNodeChange?: ((node: string, reached: boolean, reason?: string) => void) | undefined;
}

/** The connection to a Redis Cluster: its nodes, and the commands to them. */
export class RedisClusterClient {
  readonly errors: RedisErrors;
  readonly nodes: ClusterNodes;
  readonly topology: ClusterTopology;
  readonly commands: ClusterCommands;

  constructor({ address, timers, silenceMs, probeIntervalMs, onNodeChange, ...options }: ClusterOptions) {
    const { timeoutMs, random, onRejection, onFailure } = options;
    const { username, password, seeds } = address;
    const errors = new RedisErrors({ timeoutMs, password, onRejection });
    this.errors = errors;
    this.nodes = new ClusterNodes({
      newConnection: (place, onChange) => {
        const label = placeName(place);
        return new RedisConnection({
          ...options,
          address: { endpoint: place, username, password, db: 0, label },
          // The commands report what counting was rejected.
          onRejection: undefined,
          onFailure: (message) => onFailure?.(`node ${label}: ${message}`),
          onChange,
        });
      },
      onChange: (place, reached, reason) => {
        onNodeChange?.(placeName(place), reached, reason);
        if (!reached) this.topology.troubled();
      },
      timers,
      random,
      silenceMs,
      probeIntervalMs,
      lingerMs: timeoutMs,
    });
    this.topology = new ClusterTopology({
      nodes: this.nodes,
      seeds,
      translate: (error) => (error instanceof StoreError ? error : errors.fromOwnCommand(error)),
    });
    this.commands = new ClusterCommands({ topology: this.topology, errors, timeoutMs });
  }

  /** Reads which nodes exist. Then waits until each of them is connected or has failed. */
  async open(): Promise<void> {
    await this.topology.read();
    await this.connected();
  }

  async connected(): Promise<void> {
    await Promise.all(this.topology.masters.map((node) => node.opening));
  }

  close(): void {
    this.topology.close();
    this.nodes.close();
  }
}
