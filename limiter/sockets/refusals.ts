/** Why connections are not served, or served no longer: what is counted, and what is said of it. */
import { type ViolationReason, violationReasons, violationTexts } from '../http2/index.ts';

export const tlsRefusals = [
  /** The handshake failed or took too long. */
  'tls_handshake',
  /** The client did not choose HTTP/2 by ALPN. */
  'tls_no_h2',
  /** Its certificate is good, and not of the name asked for. */
  'tls_client_name',
] as const;
export type TlsRefusal = (typeof tlsRefusals)[number];

export type ConnectionRefusal =
  | ViolationReason
  | TlsRefusal
  | 'too_many_connections'
  | 'max_connection_age'
  | 'unfinished_request';

export const connectionRefusals: readonly ConnectionRefusal[] = [
  'too_many_connections',
  /** Its calls outlasted the grace after its age. */
  'max_connection_age',
  /** One call alone: its request was not complete in time. */
  'unfinished_request',
  ...tlsRefusals,
  ...violationReasons,
];

/** One connection and its end. */
export interface RefusedConnection {
  reason: ConnectionRefusal;
  /** Address and port, `unix socket`, or `unknown` of one that is gone already. */
  peer: string;
  /** The reason in words; of a handshake one of many. */
  problem: string;
}

/** In words what `reason` says, where there is nothing more exact. */
export function refusalText(reason: Exclude<ConnectionRefusal, TlsRefusal>): string {
  if (reason === 'too_many_connections') return 'as many connections as may be are open';
  if (reason === 'max_connection_age') return 'its calls outlasted the grace after its greatest age';
  if (reason === 'unfinished_request') return 'it began a request and did not end it in time';
  return violationTexts[reason];
}

export function isTlsRefusal(reason: ConnectionRefusal): boolean {
  return (tlsRefusals as readonly string[]).includes(reason);
}
