import type { Logger } from '../../process/log/logger.ts';
import type { LimiterReport } from '../model/fleet-snapshot.ts';
import type { ControlPlaneMetrics } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';
import type { ReviewOutcome } from './token-reviews.ts';

export interface XdsHappeningsOptions {
  log: Logger;
  metrics: ControlPlaneMetrics;
  /** What limiters answered, or which there are, is different now. */
  changed(): void;
  /** A snapshot went to a limiter. */
  sent(): void;
}

/** What happens on the listener for limiters, as log lines and metrics. */
export function xdsHappenings({ log, metrics, changed, sent }: XdsHappeningsOptions): XdsListener {
  /** Ids of limiters that were sent a snapshot and have not answered it. */
  const unanswered = new Set<string>();
  return {
    changed,
    connected: (limiter) => lines.limiterConnected(log, limiter),
    disconnected: (limiter) => {
      const left = unanswered.delete(limiter.id) ? lines.limiterLeftUnanswered : lines.limiterDisconnected;
      left(log, limiter);
    },
    sent: (limiter, { bytes }) => {
      unanswered.add(limiter.id);
      metrics.pushed(bytes);
      sent();
    },
    accepted: (limiter, { version, afterMs }) => {
      unanswered.delete(limiter.id);
      metrics.acknowledged(afterMs);
      lines.limiterAccepted(log, limiter, version);
    },
    refused: (limiter, answer) => {
      unanswered.delete(limiter.id);
      metrics.refused();
      lines.limiterRefused(log, limiter, answer);
    },
    unanswered: (limiter, wait) => {
      unanswered.delete(limiter.id);
      metrics.unanswered();
      lines.limiterUnanswered(log, limiter, wait);
    },
    streamRefused: (refusal) => {
      metrics.streamsRefused('request', refusal.times);
      lines.streamRefused(log, refusal);
    },
    unproven: () => metrics.streamsRefused('identity', 1),
    strangerRefused: (refusal) => lines.streamRefused(log, refusal),
    tokenReviewed: (outcome) => metrics.tokenReviewed(outcome),
    tokenReviewFailed: (failure) => lines.tokenReviewFailed(log, failure),
    tokensChanged: () => lines.secretRotated(log, 'XDS_TOKENS_FILE'),
    tokensRefused: (reason) => lines.secretRefused(log, 'XDS_TOKENS_FILE', reason),
    tooManyStreams: (limit) => {
      metrics.streamsRefused('limit', limit.times);
      lines.tooManyStreams(log, limit);
    },
    otherTypeAsked: (request) => lines.otherTypeAsked(log, request),
    oversize: (response) => {
      metrics.oversize();
      lines.snapshotOversize(log, response);
    },
    certificateChanged: () => lines.certificateChanged(log, 'xDS'),
    certificateRefused: (reason) => lines.certificateRefused(log, 'xDS', reason),
    handshakeFailed: (failure) => {
      metrics.handshakesFailed(failure.times);
      lines.handshakeFailed(log, failure);
    },
    fault: (method, error) => {
      metrics.fault();
      lines.fault(log, method, error);
    },
  };
}

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
