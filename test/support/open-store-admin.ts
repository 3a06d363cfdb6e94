import { openServers } from '../../limiter/operate/store-admin/redis-servers.ts';
import { RedisStoreAdmin } from '../../limiter/operate/store-admin/redis-store-admin.ts';
import type { MissingRight } from '../../limiter/operate/store-admin/store-admin.ts';
import {
  type ClusterAddress,
  parseRedisAddress,
  type RedisAddress,
  type SentinelAddress,
} from '../../limiter/stores/redis/wire/redis-address.ts';
import { systemTimers } from '../../process/time/clock.ts';

/** A store admin of a Redis, by `host:port` or an address; it connects when it is asked. */
export function openRedisStoreAdmin(
  where: string | RedisAddress | SentinelAddress | ClusterAddress,
  given: {
    prefix?: string;
    perSecond?: string;
    leases?: boolean;
    auth?: string;
    reported?: MissingRight[];
  } = {},
): RedisStoreAdmin {
  const { prefix = '', perSecond, leases = false, auth = '', reported = [] } = given;
  const options = { tls: undefined, timeoutMs: 5_000, timers: systemTimers, random: Math.random };
  const servers = (at: typeof where) =>
    openServers(
      typeof at === 'string' ? parseRedisAddress({ socketType: 'tcp', url: at, auth }) : at,
      options,
    );
  return new RedisStoreAdmin({
    main: servers(where),
    perSecond: perSecond === undefined ? undefined : servers(perSecond),
    prefix,
    leases,
    recordMs: 600_000,
    timers: systemTimers,
    onMissing: ({ command, message }) => reported.push({ command, message }),
  });
}
