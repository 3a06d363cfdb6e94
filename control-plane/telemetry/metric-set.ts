/** All metrics of the control plane: names, labels and descriptions. docs/metrics-control-plane.md has the same list. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

export const metricPrefix = 'weir_control_plane_';

const reconcileBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];
const pushBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** The reasons why a limiter's connection was cut, in words for the log. */
export const connectionCuts = {
  idle: 'too many connections have no discovery stream, and most of them are from its address',
  memory: 'incomplete requests and unread responses use too much memory, and its address uses most',
} as const;
export type ConnectionCut = keyof typeof connectionCuts;

const lookupRejections = ['no token', 'wrong token', 'slowed'] as const;
export type LookupRejection = (typeof lookupRejections)[number];
const dropReasons = ['queue full', 'too old', 'endpoint gone', 'shutdown'] as const;
export type WebhookDropReason = (typeof dropReasons)[number];

/** All metrics, in the order in which they are scraped: each creates its metric in a registry. */
const rows = {
  accessDenied: gauge(
    'access_denied',
    '1 after the API server has answered a kind of request with 401 or 403 for 30 s.',
    ['verb', 'resource'],
  ),
  sourceConnected: gauge(
    'source_connected',
    '1 while the control plane watches RateLimitConfigs, otherwise 0.',
  ),
  sourceOutages: counter(
    'source_outages_total',
    'How often the control plane could no longer watch the source.',
  ),
  sourceSkipped: counter(
    'source_skipped_total',
    'Objects and files of the source that the control plane could not read.',
  ),

  objects: gauge('objects', 'RateLimitConfigs by the reason of their condition Accepted.', ['accepted']),
  overrides: gauge('overrides', 'RateLimitOverrides by the reason of their condition Accepted.', [
    'accepted',
  ]),
  objectsServedOlder: gauge(
    'objects_served_older',
    'Objects served with an older spec, or without a field of a newer CRD, because their newest spec is not accepted.',
  ),
  fleets: gauge('fleets', 'Fleets that have at least one RateLimitConfig.'),
  fleetRules: gauge('fleet_rules', 'Rules of a fleet, at all levels.', ['fleet']),
  fleetSnapshotBytes: gauge('fleet_snapshot_bytes', 'Size of the resources of a fleet.', ['fleet']),
  snapshotChanges: counter('snapshot_changes_total', 'New versions of snapshots in all fleets.'),
  reconcileDuration: histogram(
    'reconcile_duration_seconds',
    'Time to calculate new snapshots.',
    reconcileBuckets,
  ),

  limiters: gauge(
    'limiters',
    'Limiters connected to this replica, by whether the newest version is in force. `too_old`: they do not support all of it.',
    ['fleet', 'state'],
  ),
  pushes: counter('xds_pushes_total', 'Snapshots sent to limiters.'),
  pushedBytes: counter('xds_pushed_bytes_total', 'Size of the snapshots sent to limiters.'),
  acks: counter('xds_acks_total', 'Snapshots that limiters accepted.'),
  nacks: counter('xds_nacks_total', 'Snapshots that limiters rejected.'),
  unanswered: counter(
    'xds_unanswered_total',
    'Streams that ended because the limiter did not answer a snapshot in time.',
  ),
  streamsRejected: counter(
    'xds_streams_refused_total',
    'Streams that were rejected because of XDS_MAX_STREAMS, their credentials or their requests.',
    { reason: ['identity', 'limit', 'request'] },
  ),
  connectionsCut: counter(
    'xds_connections_cut_total',
    'Connections of limiters that were closed because too many were idle or used too much memory.',
    { reason: Object.keys(connectionCuts) },
  ),
  httpRejected: counter(
    'http_refused_total',
    'Connections that HTTP listeners closed, and requests that they rejected, because of a bound on connections.',
    { reason: [] },
  ),
  tokenReviews: counter(
    'xds_token_reviews_total',
    'Reviews of service account tokens by the API server, by result.',
    { outcome: ['known', 'unknown', 'failed', 'not asked'] },
  ),
  handshakesFailed: counter('xds_handshakes_failed_total', 'TLS handshakes of limiters that failed.'),
  oversize: counter(
    'xds_oversize_snapshots_total',
    'Versions of snapshots above 4 MiB, the default limit of gRPC clients.',
  ),
  changeToPush: histogram(
    'change_to_push_seconds',
    'Time from a change in the source until the first snapshot with it is sent.',
    pushBuckets,
  ),
  pushToAck: histogram(
    'push_to_ack_seconds',
    'Time from sending a snapshot until the limiter accepts it.',
    pushBuckets,
  ),

  leader: gauge('leader', '1 while this replica leads, otherwise 0.'),
  leaseRenewalsFailed: counter('lease_renewals_failed_total', 'Failed attempts to renew a Lease object.'),
  reportsNotPublished: counter(
    'report_publishes_failed_total',
    'Failed attempts to publish the answers of the limiters of this replica.',
  ),
  domainsHeld: gauge('domains_held', 'Unused domains that are reserved for their last namespace.'),
  replicasAlive: gauge('replicas_alive', 'Replicas that renew their Lease object, including this one.'),
  statusWrites: counter('status_writes_total', 'Attempts to write a status, by result.', {
    outcome: ['written', 'failed', 'outdated'],
  }),
  statusOverwrites: counter(
    'status_overwrites_total',
    'Statuses of this control plane that another client changed.',
  ),
  classConflicts: counter(
    'class_conflicts_total',
    'Objects whose status another control plane of the same class wrote twice within a minute.',
  ),
  statusWritesWaiting: gauge('status_writes_waiting', 'Changed statuses that are not written yet.'),
  eventsRecorded: counter('events_recorded_total', 'Kubernetes events written.'),
  eventsDropped: counter(
    'events_dropped_total',
    'Kubernetes events that were dropped because there were too many, or because of an error.',
  ),

  webhookDelivered: counter('webhook_events_delivered_total', 'Events that an endpoint accepted.'),
  webhookFailed: counter('webhook_attempts_failed_total', 'Failed attempts to deliver an event.'),
  webhookDropped: counter(
    'webhook_events_dropped_total',
    'Events that were dropped before an endpoint accepted them.',
    { reason: dropReasons },
  ),
  webhookQueued: gauge('webhook_events_queued', 'Events that wait for an endpoint.'),
  secretReads: counter('secret_reads_total', 'Successful lookups of the signing secret.'),
  secretLookupsRejected: counter(
    'secret_lookups_refused_total',
    'Lookups of the signing secret that were rejected because of their token.',
    { reason: lookupRejections },
  ),
  admissionReviews: counter('admission_reviews_total', 'Admission reviews, by answer.', {
    answer: ['allowed', 'warned', 'refused', 'bad request', 'busy'],
  }),

  buildInfo: gauge('build_info', 'Always 1; the labels have the version of Weir and of Node.', [
    'version',
    'node',
  ]),
  apiRejected: counter(
    'api_refused_total',
    'Requests to /v1 that were rejected because of their token or their host.',
    { reason: ['foreign', 'unauthenticated', 'slowed', 'permission_denied'] },
  ),
  faults: counter('faults_total', 'Calls and requests that failed because of a defect of the control plane.'),
};

export type MetricSet = { [Name in keyof typeof rows]: ReturnType<(typeof rows)[Name]> };

export function createMetricSet(registry: Registry): MetricSet {
  const created = Object.entries(rows).map(([name, create]) => [name, create(registry)] as const);
  const set = Object.fromEntries(created) as unknown as MetricSet;
  // A series that exists before anything is denied.
  set.accessDenied.set({ verb: 'list', resource: 'ratelimitconfigs.ratelimit.weir.dev' }, 0);
  return set;
}

/** `labels`: values that exist from the start, at 0, so that the first event counts as a change. */
function counter<Label extends string = never>(
  name: string,
  help: string,
  labels?: Readonly<Record<Label, readonly string[]>>,
): (registry: Registry) => Counter<Label> {
  const labelNames = Object.keys(labels ?? {}) as Label[];
  return (registry) => {
    const added = new Counter({ name: metricPrefix + name, help, labelNames, registers: [registry] });
    for (const label of labelNames)
      for (const value of labels![label]) added.inc({ [label]: value } as Partial<Record<Label, string>>, 0);
    return added;
  };
}

function gauge<Label extends string = never>(
  name: string,
  help: string,
  labelNames: readonly Label[] = [],
): (registry: Registry) => Gauge<Label> {
  return (registry) => new Gauge({ name: metricPrefix + name, help, labelNames, registers: [registry] });
}

function histogram(name: string, help: string, buckets: number[]): (registry: Registry) => Histogram {
  return (registry) => new Histogram({ name: metricPrefix + name, help, buckets, registers: [registry] });
}
