/** All log lines of the control plane, with one function for each. */
import { errorText } from '../../process/log/error-text.ts';
import type { Logger } from '../../process/log/logger.ts';
import type { LimiterReport } from '../model/fleet-snapshot.ts';

export {
  libraryWarning,
  settingRejected,
  settingWarning,
  shutdownLines,
} from '../../process/log/process-lines.ts';

/** The process ends after this. */
export function startFailed(log: Logger, error: unknown): void {
  log.fatal(`Cannot start: ${errorText(error)}`);
}

export function listeningForXds(log: Logger, address: string): void {
  log.announce(`Listening for xDS on '${address}'`);
}

export function listeningForHttp(log: Logger, address: string): void {
  log.announce(`Listening for HTTP on '${address}'`);
}

export function listeningForApi(log: Logger, address: string): void {
  log.announce(`Listening for the secret lookup on '${address}'`);
}

export function listeningForAdmission(log: Logger, address: string): void {
  log.announce(`Listening for admission reviews on '${address}'`);
}

/** From here on, limiters get rules. */
export function sourceListed(log: Logger, objects: number): void {
  log.info('Read the first complete list of RateLimitConfigs', { objects });
}

/** During the outage, limiters get the last known objects, or nothing before the first list. */
export function sourceUnreachable(log: Logger, reason: string, isListed: boolean): void {
  const meanwhile = isListed
    ? 'objects that are known are still served'
    : 'limiters get no rules until the first list is read';
  log.error(`Cannot watch RateLimitConfigs: ${meanwhile}`, { reason });
}

export function sourceReachable(log: Logger): void {
  log.warn('Watching RateLimitConfigs again');
}

export function objectSkipped(log: Logger, kind: string, object: string, reason: string): void {
  log.error(`A ${kind} cannot be read`, { object, reason });
}

/** The definition is not installed, so there are no such objects. */
export function overridesUnknown(log: Logger, reason: string): void {
  log.warn('RateLimitOverrides are not watched', { reason });
}

/** Logged once for each field and process. */
export function fieldIgnored(log: Logger, field: string): void {
  log.warn('A field of a newer CRD has its default value and is ignored', { field });
}

/**
 * Until the schemas can be read, the control plane assumes that each field unknown to this version has a value other than its
 * default.
 */
export function schemasUnreadable(log: Logger, reason: string): void {
  log.error('The schemas of the CRDs cannot be read from /openapi/v3', { reason });
}

/** Logged if an API server has answered in this way for 30 s. Its last known objects stay in force. */
export function accessDenied(log: Logger, denial: { verb: string; resource: string; reason: string }): void {
  log.error(
    'The API server denies this control plane a request that it needs: check its role and its token',
    denial,
  );
}

export function manifestProblem(log: Logger, place: string, text: string): void {
  log.error(`${place}: ${text}`);
}

export function fileCorrected(log: Logger, file: string): void {
  log.info(`${file}: its errors are corrected`);
}

/** Logged at the start. */
export function startIsBlocked(log: Logger, problems: readonly string[]): void {
  log.error('Limiters get no new rules until you correct these files or move them out of the folder', {
    problems,
  });
}

/** Logged only for decisions that change the rules of a fleet. */
export function decided(
  log: Logger,
  fields: { objects: number; fleets: number; changedFleets: number; durationMs: number },
): void {
  log.info('Serving new snapshots', { ...fields, durationMs: Math.round(fields.durationMs) });
}

/** Logged at the start of a replica. Nothing is served for `waitMs`, unless another replica stores the specs before. */
export function specsUnknown(log: Logger, fields: { objects: string; waitMs: number }): void {
  log.warn(
    'Limiters have rules of objects whose accepted specs are not stored: waiting for a replica that has these specs',
    fields,
  );
}

/** `inForce`: the generation that limiters have instead. */
export function objectRejected(
  log: Logger,
  kind: string,
  fields: {
    object: string;
    generation: number;
    inForce: number | undefined;
    reason: string;
    message: string;
  },
): void {
  log.warn(`A ${kind} is not accepted`, fields);
}

/** Logged after a rejection. */
export function objectAccepted(log: Logger, kind: string, object: string, generation: number): void {
  log.info(`A ${kind} is accepted again`, { object, generation });
}

export function overrideEnded(log: Logger, object: string, message: string): void {
  log.info('A RateLimitOverride has ended', { object, message });
}

export function limiterConnected(log: Logger, limiter: LimiterReport): void {
  const { name, fleet, isWeir } = limiter;
  log.info('A limiter connected', { limiter: name, fleet, isWeir });
}

export function limiterDisconnected(log: Logger, { name, fleet }: LimiterReport): void {
  log.info('A limiter disconnected', { limiter: name, fleet });
}

/** The limiter may be unable to apply its snapshot. */
export function limiterLeftUnanswered(log: Logger, { name, fleet }: LimiterReport): void {
  log.warn('A limiter disconnected before it answered a snapshot: see its log for the cause', {
    limiter: name,
    fleet,
  });
}

export function limiterAccepted(log: Logger, { name, fleet }: LimiterReport, version: string): void {
  log.debug('A limiter accepted a snapshot', { limiter: name, fleet, version });
}

export function limiterRejected(
  log: Logger,
  { name, fleet }: LimiterReport,
  answer: { version: string; message: string },
): void {
  log.error('A limiter rejected a snapshot', { limiter: name, fleet, ...answer });
}

export function limiterUnanswered(
  log: Logger,
  { name, fleet }: LimiterReport,
  wait: { version: string; timeoutMs: number },
): void {
  log.error('A limiter did not answer a snapshot in time: the control plane ends its stream', {
    limiter: name,
    fleet,
    ...wait,
  });
}

export function streamRejected(
  log: Logger,
  rejection: { peer: string; reason: string; times: number },
): void {
  log.error('Rejected a stream', rejection);
}

export function tokenReviewFailed(log: Logger, failure: { reason: string; times: number }): void {
  log.error('Cannot ask the API server about tokens of limiters', failure);
}

export function tooManyStreams(
  log: Logger,
  limit: { maxStreams: number; peer: string; times: number },
): void {
  log.error('Rejected a stream: XDS_MAX_STREAMS is reached', limit);
}

export function connectionCut(log: Logger, cut: { peer: string; reason: string; times: number }): void {
  log.error('Closed a connection of a limiter', cut);
}

export function callerConnectionCut(
  log: Logger,
  cut: { listener: string; peer: string; reason: string; times: number },
): void {
  log.warn('Closed a connection or rejected a request of an HTTP listener', cut);
}

export function otherTypeAsked(log: Logger, request: { peer: string; typeUrl: string }): void {
  log.warn('A client asks for a resource type that the control plane does not serve', request);
}

export function snapshotOversize(
  log: Logger,
  response: { fleet: string; version: string; bytes: number; limitBytes: number },
): void {
  log.error('A snapshot is larger than gRPC clients accept by default', response);
}

/** `listener`: the listener that uses the certificate. */
export function certificateChanged(log: Logger, listener: string): void {
  log.info('A new certificate is in use', { listener });
}

export function certificateRejected(log: Logger, listener: string, reason: string): void {
  log.error('A new certificate cannot be used: the previous one stays in use', { listener, reason });
}

export function handshakeFailed(log: Logger, failure: { peer: string; reason: string; times: number }): void {
  log.warn('A TLS handshake failed', failure);
}

export function startedLeading(log: Logger, replica: string): void {
  log.announce('Leading', { replica });
}

export function stoppedLeading(log: Logger, replica: string): void {
  log.warn('No longer leading', { replica });
}

export function leaderChanged(log: Logger, leader: string | undefined): void {
  if (leader === undefined) log.info('No replica leads');
  else log.info('Another replica leads', { leader });
}

/** Logged at once, and then once a minute while it lasts. */
export function leaseFailed(log: Logger, failure: { reason: string; times: number }): void {
  log.error('Could not read or write a Lease object: trying again', failure);
}

export function reportsUnreachable(log: Logger, reason: string): void {
  log.error('Cannot watch reports of other replicas', { reason });
}

export function reportsReachable(log: Logger): void {
  log.warn('Watching reports of other replicas again');
}

export function reportSkipped(log: Logger, name: string, reason: string): void {
  log.error('Cannot read a report of another replica', { name, reason });
}

export function reportNotPublished(log: Logger, error: unknown): void {
  log.error('Could not publish the answers of limiters: trying again', { error });
}

export function replicaCleanedUp(log: Logger, replica: string): void {
  log.info('Deleted the reports of a replica that has ended', { replica });
}

export function cleanupFailed(log: Logger, replica: string, error: unknown): void {
  log.error('Could not delete the reports of a replica that has ended: trying again', { replica, error });
}

/** `retryInMs`: undefined if the status is not tried again. A newer one may be. */
export function statusNotWritten(
  log: Logger,
  failure: { object: string; error: unknown; retryInMs?: number | undefined },
): void {
  log.error('Could not write a status', failure);
}

/** Logged once for all objects of the namespace, and again if the next object that is tried is rejected, too. */
export function statusesForbidden(
  log: Logger,
  plural: string,
  failure: { namespace: string; error: unknown; retryInMs: number },
): void {
  log.error(
    `The right to patch '${plural}/status' is missing: the control plane writes no status in the namespace`,
    failure,
  );
}

/**
 * Logged at once, and then once a minute while it lasts. The object is the last one. `by`: undefined if the status names no control
 * plane.
 */
export function statusOverwritten(
  log: Logger,
  found: { object: string; by: string | undefined; manager: string | undefined; times: number },
): void {
  log.warn('Another client changed a status: the control plane writes it again', found);
}

/** Logged as often as `statusOverwritten`. `yields`: this control plane leaves such objects to the other one for ten minutes. */
export function classConflict(
  log: Logger,
  found: { object: string; by: string; yields: boolean; times: number },
): void {
  log.error('Another control plane writes to RateLimitConfigs of the same class', found);
}

export function eventNotRecorded(log: Logger, error: unknown): void {
  log.error('Could not record an event', { error });
}

export function acceptedSpecsUnreachable(log: Logger, reason: string): void {
  log.error('Cannot watch stored specs', { reason });
}

export function acceptedSpecsReachable(log: Logger): void {
  log.warn('Watching stored specs again');
}

export function acceptedSpecSkipped(log: Logger, name: string, reason: string): void {
  log.error('Cannot read a stored spec', { name, reason });
}

export function acceptedSpecNotStored(log: Logger, object: string, error: unknown): void {
  log.error('Could not store the accepted spec of an object: a restart would lose it', { object, error });
}

export function acceptedSpecTooLarge(
  log: Logger,
  fields: { object: string; bytes: number; maxBytes: number },
): void {
  log.error('The accepted spec of an object is too large to store: a restart would lose it', fields);
}

export function removedUnreachable(log: Logger, reason: string): void {
  log.error('Cannot watch the stored list of deleted objects for webhooks', { reason });
}

export function removedReachable(log: Logger): void {
  log.warn('Watching the stored list of deleted objects for webhooks again');
}

export function removedSkipped(log: Logger, name: string, reason: string): void {
  log.error('Cannot read the stored list of deleted objects for webhooks', { name, reason });
}

export function removedNotStored(log: Logger, error: unknown): void {
  log.error('Could not store deleted objects: a restart would lose their webhooks', { error });
}

export function removedTooLarge(log: Logger, counts: { objects: number; stored: number }): void {
  log.error(
    'The ConfigMap is too small for all deleted objects: a restart would lose some of their webhooks',
    counts,
  );
}

/** `most`: the value of WEBHOOK_QUEUE_SIZE. */
export function removedDropped(log: Logger, fields: { count: number; max: number }): void {
  log.error('Too many deleted objects wait for limiters: dropped the webhooks of the oldest ones', fields);
}

export function domainsUnreachable(log: Logger, reason: string): void {
  log.error('Cannot watch the record of domain holders: the last known record stays in use', { reason });
}

export function domainsReachable(log: Logger): void {
  log.warn('Watching the record of domain holders again');
}

export function domainsSkipped(log: Logger, name: string, reason: string): void {
  log.error('Cannot read the record of domain holders: the leader creates a new one', {
    name,
    reason,
  });
}

export function domainsMissing(log: Logger): void {
  log.error('The record of domain holders was deleted: the leader creates a new one');
}

export function domainsNotStored(log: Logger, error: unknown): void {
  log.error('Could not store the record of domain holders: trying again', { error });
}

/** `what`: a kind of objects, or the endpoints of a Service. */
export function fleetsUnreachable(log: Logger, what: string, reason: string): void {
  log.error('Cannot watch the objects that describe fleets: their last known state stays in use', {
    what,
    reason,
  });
}

export function fleetsReachable(log: Logger, what: string): void {
  log.warn('Watching the objects that describe fleets again', { what });
}

export function fleetSkipped(log: Logger, name: string, reason: string): void {
  log.error('Cannot read a RateLimitFleet or its endpoints', { name, reason });
}

/** `meanwhile`: the state during that time. */
export function fleetNotObeyed(
  log: Logger,
  fleet: string,
  problem: { reason: string; message: string; meanwhile: string },
): void {
  log.error('A field of a RateLimitFleet cannot be applied', { fleet, ...problem });
}

export function fleetCreated(log: Logger, fleet: string, service: string): void {
  log.info('Created a RateLimitFleet', { fleet, service });
}

export function fleetNotWritten(log: Logger, fields: { reason: string; times: number }): void {
  log.error('Could not write a RateLimitFleet: trying again', fields);
}

export function fleetNotReviewed(log: Logger, fleet: string, error: unknown): void {
  log.warn('Could not check whether counters of a fleet share a key', { fleet, error });
}

export function webhookDelivered(
  log: Logger,
  delivery: { endpoint: string; event: { id: string; type: string; object: string }; attempt: number },
): void {
  const { endpoint, event, attempt } = delivery;
  log.debug('Delivered a webhook', { endpoint, ...event, attempt });
}

export function webhookFailed(
  log: Logger,
  failure: {
    endpoint: string;
    event: { id: string; type: string; object: string };
    attempt: number;
    reason: string;
    retryInMs: number;
  },
): void {
  const { event, ...rest } = failure;
  log.warn('Could not deliver a webhook: trying again', { ...event, ...rest });
}

export function webhooksDropped(
  log: Logger,
  loss: { endpoint: string; reason: string; count: number },
): void {
  log.error('Dropped webhooks', loss);
}

export function webhookEndpointGone(log: Logger, endpoint: string): void {
  log.error('A webhook endpoint answered 410: it gets no more events', { endpoint });
}

/** `secret`: the name of the secret, never its value. */
export function secretRotated(log: Logger, secret: string): void {
  log.warn('A new secret is in use', { secret });
}

export function secretRejected(log: Logger, secret: string, reason: string): void {
  log.error('A new secret cannot be used: the previous one stays in use', { secret, reason });
}

/** `token`: the source of the token, never its value. */
export function secretRead(log: Logger, reader: { from: string; token: string; userAgent: string }): void {
  log.info('A caller looked up the signing secret', reader);
}

/** Logged at most once a second. `from` and `reason` are those of the last rejection. */
export function lookupRejected(
  log: Logger,
  rejection: { from: string; reason: string; times: number },
): void {
  log.warn('Rejected a lookup of the signing secret', rejection);
}

/** Logged at most once a second, with the fields of the last rejection. */
export function adminRejected(
  log: Logger,
  rejection: { from: string; counter: string; reason: string; times: number },
): void {
  log.warn('Rejected a request to the listener for operators', rejection);
}

export function debugTokenRotated(log: Logger): void {
  log.info('A new token of the listener for operators is in use');
}

export function debugTokenRejected(log: Logger, reason: string): void {
  log.error(
    'The file with the token of the listener for operators cannot be used: the previous token stays in use',
    {
      reason,
    },
  );
}

/** Logged at most once a second, for the last rejection. */
export function admissionRejected(
  log: Logger,
  rejection: { object: string; reason: string; message: string; times: number },
): void {
  log.info('Rejected an object at admission', rejection);
}

/** Logged at most once a second for each reason. The caller gets no information about the object. */
export function admissionUnread(log: Logger, unread: { from: string; reason: string; times: number }): void {
  log.warn('Could not read an admission review', unread);
}

/** A fault of this program. */
export function fault(log: Logger, call: string, error: unknown): void {
  log.error('Fault', { call, error });
}
