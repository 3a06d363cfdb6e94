import type { RedisOptions } from 'ioredis';
import type { ClientTls } from '../client-tls.ts';
import { masterConnector } from './master-connector.ts';
import type { RedisAddress } from './redis-address.ts';
import type { SentinelAddress } from './sentinel-address.ts';
import type { MasterPlace, Sentinels } from './sentinels.ts';

export interface RedisOptionsParts {
  address: RedisAddress | SentinelAddress;
  /** Bounds connecting and every command. */
  timeoutMs: number;
  tls: ClientTls | undefined;
  /** How long to wait before the next attempt; null: there is none. */
  retryStrategy: (attempt: number) => number | null;
  sentinels: Sentinels | undefined;
  /** Told where each attempt goes, with sentinels. */
  onPlace: (place: MasterPlace) => void;
}

/** Options of ioredis with which nothing waits for a connection and nothing is sent twice. */
export function redisOptions(parts: RedisOptionsParts): Omit<RedisOptions, 'replyMapping'> {
  const { address, timeoutMs, tls, sentinels, onPlace, retryStrategy } = parts;
  return {
    ...('endpoint' in address ? address.endpoint : {}),
    ...(sentinels === undefined ? {} : { Connector: masterConnector({ sentinels, tls, onPlace }) }),
    ...(address.username === undefined ? {} : { username: address.username }),
    ...(address.password === undefined ? {} : { password: address.password }),
    ...(tls === undefined ? {} : { tls: tls.options }),
    db: address.db,
    protocol: 2,
    lazyConnect: true,
    connectTimeout: timeoutMs,
    commandTimeout: timeoutMs,
    disconnectTimeout: 1,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // INFO and CLIENT SETINFO are unknown to proxies and often forbidden.
    enableReadyCheck: false,
    disableClientInfo: true,
    retryStrategy,
  };
}
