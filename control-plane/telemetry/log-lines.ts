/** The log lines of the control plane. A line whose message contains all values of its caller has no fields. */
import { errorText } from '../../process/log/error-text.ts';
import { announce, debug, error, fatal, info, noFields, warn } from '../../process/log/log-line.ts';

interface NamedEvent {
  id: string;
  type: string;
  /** The object as `namespace/name`. */
  object: string;
  generation: number;
}

export const lines = {
  /** The process ends after this. */
  startFailed: fatal<{ error: unknown }>((failure) => `Cannot start: ${errorText(failure.error)}`, noFields),
  listeningForXds: announce<{ address: string }>(
    ({ address }) => `Listening for xDS on '${address}'`,
    noFields,
  ),
  listeningForHttp: announce<{ address: string }>(
    ({ address }) => `Listening for HTTP on '${address}'`,
    noFields,
  ),
  listeningForApi: announce<{ address: string }>(
    ({ address }) => `Listening for the secret lookup on '${address}'`,
    noFields,
  ),
  listeningForAdmission: announce<{ address: string }>(
    ({ address }) => `Listening for admission reviews on '${address}'`,
    noFields,
  ),
  /** `listener`: the listener that uses the certificate. */
  certificateChanged: info<{ listener: string }>('A new certificate is in use'),
  certificateRejected: error<{ listener: string; reason: string }>(
    'A new certificate cannot be used: the previous one stays in use',
  ),
  handshakeFailed: warn<{ peer: string; reason: string; times: number }>('A TLS handshake failed'),
  /** `secret`: the name of the secret, never its value. */
  secretRotated: warn<{ secret: string }>('A new secret is in use'),
  secretRejected: error<{ secret: string; reason: string }>(
    'A new secret cannot be used: the previous one stays in use',
  ),
  /** A fault of this program. */
  fault: error<{ call: string; error: unknown }>('Fault'),

  // The source of objects.

  /** From here on, limiters get rules. */
  sourceListed: info<{ objects: number }>('Read the first complete list of RateLimitConfigs'),
  /** During the outage, limiters get the last known objects, or nothing before the first list. */
  sourceUnreachable: error<{ reason: string; isListed: boolean }>(
    ({ isListed }) => {
      const meanwhile = isListed
        ? 'objects that are known are still served'
        : 'limiters get no rules until the first list is read';
      return `Cannot watch RateLimitConfigs: ${meanwhile}`;
    },
    ({ reason }) => ({ reason }),
  ),
  sourceReachable: warn('Watching RateLimitConfigs again'),
  objectSkipped: error<{ kind: string; object: string; reason: string }>(
    ({ kind }) => `A ${kind} cannot be read`,
    ({ kind, ...fields }) => fields,
  ),
  /** The definition is not installed, so there are no such objects. */
  overridesUnknown: warn<{ reason: string }>('RateLimitOverrides are not watched'),
  /** Logged once for each field and process. */
  fieldIgnored: warn<{ field: string }>('A field of a newer CRD has its default value and is ignored'),
  /**
   * Until the schemas can be read, the control plane assumes that each field unknown to this version has a value other than its
   * default.
   */
  schemasUnreadable: error<{ reason: string }>('The schemas of the CRDs cannot be read from /openapi/v3'),
  /** Logged if an API server has answered in this way for 30 s. Its last known objects stay in force. */
  accessDenied: error<{ verb: string; resource: string; reason: string }>(
    'The API server denies this control plane a request that it needs: check its role and its token',
  ),
  manifestProblem: error<{ place: string; text: string }>(({ place, text }) => `${place}: ${text}`, noFields),
  fileCorrected: info<{ file: string }>(({ file }) => `${file}: its errors are corrected`, noFields),
  /** Logged at the start. */
  startIsBlocked: error<{ problems: readonly string[] }>(
    'Limiters get no new rules until you correct these files or move them out of the folder',
  ),

  // Decisions.

  /** Logged only for decisions that change the rules of a fleet. */
  decided: info<{ objects: number; fleets: number; changedFleets: number; durationMs: number }>(
    'Serving new snapshots',
    (fields) => ({ ...fields, durationMs: Math.round(fields.durationMs) }),
  ),
  /** Logged at the start of a replica. Nothing is served for `waitMs`, unless another replica stores the specs before. */
  specsUnknown: warn<{ objects: string; waitMs: number }>(
    'Limiters have rules of objects whose accepted specs are not stored: waiting for a replica that has these specs',
  ),
  /** `inForce`: the generation that limiters have instead. */
  objectRejected: warn<{
    kind: string;
    object: string;
    generation: number;
    inForce: number | undefined;
    reason: string;
    message: string;
  }>(
    ({ kind }) => `A ${kind} is not accepted`,
    ({ kind, ...fields }) => fields,
  ),
  /** Logged after a rejection. */
  objectAccepted: info<{ kind: string; object: string; generation: number }>(
    ({ kind }) => `A ${kind} is accepted again`,
    ({ kind, ...fields }) => fields,
  ),
  overrideEnded: info<{ object: string; message: string }>('A RateLimitOverride has ended'),

  // Streams of limiters.

  limiterConnected: info<{ limiter: string; fleet: string; isWeir: boolean }>('A limiter connected'),
  limiterDisconnected: info<{ limiter: string; fleet: string }>('A limiter disconnected'),
  /** The limiter may be unable to apply its snapshot. */
  limiterLeftUnanswered: warn<{ limiter: string; fleet: string }>(
    'A limiter disconnected before it answered a snapshot: see its log for the cause',
  ),
  limiterAccepted: debug<{ limiter: string; fleet: string; version: string }>(
    'A limiter accepted a snapshot',
  ),
  limiterRejected: error<{ limiter: string; fleet: string; version: string; message: string }>(
    'A limiter rejected a snapshot',
  ),
  limiterUnanswered: error<{ limiter: string; fleet: string; version: string; timeoutMs: number }>(
    'A limiter did not answer a snapshot in time: the control plane ends its stream',
  ),
  streamRejected: error<{ peer: string; reason: string; times: number }>('Rejected a stream'),
  tokenReviewFailed: error<{ reason: string; times: number }>(
    'Cannot ask the API server about tokens of limiters',
  ),
  tooManyStreams: error<{ maxStreams: number; peer: string; times: number }>(
    'Rejected a stream: XDS_MAX_STREAMS is reached',
  ),
  connectionCut: error<{ peer: string; reason: string; times: number }>('Closed a connection of a limiter'),
  otherTypeAsked: warn<{ peer: string; typeUrl: string }>(
    'A client asks for a resource type that the control plane does not serve',
  ),
  snapshotOversize: error<{ fleet: string; version: string; bytes: number; limitBytes: number }>(
    'A snapshot is larger than gRPC clients accept by default',
  ),

  // Replicas, and the values that they share.

  startedLeading: announce<{ replica: string }>('Leading'),
  stoppedLeading: warn<{ replica: string }>('No longer leading'),
  leaderLost: info('No replica leads'),
  leaderChanged: info<{ leader: string }>('Another replica leads'),
  /** Logged at once, and then once a minute while it lasts. */
  leaseFailed: error<{ reason: string; times: number }>(
    'Could not read or write a Lease object: trying again',
  ),
  reportsUnreachable: error<{ reason: string }>('Cannot watch reports of other replicas'),
  reportsReachable: warn('Watching reports of other replicas again'),
  reportSkipped: error<{ name: string; reason: string }>('Cannot read a report of another replica'),
  reportNotPublished: error<{ error: unknown }>('Could not publish the answers of limiters: trying again'),
  replicaCleanedUp: info<{ replica: string }>('Deleted the reports of a replica that has ended'),
  cleanupFailed: error<{ replica: string; error: unknown }>(
    'Could not delete the reports of a replica that has ended: trying again',
  ),
  acceptedSpecsUnreachable: error<{ reason: string }>('Cannot watch stored specs'),
  acceptedSpecsReachable: warn('Watching stored specs again'),
  acceptedSpecSkipped: error<{ name: string; reason: string }>('Cannot read a stored spec'),
  acceptedSpecNotStored: error<{ object: string; error: unknown }>(
    'Could not store the accepted spec of an object: a restart would lose it',
  ),
  removedUnreachable: error<{ reason: string }>(
    'Cannot watch the stored list of deleted objects for webhooks',
  ),
  removedReachable: warn('Watching the stored list of deleted objects for webhooks again'),
  removedSkipped: error<{ name: string; reason: string }>(
    'Cannot read the stored list of deleted objects for webhooks',
  ),
  removedNotStored: error<{ error: unknown }>(
    'Could not store deleted objects: a restart would lose their webhooks',
  ),
  /** `max`: the value of WEBHOOK_QUEUE_SIZE. */
  removedDropped: error<{ count: number; max: number }>(
    'Too many deleted objects wait for limiters: dropped the webhooks of the oldest ones',
  ),
  domainsUnreachable: error<{ reason: string }>(
    'Cannot watch the record of domain holders: the last known record stays in use',
  ),
  domainsReachable: warn('Watching the record of domain holders again'),
  domainsSkipped: error<{ name: string; reason: string }>(
    'Cannot read the record of domain holders: the leader creates a new one',
  ),
  domainsMissing: error('The record of domain holders was deleted: the leader creates a new one'),
  domainsNotStored: error<{ error: unknown }>('Could not store the record of domain holders: trying again'),

  // Statuses and events.

  /** `retryInMs`: undefined if the status is not tried again. A newer one may be. */
  statusNotWritten: error<{ object: string; error: unknown; retryInMs: number | undefined }>(
    'Could not write a status',
  ),
  /** Logged once for all objects of the namespace, and again if the next object that is tried is rejected, too. */
  statusesForbidden: error<{ plural: string; namespace: string; error: unknown; retryInMs: number }>(
    ({ plural }) =>
      `The right to patch '${plural}/status' is missing: the control plane writes no status in the namespace`,
    ({ plural, ...fields }) => fields,
  ),
  /**
   * Logged at once, and then once a minute while it lasts. The object is the last one. `by`: undefined if the status names no control
   * plane.
   */
  statusOverwritten: warn<{
    object: string;
    by: string | undefined;
    manager: string | undefined;
    times: number;
  }>('Another client changed a status: the control plane writes it again'),
  /** Logged as often as `statusOverwritten`. `yields`: this control plane leaves such objects to the other one for ten minutes. */
  classConflict: error<{ object: string; by: string; yields: boolean; times: number }>(
    'Another control plane writes to RateLimitConfigs of the same class',
  ),
  eventNotRecorded: error<{ error: unknown }>('Could not record an event'),

  // Fleets.

  /** `what`: a kind of objects, or the endpoints of a Service. */
  fleetsUnreachable: error<{ what: string; reason: string }>(
    'Cannot watch the objects that describe fleets: their last known state stays in use',
  ),
  fleetsReachable: warn<{ what: string }>('Watching the objects that describe fleets again'),
  fleetSkipped: error<{ name: string; reason: string }>('Cannot read a RateLimitFleet or its endpoints'),
  /** `meanwhile`: the state during that time. */
  fleetNotObeyed: error<{ fleet: string; reason: string; message: string; meanwhile: string }>(
    'A field of a RateLimitFleet cannot be applied',
  ),
  fleetCreated: info<{ fleet: string; service: string }>('Created a RateLimitFleet'),
  fleetNotWritten: error<{ reason: string; times: number }>('Could not write a RateLimitFleet: trying again'),
  fleetNotReviewed: warn<{ fleet: string; error: unknown }>(
    'Could not check whether counters of a fleet share a key',
  ),

  // Webhooks.

  webhookDelivered: debug<NamedEvent & { endpoint: string; attempt: number }>('Delivered a webhook'),
  webhookFailed: warn<NamedEvent & { endpoint: string; attempt: number; reason: string; retryInMs: number }>(
    'Could not deliver a webhook: trying again',
  ),
  webhooksDropped: error<{ endpoint: string; reason: string; count: number }>('Dropped webhooks'),
  webhookEndpointGone: error<{ endpoint: string }>('A webhook endpoint answered 410: it gets no more events'),

  // Callers of the HTTP listeners.

  callerConnectionCut: warn<{ listener: string; peer: string; reason: string; times: number }>(
    'Closed a connection or rejected a request of an HTTP listener',
  ),
  /** `token`: the source of the token, never its value. */
  secretRead: info<{ from: string; token: string; userAgent: string }>(
    'A caller looked up the signing secret',
  ),
  /** Logged at most once a second. `from` and `reason` are those of the last rejection. */
  lookupRejected: warn<{ from: string; reason: string; times: number }>(
    'Rejected a lookup of the signing secret',
  ),
  /** Logged at most once a second, with the fields of the last rejection. */
  adminRejected: warn<{ from: string; counter: string; reason: string; times: number }>(
    'Rejected a request to the listener for operators',
  ),
  debugTokenRotated: info('A new token of the listener for operators is in use'),
  debugTokenRejected: error<{ reason: string }>(
    'The file with the token of the listener for operators cannot be used: the previous token stays in use',
  ),
  /** Logged at most once a second, for the last rejection. */
  admissionRejected: info<{ object: string; reason: string; message: string; times: number }>(
    'Rejected an object at admission',
  ),
  /** Logged at most once a second for each reason. The caller gets no information about the object. */
  admissionUnread: warn<{ from: string; reason: string; times: number }>(
    'Could not read an admission review',
  ),
};
