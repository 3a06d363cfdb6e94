/** All log lines of the control plane, with one function for each. */
import { errorText } from '../../process/log/error-text.ts';
import type { Logger } from '../../process/log/logger.ts';
import type { LimiterReport } from '../model/fleet-snapshot.ts';

export {
  libraryWarning,
  settingRefused,
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

/** Limiters get rules from here on. */
export function sourceListed(log: Logger, objects: number): void {
  log.info('The first complete list of RateLimitConfigs is in', { objects });
}

/** Limiters get the last known objects during the outage, and nothing before the first list. */
export function sourceUnreachable(log: Logger, reason: string, isListed: boolean): void {
  const meanwhile = isListed ? 'serving what is known' : 'nothing is served before the first list';
  log.error(`RateLimitConfigs cannot be followed: ${meanwhile}`, { reason });
}

export function sourceReachable(log: Logger): void {
  log.warn('RateLimitConfigs are followed again');
}

export function objectSkipped(log: Logger, kind: string, object: string, reason: string): void {
  log.error(`A ${kind} cannot be read`, { object, reason });
}

/** The definition is not installed: there can be none. */
export function overridesUnknown(log: Logger, reason: string): void {
  log.warn('RateLimitOverrides are not looked for', { reason });
}

/** Logged once for each field and process. */
export function fieldIgnored(log: Logger, field: string): void {
  log.warn('A field of a newer CRD holds its default and is ignored', { field });
}

/** Until the schemas can be read, every field that this version does not know counts as not holding its default. */
export function schemasUnreadable(log: Logger, reason: string): void {
  log.error('The schemas of the CRDs cannot be read from /openapi/v3', { reason });
}

/** Logged if an API server has answered so for 30 s. Its last known objects stay in force. */
export function accessDenied(log: Logger, denial: { verb: string; resource: string; reason: string }): void {
  log.error('The API server denies this control plane what it needs: a role or a token is missing', denial);
}

export function manifestProblem(log: Logger, place: string, text: string): void {
  log.error(`${place}: ${text}`);
}

export function fileCorrected(log: Logger, file: string): void {
  log.info(`${file}: it has no errors any more`);
}

/** Logged at the start. */
export function startIsBlocked(log: Logger, problems: readonly string[]): void {
  log.error('Limiters get nothing new before you correct these files or move them out of the folder', {
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
    'Objects are in force with specs that are not stored: waiting for a replica that has them',
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
  log.info('A limiter is gone', { limiter: name, fleet });
}

/** The limiter may be unable to apply its snapshot. */
export function limiterLeftUnanswered(log: Logger, { name, fleet }: LimiterReport): void {
  log.warn('A limiter left without an answer to the snapshot it was sent; its own log may say why', {
    limiter: name,
    fleet,
  });
}

export function limiterAccepted(log: Logger, { name, fleet }: LimiterReport, version: string): void {
  log.debug('A limiter accepted a snapshot', { limiter: name, fleet, version });
}

export function limiterRefused(
  log: Logger,
  { name, fleet }: LimiterReport,
  answer: { version: string; message: string },
): void {
  log.error('A limiter refused a snapshot', { limiter: name, fleet, ...answer });
}

export function limiterUnanswered(
  log: Logger,
  { name, fleet }: LimiterReport,
  wait: { version: string; timeoutMs: number },
): void {
  log.error('A limiter did not answer a snapshot: its stream is ended', { limiter: name, fleet, ...wait });
}

export function streamRefused(log: Logger, refusal: { peer: string; reason: string; times: number }): void {
  log.error('Refused a stream', refusal);
}

export function tokenReviewFailed(log: Logger, failure: { reason: string; times: number }): void {
  log.error('The API server cannot be asked about the tokens of limiters', failure);
}

export function tooManyStreams(
  log: Logger,
  limit: { maxStreams: number; peer: string; times: number },
): void {
  log.error('Refused a stream: XDS_MAX_STREAMS is reached', limit);
}

export function connectionCut(log: Logger, cut: { peer: string; reason: string; times: number }): void {
  log.error('Cut a connection of a limiter', cut);
}

export function callerConnectionCut(
  log: Logger,
  cut: { listener: string; peer: string; reason: string; times: number },
): void {
  log.warn('Cut a connection, or refused a request, of an HTTP port', cut);
}

export function otherTypeAsked(log: Logger, request: { peer: string; typeUrl: string }): void {
  log.warn('A client asks for a type that is not served', request);
}

export function snapshotOversize(
  log: Logger,
  response: { fleet: string; version: string; bytes: number; limitBytes: number },
): void {
  log.error('A snapshot is longer than what clients of gRPC usually take', response);
}

/** `listener`: the listener with the certificate. */
export function certificateChanged(log: Logger, listener: string): void {
  log.info('A new certificate is in use', { listener });
}

export function certificateRefused(log: Logger, listener: string, reason: string): void {
  log.error('A new certificate cannot be used: the one before stays', { listener, reason });
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
  log.error('A Lease could not be read or written: trying again', failure);
}

export function reportsUnreachable(log: Logger, reason: string): void {
  log.error('Reports of other replicas cannot be followed', { reason });
}

export function reportsReachable(log: Logger): void {
  log.warn('Reports of other replicas are followed again');
}

export function reportSkipped(log: Logger, name: string, reason: string): void {
  log.error('What another replica wrote cannot be read', { name, reason });
}

export function reportNotPublished(log: Logger, error: unknown): void {
  log.error('What limiters answered could not be published: trying again', { error });
}

export function replicaCleanedUp(log: Logger, replica: string): void {
  log.info('Deleted what a dead replica left', { replica });
}

export function cleanupFailed(log: Logger, replica: string, error: unknown): void {
  log.error('Could not delete what a dead replica left: trying again', { replica, error });
}

/** `retryInMs`: undefined if the status is not tried again. A newer one may be. */
export function statusNotWritten(
  log: Logger,
  failure: { object: string; error: unknown; retryInMs?: number | undefined },
): void {
  log.error('Could not write a status', failure);
}

/** Logged once for all objects of the namespace, and again when the object that is tried next is rejected, too. */
export function statusesForbidden(
  log: Logger,
  plural: string,
  failure: { namespace: string; error: unknown; retryInMs: number },
): void {
  log.error(
    `The right to patch '${plural}/status' is missing: no status of the namespace is written`,
    failure,
  );
}

/** Logged at once, and then once a minute while it lasts. The object is the last one. `by`: undefined if no control plane is named. */
export function statusOverwritten(
  log: Logger,
  found: { object: string; by: string | undefined; manager: string | undefined; times: number },
): void {
  log.warn('Somebody else changed a status: it is written again', found);
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
  log.error('Specs that stay in force cannot be followed', { reason });
}

export function acceptedSpecsReachable(log: Logger): void {
  log.warn('Specs that stay in force are followed again');
}

export function acceptedSpecSkipped(log: Logger, name: string, reason: string): void {
  log.error('A spec that stays in force cannot be read', { name, reason });
}

export function acceptedSpecNotStored(log: Logger, object: string, error: unknown): void {
  log.error('A spec that stays in force could not be stored: a restart would lose it', { object, error });
}

export function acceptedSpecTooLarge(
  log: Logger,
  fields: { object: string; bytes: number; mostBytes: number },
): void {
  log.error('A spec that stays in force is too large to be stored: a restart would lose it', fields);
}

export function removedUnreachable(log: Logger, reason: string): void {
  log.error('Deleted objects for webhooks cannot be watched', { reason });
}

export function removedReachable(log: Logger): void {
  log.warn('Deleted objects for webhooks are watched again');
}

export function removedSkipped(log: Logger, name: string, reason: string): void {
  log.error('Deleted objects for webhooks cannot be read', { name, reason });
}

export function removedNotStored(log: Logger, error: unknown): void {
  log.error('Deleted objects could not be stored: a restart would lose their webhooks', { error });
}

export function removedTooLarge(log: Logger, counts: { objects: number; stored: number }): void {
  log.error('Not all deleted objects have room in a ConfigMap: a restart would lose their webhooks', counts);
}

/** `most`: the value of WEBHOOK_QUEUE_SIZE. */
export function removedDropped(log: Logger, fields: { count: number; most: number }): void {
  log.error('Too many deleted objects wait for limiters: webhooks of the oldest are dropped', fields);
}

export function domainsUnreachable(log: Logger, reason: string): void {
  log.error('Whose domains were last cannot be followed: what was known stays', { reason });
}

export function domainsReachable(log: Logger): void {
  log.warn('Whose domains were last is followed again');
}

export function domainsSkipped(log: Logger, name: string, reason: string): void {
  log.error('The record of whose domains were last cannot be read: the leader makes it anew', {
    name,
    reason,
  });
}

export function domainsMissing(log: Logger): void {
  log.error('The record of whose domains were last was deleted: the leader makes it anew');
}

export function domainsNotStored(log: Logger, error: unknown): void {
  log.error('Whose domains were last could not be stored: trying again', { error });
}

/** `what`: a kind of objects, or the endpoints of a Service. */
export function fleetsUnreachable(log: Logger, what: string, reason: string): void {
  log.error('Who is expected in a fleet, or may use it, cannot be followed: what was known stays', {
    what,
    reason,
  });
}

export function fleetsReachable(log: Logger, what: string): void {
  log.warn('Who is expected in a fleet, or may use it, is followed again', { what });
}

export function fleetSkipped(log: Logger, name: string, reason: string): void {
  log.error('A RateLimitFleet or its endpoints cannot be read', { name, reason });
}

/** `meanwhile`: the state during that time. */
export function fleetNotObeyed(
  log: Logger,
  fleet: string,
  problem: { reason: string; message: string; meanwhile: string },
): void {
  log.error('What a RateLimitFleet says cannot be obeyed', { fleet, ...problem });
}

export function fleetCreated(log: Logger, fleet: string, service: string): void {
  log.info('Created a RateLimitFleet', { fleet, service });
}

export function fleetNotWritten(log: Logger, fields: { reason: string; times: number }): void {
  log.error('A RateLimitFleet could not be written: trying again', fields);
}

export function fleetNotReviewed(log: Logger, fleet: string, error: unknown): void {
  log.warn('Could not look for counters of a fleet that could meet in one key', { fleet, error });
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
  log.error('A webhook endpoint answered 410: nothing more is sent to it', { endpoint });
}

/** `secret`: the name of the secret, never its value. */
export function secretRotated(log: Logger, secret: string): void {
  log.warn('A new secret is in use', { secret });
}

export function secretRefused(log: Logger, secret: string, reason: string): void {
  log.error('A new secret cannot be used: the one before stays', { secret, reason });
}

/** `token`: the source of the token, never its value. */
export function secretRead(log: Logger, reader: { from: string; token: string; userAgent: string }): void {
  log.info('The signing secret was looked up', reader);
}

/** Logged at most once a second. `from` and `reason` are those of the last rejection. */
export function lookupRefused(log: Logger, refusal: { from: string; reason: string; times: number }): void {
  log.warn('Refused a lookup of the signing secret', refusal);
}

/** Logged at most once a second, with the fields of the last rejection. */
export function adminRefused(
  log: Logger,
  refusal: { from: string; counter: string; reason: string; times: number },
): void {
  log.warn('A request to the listener for operators was refused', refusal);
}

export function debugTokenRotated(log: Logger): void {
  log.info('A new token of the listener for operators is in use');
}

export function debugTokenRefused(log: Logger, reason: string): void {
  log.error('The file with the token of the listener for operators cannot be used: the token before stays', {
    reason,
  });
}

/** Logged at most once a second, for the last rejection. */
export function admissionRefused(
  log: Logger,
  refusal: { object: string; reason: string; message: string; times: number },
): void {
  log.info('Refused an object before it was stored', refusal);
}

/** Logged at most once a second for each reason. The caller learned nothing about the object. */
export function admissionUnread(log: Logger, unread: { from: string; reason: string; times: number }): void {
  log.warn('Could not take an admission review', unread);
}

/** A fault of this program. */
export function fault(log: Logger, call: string, error: unknown): void {
  log.error('Fault', { call, error });
}
