/** The bounds on connections to the HTTP ports: operators and probes, the secret lookup, and admission. */
import {
  type HttpConnectionsOptions,
  httpRejections,
  httpRejectionTexts,
} from '../../process/http/http-connections.ts';
import { type ThrottledLine, throttledLine } from '../../process/log/log-throttle.ts';
import { ConnectionMemory } from '../../process/net/connection-memory.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { LoopTurns } from '../../process/time/loop-turns.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';

/** Chosen: the bound of each port, far above the number of connections that API servers, probes, scrapers and operators open. */
const maxConnections = 1_000;
/** Chosen: the bound of all ports together, which is a twelfth of the memory that the chart allows, and eight of the largest reviews. */
const maxBufferedBytes = 64 * 1024 * 1024;

export interface CallerConnectionsOptions extends Telemetry {
  clock: Clock;
  timers: Timers;
}

export class CallerConnections {
  readonly #options: CallerConnectionsOptions;
  readonly #connectionMemory: ConnectionMemory;
  readonly #turns = new LoopTurns();
  readonly #wasCut: ThrottledLine<{ listener: string; peer: string; reason: string }>;

  constructor(options: CallerConnectionsOptions) {
    const { timers, metrics } = options;
    this.#options = options;
    for (const reason of httpRejections) metrics.all.httpRejected.inc({ reason }, 0);
    this.#connectionMemory = new ConnectionMemory({ maxBytes: maxBufferedBytes, timers });
    this.#wasCut = throttledLine(options, lines.callerConnectionCut);
  }

  /** Returns the bounds for one listener, by its name in logs. */
  of(listener: string): HttpConnectionsOptions {
    return {
      maxConnections,
      connectionMemory: this.#connectionMemory,
      turns: this.#turns,
      changed: () => {},
      rejected: (rejection, peer) => {
        this.#options.metrics.all.httpRejected.inc({ reason: rejection });
        this.#wasCut({ listener, peer, reason: httpRejectionTexts[rejection] }, rejection);
      },
    };
  }
}
