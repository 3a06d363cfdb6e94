/** Log lines about connections of callers and about certificates. */
import { error, info, warn } from '../../process/log/log-line.ts';
import type { Logger } from '../../process/log/logger.ts';

/** One connection that the limiter rejected or ended. `times` counts those since the last line, including this one. */
export interface ConnectionEnd {
  /** The listener, if it is not that of gRPC. */
  listener?: string;
  peer: string;
  /** The last part of the statistic's name. */
  counter: string;
  reason: string;
  times: number;
}

interface Certificate {
  listener: 'gRPC' | 'HTTP';
  expires: string;
}

const ofCertificate = ({ expires }: Certificate) => ({ expires });

/** The lines with a `ConnectionEnd` are logged at most once a minute for each reason. */
export const connectionLines = {
  handshakeFailed: warn<ConnectionEnd>('A TLS handshake failed'),
  connectionRejected: warn<ConnectionEnd>('Rejected or ended a connection because of its peer'),
  /** The connection stays open. */
  requestUnfinished: warn<ConnectionEnd>('Reset a request because of its peer'),
  /** Connections hold their maximum together, and this one, or its address, held most. */
  connectionUsedTooMuchMemory: warn<ConnectionEnd>('Ended a request or a connection to make room for others'),
  /** The same for the HTTP, debug and Prometheus listeners. */
  httpConnectionRejected: warn<ConnectionEnd>('Ended an HTTP request or connection to make room for others'),
  /** A setting ends such connections, so this is not an error. */
  connectionIdle: info<ConnectionEnd>('Ended a connection'),
  certificateMissing: warn<ConnectionEnd>('Rejected a request without a valid certificate'),
  /** Logged for HTTP_ALLOWED_HOSTS. */
  hostRejected: warn<ConnectionEnd>('Rejected a request because of its Host header'),

  /** Open connections keep the previous certificate. After a failure this is a warning, because it ends the problem. */
  certificateChanged: (log: Logger, certificate: Certificate, wasLastRejected: boolean): void =>
    log[wasLastRejected ? 'warn' : 'info']('A new certificate is in use', { ...certificate }),
  certificateRejected: error<{ listener: Certificate['listener']; reason: string }>(
    'A new certificate cannot be used: the previous one stays in use',
  ),
  /** Callers that check the certificate will not connect. */
  certificateExpired: warn<Certificate>(
    ({ listener }) => `The certificate of the ${listener} listener has expired`,
    ofCertificate,
  ),
  certificateExpiresSoon: warn<Certificate>(
    ({ listener }) => `The certificate of the ${listener} listener expires within a day`,
    ofCertificate,
  ),
  /** Logged once for each reason, until the files are good again. */
  clientTlsRejected: error<{ client: 'redis' | 'memcache' | 'xDS'; reason: string }>(
    'The TLS files of a client cannot be used: the last valid ones stay in use',
  ),
};
