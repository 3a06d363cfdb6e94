/**
 * The life of a connection:
 *
 *                 preface             SETTINGS            drain()              PING answered, or
 *     PREFACE ─────────────▶ SETTINGS ─────────▶ OPEN ─────────────▶ DRAINING  drainPingMs went by
 *        │                       │                │  GOAWAY(2^31-1)  │ PING    ──────────▶ GOING
 *        │ drain(),              │ drain()        │                  ▲                      │ GOAWAY(last)
 *        │ no preface for        └──────────────────────────────────▶│                      │
 *        │ drainPingMs                            │ the peer's GOAWAY, or FIN               │
 *        ▼                                        └────────────────────────────────────────▶│
 *     CLOSED                                                                                │ no stream is left:
 *                                                                                           │ GOAWAY(last) if none yet
 *     any state ── a violation: GOAWAY(code), the transport ends ──▶ CLOSED ◀───────────────┘
 *     any state ── lost() ─────────────────────────────────────────▶ CLOSED
 *
 * Nothing is written before the preface arrived, so that other protocols on the port see a closed connection and
 * nothing else; a peer that sends it to a connection which is to drain comes to DRAINING at once. In GOING new streams
 * are ignored once the last GOAWAY said so (RFC 9113, section 6.8): after the peer's own they are served.
 */
export const Phase = { PREFACE: 0, SETTINGS: 1, OPEN: 2, DRAINING: 3, GOING: 4, CLOSED: 5 } as const;
export type Phase = (typeof Phase)[keyof typeof Phase];
