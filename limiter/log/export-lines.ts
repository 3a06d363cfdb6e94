/** What is logged of statistics on their way out: a part of `lines.ts`. */
import type { Logger } from '../../process/log/logger.ts';

/** Once for a metric. A statistic's name may hold what callers sent: it has a line of its own, at debug. */
export function metricNameTaken(log: Logger, stat: string, metric: string): void {
  const text = 'A statistic is not served to Prometheus: its metric has another type';
  log.error(text, { metric });
  log.debug(text, { stat });
}

/** What is logged of the receiver of a sink. */
interface ReceiverLines {
  /** For the first time, or after an outage. */
  up(): void;
  /** Once an outage. */
  down(reason: string): void;
}

const otherSinks =
  'other ways: USE_PROMETHEUS=true, USE_DOG_STATSD=true, USE_STATSD=false (standard output), DISABLE_STATS=true';

export function statsdLines(log: Logger, address: string): ReceiverLines {
  let wasDown = false;
  return {
    up: () => {
      if (wasDown) log.warn('Connected to the statsd receiver again', { address });
      else log.info('Connected to the statsd receiver', { address });
    },
    down: (reason) => {
      // Who did not ask for statsd gets it by default.
      const hint = wasDown ? undefined : otherSinks;
      wasDown = true;
      log.warn('No connection to the statsd receiver: trying again every 3 s', { address, reason, hint });
    },
  };
}

/** It is up as far as UDP reports: nothing was refused for a while. */
export function dogStatsdLines(log: Logger, address: string): ReceiverLines {
  let wasDown = false;
  return {
    up: () => {
      if (wasDown) log.warn('Sending statistics to the dogstatsd receiver again', { address });
      else log.info('Sending statistics to the dogstatsd receiver', { address });
    },
    down: (reason) => {
      wasDown = true;
      log.warn('The dogstatsd receiver is not there: trying again every 3 s', { address, reason });
    },
  };
}
