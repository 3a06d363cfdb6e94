/** Log lines about the export of statistics: a part of `lines.ts`. */
import type { Logger } from '../../process/log/logger.ts';

/** Logged once for a metric. A statistic's name may contain data of callers, so it is in a separate line, at debug. */
export function metricNameTaken(log: Logger, stat: string, metric: string): void {
  const text = 'Prometheus does not get a statistic, because its metric has another type';
  log.error(text, { metric });
  log.debug(text, { stat });
}

/** Log lines about the receiver of a sink. */
interface ReceiverLines {
  /** Logged when it is first reached, and after an outage. */
  up(): void;
  /** Logged once an outage. */
  down(reason: string): void;
}

const otherSinks =
  'alternatives: USE_PROMETHEUS=true, USE_DOG_STATSD=true, USE_STATSD=false (standard output), DISABLE_STATS=true';

export function statsdLines(log: Logger, address: string): ReceiverLines {
  let wasDown = false;
  return {
    up: () => {
      if (wasDown) log.warn('Connected to the statsd receiver again', { address });
      else log.info('Connected to the statsd receiver', { address });
    },
    down: (reason) => {
      // statsd is the default, so the user may not have asked for it.
      const hint = wasDown ? undefined : otherSinks;
      wasDown = true;
      log.warn('No connection to the statsd receiver: trying again every 3 s', { address, reason, hint });
    },
  };
}

/** The receiver is up as far as UDP can show: nothing was rejected for a while. */
export function dogStatsdLines(log: Logger, address: string): ReceiverLines {
  let wasDown = false;
  return {
    up: () => {
      if (wasDown) log.warn('Sending statistics to the dogstatsd receiver again', { address });
      else log.info('Sending statistics to the dogstatsd receiver', { address });
    },
    down: (reason) => {
      wasDown = true;
      log.warn('The dogstatsd receiver does not answer: trying again every 3 s', { address, reason });
    },
  };
}
