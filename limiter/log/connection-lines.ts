/** Log lines about connections of gRPC callers and about the server certificate: a part of `lines.ts`. */
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

/** Logged at most once a minute for each reason. */
export function handshakeFailed(log: Logger, failure: ConnectionEnd): void {
  log.warn('A TLS handshake failed', { ...failure });
}

/** Logged at most once a minute for each reason. */
export function connectionRejected(log: Logger, end: ConnectionEnd): void {
  log.warn('Rejected or ended a connection because of its peer', { ...end });
}

/** Logged at most once a minute for each reason. The connection stays open. */
export function requestUnfinished(log: Logger, end: ConnectionEnd): void {
  log.warn('Reset a request because of its peer', { ...end });
}

/** Connections hold their maximum together, and this one, or its address, held most. At most once a minute. */
export function connectionUsedTooMuchMemory(log: Logger, end: ConnectionEnd): void {
  log.warn('Ended a request or a connection to make room for others', { ...end });
}

/** The same for the HTTP, debug and Prometheus listeners. */
export function httpConnectionRejected(log: Logger, end: ConnectionEnd): void {
  log.warn('Ended an HTTP request or connection to make room for others', { ...end });
}

/** A setting ends such connections, so this is not an error. At most once a minute for each reason. */
export function connectionIdle(log: Logger, end: ConnectionEnd): void {
  log.info('Ended a connection', { ...end });
}

/** Logged at most once a minute. */
export function certificateMissing(log: Logger, end: ConnectionEnd): void {
  log.warn('Rejected a request without a valid certificate', { ...end });
}

/** Logged for HTTP_ALLOWED_HOSTS, at most once a minute. */
export function hostRejected(log: Logger, end: ConnectionEnd): void {
  log.warn('Rejected a request because of its Host header', { ...end });
}

type CertificateOwner = 'gRPC' | 'HTTP';

/** Open connections keep the previous certificate. After a failure this is a warning, because it ends the problem. */
export function certificateChanged(
  log: Logger,
  listener: CertificateOwner,
  expires: string,
  wasLastRejected: boolean,
): void {
  log[wasLastRejected ? 'warn' : 'info']('A new certificate is in use', { listener, expires });
}

export function certificateRejected(log: Logger, listener: CertificateOwner, reason: string): void {
  log.error('A new certificate cannot be used: the previous one stays in use', { listener, reason });
}

/** Logged once for each reason, until the files are good again. */
export function clientTlsRejected(log: Logger, client: 'redis' | 'memcache' | 'xDS', reason: string): void {
  log.error('The TLS files of a client cannot be used: the last valid ones stay in use', { client, reason });
}

/** Callers that check the certificate will not connect. */
export function certificateExpired(log: Logger, listener: CertificateOwner, expires: string): void {
  log.warn(`The certificate of the ${listener} listener has expired`, { expires });
}

export function certificateExpiresSoon(log: Logger, listener: CertificateOwner, expires: string): void {
  log.warn(`The certificate of the ${listener} listener expires within a day`, { expires });
}
