/** All metrics of the control plane: names, labels and descriptions. docs/metrics-control-plane.md has the same list. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

export const metricPrefix = 'weir_control_plane_';

const reconcileBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];
const pushBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export type MetricSet = ReturnType<typeof createMetricSet>;

export function createMetricSet(registry: Registry) {
  return {
    ...sourceMetrics(registry),
    ...decisionMetrics(registry),
    ...limiterMetrics(registry),
    ...statusMetrics(registry),
    ...webhookMetrics(registry),
    buildInfo: gauge(registry, 'build_info', 'Always 1; the labels have the version of Weir and of Node.', [
      'version',
      'node',
    ]),
    apiRejected: counter(
      registry,
      'api_refused_total',
      'Requests to /v1 that were rejected because of their token or their host.',
      ['reason'],
    ),
    faults: counter(
      registry,
      'faults_total',
      'Calls and requests that failed because of a defect of the control plane.',
    ),
  };
}

function sourceMetrics(registry: Registry) {
  const accessDenied = gauge(
    registry,
    'access_denied',
    '1 after the API server has answered a kind of request with 401 or 403 for 30 s.',
    ['verb', 'resource'],
  );
  // A series that exists before anything is denied.
  accessDenied.set({ verb: 'list', resource: 'ratelimitconfigs.ratelimit.weir.dev' }, 0);
  return {
    accessDenied,
    sourceConnected: gauge(
      registry,
      'source_connected',
      '1 while the control plane watches RateLimitConfigs, otherwise 0.',
    ),
    sourceOutages: counter(
      registry,
      'source_outages_total',
      'How often the control plane could no longer watch the source.',
    ),
    sourceSkipped: counter(
      registry,
      'source_skipped_total',
      'Objects and files of the source that the control plane could not read.',
    ),
  };
}

function decisionMetrics(registry: Registry) {
  const fleet = ['fleet'] as const;
  return {
    objects: gauge(registry, 'objects', 'RateLimitConfigs by the reason of their condition Accepted.', [
      'accepted',
    ]),
    overrides: gauge(registry, 'overrides', 'RateLimitOverrides by the reason of their condition Accepted.', [
      'accepted',
    ]),
    objectsServedOlder: gauge(
      registry,
      'objects_served_older',
      'Objects served with an older spec, or without a field of a newer CRD, because their newest spec is not accepted.',
    ),
    fleets: gauge(registry, 'fleets', 'Fleets that have at least one RateLimitConfig.'),
    fleetRules: gauge(registry, 'fleet_rules', 'Rules of a fleet, at all levels.', fleet),
    fleetSnapshotBytes: gauge(registry, 'fleet_snapshot_bytes', 'Size of the resources of a fleet.', fleet),
    snapshotChanges: counter(registry, 'snapshot_changes_total', 'New versions of snapshots in all fleets.'),
    reconcileDuration: histogram(
      registry,
      'reconcile_duration_seconds',
      'Time to calculate new snapshots.',
      reconcileBuckets,
    ),
  };
}

function limiterMetrics(registry: Registry) {
  return {
    limiters: gauge(
      registry,
      'limiters',
      'Limiters connected to this replica, by whether the newest version is in force. `too_old`: they do not support all of it.',
      ['fleet', 'state'],
    ),
    pushes: counter(registry, 'xds_pushes_total', 'Snapshots sent to limiters.'),
    pushedBytes: counter(registry, 'xds_pushed_bytes_total', 'Size of the snapshots sent to limiters.'),
    acks: counter(registry, 'xds_acks_total', 'Snapshots that limiters accepted.'),
    nacks: counter(registry, 'xds_nacks_total', 'Snapshots that limiters rejected.'),
    unanswered: counter(
      registry,
      'xds_unanswered_total',
      'Streams that ended because the limiter did not answer a snapshot in time.',
    ),
    streamsRejected: counter(
      registry,
      'xds_streams_refused_total',
      'Streams that were rejected because of XDS_MAX_STREAMS, their credentials or their requests.',
      ['reason'],
    ),
    connectionsCut: counter(
      registry,
      'xds_connections_cut_total',
      'Connections of limiters that were closed because too many were idle or used too much memory.',
      ['reason'],
    ),
    httpRejected: counter(
      registry,
      'http_refused_total',
      'Connections that HTTP listeners closed, and requests that they rejected, because of a bound on connections.',
      ['reason'],
    ),
    tokenReviews: counter(
      registry,
      'xds_token_reviews_total',
      'Reviews of service account tokens by the API server, by result.',
      ['outcome'],
    ),
    handshakesFailed: counter(
      registry,
      'xds_handshakes_failed_total',
      'TLS handshakes of limiters that failed.',
    ),
    oversize: counter(
      registry,
      'xds_oversize_snapshots_total',
      'Versions of snapshots above 4 MiB, the default limit of gRPC clients.',
    ),
    changeToPush: histogram(
      registry,
      'change_to_push_seconds',
      'Time from a change in the source until the first snapshot with it is sent.',
      pushBuckets,
    ),
    pushToAck: histogram(
      registry,
      'push_to_ack_seconds',
      'Time from sending a snapshot until the limiter accepts it.',
      pushBuckets,
    ),
  };
}

function statusMetrics(registry: Registry) {
  return {
    leader: gauge(registry, 'leader', '1 while this replica leads, otherwise 0.'),
    leaseRenewalsFailed: counter(
      registry,
      'lease_renewals_failed_total',
      'Failed attempts to renew a Lease object.',
    ),
    reportsNotPublished: counter(
      registry,
      'report_publishes_failed_total',
      'Failed attempts to publish the answers of the limiters of this replica.',
    ),
    domainsHeld: gauge(
      registry,
      'domains_held',
      'Unused domains that are reserved for their last namespace.',
    ),
    replicasAlive: gauge(
      registry,
      'replicas_alive',
      'Replicas that renew their Lease object, including this one.',
    ),
    statusWrites: counter(registry, 'status_writes_total', 'Attempts to write a status, by result.', [
      'outcome',
    ]),
    statusOverwrites: counter(
      registry,
      'status_overwrites_total',
      'Statuses of this control plane that another client changed.',
    ),
    classConflicts: counter(
      registry,
      'class_conflicts_total',
      'Objects whose status another control plane of the same class wrote twice within a minute.',
    ),
    statusWritesWaiting: gauge(
      registry,
      'status_writes_waiting',
      'Changed statuses that are not written yet.',
    ),
    eventsRecorded: counter(registry, 'events_recorded_total', 'Kubernetes events written.'),
    eventsDropped: counter(
      registry,
      'events_dropped_total',
      'Kubernetes events that were dropped because there were too many, or because of an error.',
    ),
  };
}

function webhookMetrics(registry: Registry) {
  return {
    webhookDelivered: counter(
      registry,
      'webhook_events_delivered_total',
      'Events that an endpoint accepted.',
    ),
    webhookFailed: counter(registry, 'webhook_attempts_failed_total', 'Failed attempts to deliver an event.'),
    webhookDropped: counter(
      registry,
      'webhook_events_dropped_total',
      'Events that were dropped before an endpoint accepted them.',
      ['reason'],
    ),
    webhookQueued: gauge(registry, 'webhook_events_queued', 'Events that wait for an endpoint.'),
    secretReads: counter(registry, 'secret_reads_total', 'Successful lookups of the signing secret.'),
    secretLookupsRejected: counter(
      registry,
      'secret_lookups_refused_total',
      'Lookups of the signing secret that were rejected because of their token.',
      ['reason'],
    ),
    admissionReviews: counter(registry, 'admission_reviews_total', 'Admission reviews, by answer.', [
      'answer',
    ]),
  };
}

function counter<Label extends string = never>(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly Label[] = [],
): Counter<Label> {
  return new Counter({ name: metricPrefix + name, help, labelNames, registers: [registry] });
}

function gauge<Label extends string = never>(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly Label[] = [],
): Gauge<Label> {
  return new Gauge({ name: metricPrefix + name, help, labelNames, registers: [registry] });
}

function histogram(registry: Registry, name: string, help: string, buckets: number[]): Histogram {
  return new Histogram({ name: metricPrefix + name, help, buckets, registers: [registry] });
}
