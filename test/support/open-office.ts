import type { MissingRight } from '../../limiter/operate/office/office.ts';
import { RedisOffice } from '../../limiter/operate/office/redis-office.ts';
import { openServers } from '../../limiter/operate/office/redis-servers.ts';
import {
  type ClusterAddress,
  parseRedisAddress,
  type RedisAddress,
  type SentinelAddress,
} from '../../limiter/stores/redis/wire/redis-address.ts';
import { systemTimers } from '../../process/time/clock.ts';

/** An office of a Redis, by `host:port` or an address; it connects when it is asked. */
export function openRedisOffice(
  where: string | RedisAddress | SentinelAddress | ClusterAddress,
  given: { prefix?: string; perSecond?: string; leases?: boolean; auth?: string; told?: MissingRight[] } = {},
): RedisOffice {
  const { prefix = '', perSecond, leases = false, auth = '', told = [] } = given;
  const options = { tls: undefined, timeoutMs: 5_000, timers: systemTimers, random: Math.random };
  const servers = (at: typeof where) =>
    openServers(
      typeof at === 'string' ? parseRedisAddress({ socketType: 'tcp', url: at, auth }) : at,
      options,
    );
  return new RedisOffice({
    main: servers(where),
    perSecond: perSecond === undefined ? undefined : servers(perSecond),
    prefix,
    leases,
    timers: systemTimers,
    onMissing: ({ command, message }) => told.push({ command, message }),
  });
}
