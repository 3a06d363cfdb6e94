/** Log lines about a Redis that is lost, stays away, comes back or rejects commands, as callbacks of its store. */

import { LogThrottle } from '../../process/log/log-throttle.ts';
import type { Logger } from '../../process/log/logger.ts';
import type { Clock } from '../../process/time/clock.ts';
import { rejectionHint } from '../stores/redis/wire/redis-error.ts';
import { lines } from './lines.ts';

/** An outage whose reasons never repeat must not flood the log. */
const maxReasonsReported = 10;

/**
 * `url` is the name of the store in lines, and `prefix` that of its settings. There is one line when the connection or a node is lost,
 * one for each reason why it does not come back, and one when it is back, however many attempts fail between them. Before the first
 * connection, the start reports its attempts.
 */
export function redisLines({
  log,
  clock,
  url,
  prefix,
  isCluster,
}: {
  log: Logger;
  clock: Clock;
  url: string;
  prefix: 'REDIS_' | 'REDIS_PERSECOND_';
  isCluster: boolean;
}) {
  let isLost = false;
  const lostNodes = new Set<string>();
  const reported = new Set<string>();
  const rejections = new LogThrottle<{ kind: string; reply: string }>(clock, ({ kind, reply }, times) =>
    lines.redisRejects(log, {
      url,
      reply,
      hint: rejectionHint({ code: kind, text: reply }, { prefix, isCluster }),
      further: times - 1,
    }),
  );
  const forgetReasons = (): void => {
    if (!isLost && lostNodes.size === 0) reported.clear();
  };
  return {
    onChange: (connected: boolean, reason?: string): void => {
      if (!connected) lines.redisConnectionLost(log, { url, reason: reason ?? '' });
      else if (isLost) lines.redisConnectionBack(log, { url });
      isLost = !connected;
      forgetReasons();
    },
    onNodeChange: (node: string, reached: boolean, reason?: string): void => {
      if (!reached) lines.redisNodeLost(log, { node, reason: reason ?? '' });
      else if (lostNodes.delete(node)) lines.redisNodeBack(log, { node });
      if (!reached) lostNodes.add(node);
      forgetReasons();
    },
    onFailure: (reason: string): void => {
      lines.redisConnectionFailed(log, { url, reason });
      if ((!isLost && lostNodes.size === 0) || reported.has(reason) || reported.size >= maxReasonsReported)
        return;
      reported.add(reason);
      lines.redisStaysAway(log, { url, reason });
    },
    // Proxies use their own messages, of which there may be many.
    onRejection: (code: string, reply: string): void => {
      const kind = /^[A-Z]{2,20}$/.test(code) ? code : 'ERR';
      rejections.note({ kind, reply }, kind);
    },
  };
}
