/** Who asks, and what he may: what listeners ask of whoever knows callers, and know no more of them than this. */
import type { Peer } from '../net/peer.ts';
import type { GrpcStatus } from './handlers.ts';

/** What all requests of a connection share. */
export interface CallerConnection {
  readonly peer: Peer;
  /** The gate's own: what it found out about the peer so far. */
  callerMemo: unknown;
}

/** Bits: what a request asks for beyond being answered. */
export const Right = { ASK: 1, REFUND: 2, OVERRIDE: 4, READ: 8, ADMIN: 16 } as const;

/** A caller on one connection. */
export interface AdmittedCaller {
  readonly refused: undefined;
  /** What it may not; undefined when it may do all of `rights` (bits of `Right`) in the domain. A refusal is counted. */
  refusal(domain: string, rights: number): GrpcStatus | undefined;
}

export interface CallerRefusal {
  readonly refused: GrpcStatus;
}

/** Ours: a second fills every bucket up, whatever the rate. */
export const retryAfterSeconds = 1;

/** Stands for several fields of a request: it is not clear who is meant, so it is nobody's. RFC 9110, section 5.3. */
export const severalAuthorizations = '(several)';

/** Asked before anything of a request is read. */
export interface CallerGate {
  /** `authorization` is the field of that name, empty where there is none. A refusal is counted. */
  admit(connection: CallerConnection, authorization: string): AdmittedCaller | CallerRefusal;
}
