/** The servers of one Redis that hold keys, on connections of the store admin's own. Each is addressed directly or by its keys. */
import type { ClientTls } from '../../stores/client-tls.ts';
import { RedisClusterClient } from '../../stores/redis/cluster/cluster.ts';
import type { ClusterAddress, RedisAddress, SentinelAddress } from '../../stores/redis/wire/redis-address.ts';
import { placeName } from '../../stores/redis/wire/redis-address.ts';
import type { KeyedCommands } from '../../stores/redis/wire/redis-connection.ts';
import { connectionCommands, RedisConnection } from '../../stores/redis/wire/redis-connection.ts';
import type { RedisErrors } from '../../stores/redis/wire/redis-error.ts';
import { Sentinels } from '../../stores/redis/wire/sentinels.ts';

export interface ServerToScan {
  /** Stays the same for the same server. Servers are scanned in the order of their names. */
  readonly name: string;
  send(name: string, args: string[]): Promise<unknown>;
}

export interface RedisServersOptions {
  tls: ClientTls | undefined;
  timeoutMs: number;
  random: () => number;
}

export interface RedisServers {
  readonly errors: RedisErrors;
  readonly commands: KeyedCommands;
  readonly options: RedisServersOptions;
  /** The login at each server. */
  readonly login: Pick<RedisAddress, 'username' | 'password'> & { db: number };
  /** Connects if there is no connection. Rejects with a StoreError. */
  ready(): Promise<void>;
  /** The servers that take writes, by their names. */
  all(): readonly ServerToScan[];
  /** The address of one server. Rejects with a StoreError. */
  endpoint(): Promise<RedisAddress['endpoint']>;
  close(): void;
}

export function openServers(
  address: RedisAddress | SentinelAddress | ClusterAddress,
  options: RedisServersOptions,
): RedisServers {
  return 'seeds' in address ? new ClusterServers(address, options) : new OneServer(address, options);
}

class OneServer implements RedisServers {
  readonly options: RedisServersOptions;
  readonly login: RedisServers['login'];
  readonly commands: KeyedCommands;
  readonly #address: RedisAddress | SentinelAddress;
  readonly #connection: RedisConnection;
  readonly #all: readonly ServerToScan[];

  constructor(address: RedisAddress | SentinelAddress, options: RedisServersOptions) {
    const connection = new RedisConnection({ ...options, address });
    this.options = options;
    this.login = address;
    this.commands = connectionCommands(connection);
    this.#address = address;
    this.#connection = connection;
    this.#all = [{ name: '-', send: (name, args) => connection.send(name, args) }];
  }

  get errors(): RedisErrors {
    return this.#connection.errors;
  }

  async ready(): Promise<void> {
    if (!this.#connection.connected) await this.#connection.open();
  }

  all(): readonly ServerToScan[] {
    return this.#all;
  }

  async endpoint(): Promise<RedisAddress['endpoint']> {
    const address = this.#address;
    if ('endpoint' in address) return address.endpoint;
    const sentinels = new Sentinels({ address, ...this.options });
    return sentinels.master().finally(() => sentinels.close());
  }

  close(): void {
    this.#connection.close();
  }
}

class ClusterServers implements RedisServers {
  readonly options: RedisServersOptions;
  readonly login: RedisServers['login'];
  readonly #cluster: RedisClusterClient;

  constructor(address: ClusterAddress, options: RedisServersOptions) {
    const { username, password } = address;
    this.options = options;
    this.login = { username, password, db: 0 };
    // Callers here can wait: the timeout detects a node that hangs.
    this.#cluster = new RedisClusterClient({ ...options, address });
  }

  get errors(): RedisErrors {
    return this.#cluster.errors;
  }

  get commands(): KeyedCommands {
    return this.#cluster.commands;
  }

  async ready(): Promise<void> {
    if (this.#cluster.topology.masters.length === 0) await this.#cluster.open();
    else await this.#cluster.connected();
  }

  all(): readonly ServerToScan[] {
    return this.#cluster.topology.masters
      .map(({ place, connection }) => ({
        name: placeName(place),
        send: (name: string, args: string[]) => connection.send(name, args),
      }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async endpoint(): Promise<RedisAddress['endpoint']> {
    await this.ready();
    const { nodes, topology, errors } = this.#cluster;
    const [reached] = nodes.reached;
    if (reached === undefined) throw errors.notConnected(topology.lastFailure);
    return reached.place;
  }

  close(): void {
    this.#cluster.close();
  }
}
