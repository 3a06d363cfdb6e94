import type { Logger } from '../../process/log/logger.ts';
import type { ControlPlaneMetrics } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';
import type { XdsListener } from './xds-listener.ts';

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
