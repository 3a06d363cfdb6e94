import type { LimiterReport } from '../model/limiter-report.ts';
import type { ReviewOutcome } from './token-reviews.ts';

/** Told as it happens. What says how often it happened is told at most once a minute. */
export interface XdsListener {
  /** What `limiters` gives is different now; called after the event that made it so. */
  changed(): void;

  /** A limiter asked for its rules for the first time on this stream. */
  connected(limiter: LimiterReport): void;
  /** Its stream is over, whoever ended it. */
  disconnected(limiter: LimiterReport): void;
  sent(limiter: LimiterReport, response: { version: string; bytes: number }): void;
  /** `afterMs` is the time since the response was handed to the transport. */
  accepted(limiter: LimiterReport, answer: { version: string; afterMs: number }): void;
  /** It keeps what it had; `message` is its own, shortened where it is long. */
  refused(limiter: LimiterReport, answer: { version: string; message: string }): void;
  /** It neither accepted nor refused in time, so its stream is ended. */
  unanswered(limiter: LimiterReport, wait: { version: string; timeoutMs: number }): void;

  /** A stream was refused for what it said or for who it is. */
  streamRefused(refusal: { peer: string; reason: string; times: number }): void;
  /** A stream was refused, since its caller did not prove who it is. Told each time. */
  unproven(): void;
  /** The same, told now and then. */
  strangerRefused(refusal: { peer: string; reason: string; times: number }): void;
  /** Told each time. */
  tokenReviewed(outcome: ReviewOutcome): void;
  /** The API server could not be asked. */
  tokenReviewFailed(failure: { reason: string; times: number }): void;
  tokensChanged(): void;
  /** The file holds no good tokens; those before stay. */
  tokensRefused(reason: string): void;
  tooManyStreams(limit: { maxStreams: number; peer: string; times: number }): void;
  /** Told once a stream; such requests stay unanswered. */
  otherTypeAsked(request: { peer: string; typeUrl: string }): void;

  /** Clients with the usual limit cannot take it. Once a version. */
  oversize(response: { fleet: string; version: string; bytes: number; limitBytes: number }): void;

  certificateChanged(): void;
  /** The files hold no usable certificate; the one before stays in use. */
  certificateRefused(reason: string): void;
  handshakeFailed(failure: { peer: string; reason: string; times: number }): void;

  /** A defect of ours ended one call. */
  fault(method: string, error: unknown): void;
}
