/** Log lines about the receiver of a sink, as callbacks of the sink. */
import { info, warn } from '../../process/log/log-line.ts';
import type { Logger } from '../../process/log/logger.ts';

interface Receiver {
  address: string;
}

interface LostReceiver extends Receiver {
  reason: string;
  hint: string | undefined;
}

const rows = {
  statsd: {
    connected: info<Receiver>('Connected to the statsd receiver'),
    connectedAgain: warn<Receiver>('Connected to the statsd receiver again'),
    lost: warn<LostReceiver>('No connection to the statsd receiver: trying again every 3 s'),
    // statsd is the default, so the user may not have asked for it.
    firstHint:
      'alternatives: USE_PROMETHEUS=true, USE_DOG_STATSD=true, USE_STATSD=false (standard output), DISABLE_STATS=true',
  },
  /** The receiver is up as far as UDP can show: nothing was rejected for a while. */
  dogstatsd: {
    connected: info<Receiver>('Sending statistics to the dogstatsd receiver'),
    connectedAgain: warn<Receiver>('Sending statistics to the dogstatsd receiver again'),
    lost: warn<LostReceiver>('The dogstatsd receiver does not answer: trying again every 3 s'),
    firstHint: undefined,
  },
};

export function receiverLines(log: Logger, sink: keyof typeof rows, address: string) {
  const { connected, connectedAgain, lost, firstHint } = rows[sink];
  let wasDown = false;
  return {
    /** Logged when it is first reached, and after an outage. */
    up: (): void => (wasDown ? connectedAgain : connected)(log, { address }),
    /** Logged once an outage. */
    down: (reason: string): void => {
      lost(log, { address, reason, hint: wasDown ? undefined : firstHint });
      wasDown = true;
    },
  };
}
