/** The bounds that all connections of a process share, with what is logged and counted of them. One for each thread. */

import {
  type HttpConnectionsOptions,
  type HttpRefusal,
  httpRefusals,
  httpRefusalTexts,
} from '../../process/http/http-connections.ts';
import type { Logger } from '../../process/log/logger.ts';
import { SeldomByKind } from '../../process/log/seldom.ts';
import { LoopTurns } from '../../process/loop-turns.ts';
import { HeldBytes, type SharedHoldings } from '../../process/net/held-bytes.ts';
import type { Timers } from '../../process/time/clock.ts';
import type { Clock } from '../../process/time/process-clock.ts';
import type { ConnectionEnd } from '../log/connection-lines.ts';
import * as lines from '../log/lines.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import { createHttpConnectionStats, registerHeldStats } from '../stats/registry/limiter-stats.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';

export interface OpenedConnections {
  /** What connections of every listener hold. */
  held: HeldBytes;
  /** In which what comes over them is served. */
  turns: LoopTurns;
  /** Of each HTTP listener. */
  http: HttpConnectionsOptions;
}

export interface ConnectionsParts {
  settings: Pick<LimiterSettings, 'connectionsMaxBytes' | 'httpMaxConnections'>;
  /** With those of the other threads; undefined where this one is alone. */
  shared: SharedHoldings | undefined;
  registry: StatsRegistry;
  clock: Clock;
  timers: Timers;
  log: Logger;
}

/** Whatever any peer can make happen is logged at most so often. */
const seldomMs = 60_000;

export function openConnections(parts: ConnectionsParts): OpenedConnections {
  const { settings, shared, registry, clock, timers, log } = parts;
  const held = new HeldBytes({ maxBytes: settings.connectionsMaxBytes, shared, timers });
  registerHeldStats(registry, held);
  const turns = new LoopTurns();
  let open = 0;
  const count = createHttpConnectionStats(registry, httpRefusals, () => open);
  const seldom = new SeldomByKind<Omit<ConnectionEnd, 'times'>>(clock, seldomMs, (end, times) =>
    lines.httpConnectionRefused(log, { ...end, times }),
  );
  return {
    held,
    turns,
    http: {
      held,
      turns,
      maxConnections: settings.httpMaxConnections,
      changed: (by) => {
        open += by;
      },
      refused: (counter: HttpRefusal, peer) => {
        count(counter);
        seldom.note(counter, { peer, counter, reason: httpRefusalTexts[counter] });
      },
    },
  };
}
