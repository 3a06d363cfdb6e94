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
    buildInfo: gauge(registry, 'build_info', 'Always 1; the labels say what runs.', ['version', 'node']),
    apiRefused: counter(
      registry,
      'api_refused_total',
      'Requests of /v1 that were refused for who asks, or for the page that asks.',
      ['reason'],
    ),
    faults: counter(registry, 'faults_total', 'Defects of this program that ended a call or a request.'),
  };
}

function sourceMetrics(registry: Registry) {
  const accessDenied = gauge(
    registry,
    'access_denied',
    '1 while the API server has answered 401 or 403 for 30 s, by what it denies.',
    ['verb', 'resource'],
  );
  // A series that exists before anything is denied.
  accessDenied.set({ verb: 'list', resource: 'ratelimitconfigs.ratelimit.weir.dev' }, 0);
  return {
    accessDenied,
    sourceConnected: gauge(
      registry,
      'source_connected',
      '1 while changes of RateLimitConfigs are seen, else 0.',
    ),
    sourceOutages: counter(registry, 'source_outages_total', 'How often the source could no longer be seen.'),
    sourceSkipped: counter(
      registry,
      'source_skipped_total',
      'Objects and files of the source that could not be read.',
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
      'Objects that are served as they were last accepted, or without a field of a newer CRD, because the newest spec is not accepted.',
    ),
    fleets: gauge(registry, 'fleets', 'Fleets that some RateLimitConfig is served to.'),
    fleetRules: gauge(registry, 'fleet_rules', 'Rules of all levels that a fleet is served.', fleet),
    fleetSnapshotBytes: gauge(
      registry,
      'fleet_snapshot_bytes',
      'Size of the resources that a fleet is served.',
      fleet,
    ),
    snapshotChanges: counter(
      registry,
      'snapshot_changes_total',
      'New versions of the snapshots of all fleets.',
    ),
    reconcileDuration: histogram(
      registry,
      'reconcile_duration_seconds',
      'Time to decide anew what is served.',
      reconcileBuckets,
    ),
  };
}

function limiterMetrics(registry: Registry) {
  return {
    limiters: gauge(
      registry,
      'limiters',
      'Limiters connected to this replica, by whether they have the present version in force, or what they get that do not support all of it (`too_old`).',
      ['fleet', 'state'],
    ),
    pushes: counter(registry, 'xds_pushes_total', 'Snapshots sent to limiters.'),
    pushedBytes: counter(registry, 'xds_pushed_bytes_total', 'Size of the snapshots sent to limiters.'),
    acks: counter(registry, 'xds_acks_total', 'Snapshots that limiters accepted.'),
    nacks: counter(registry, 'xds_nacks_total', 'Snapshots that limiters refused.'),
    unanswered: counter(
      registry,
      'xds_unanswered_total',
      'Streams ended because a snapshot was not answered in time.',
    ),
    streamsRefused: counter(
      registry,
      'xds_streams_refused_total',
      'Streams refused for the limit on streams, for who they are, or for what they said.',
      ['reason'],
    ),
    connectionsCut: counter(
      registry,
      'xds_connections_cut_total',
      'Connections of limiters that were cut for the bound on idle ones, or on the memory that they hold.',
      ['reason'],
    ),
    httpRefused: counter(
      registry,
      'http_refused_total',
      'Connections of the HTTP ports that were cut, and requests that were refused, for a bound on connections.',
      ['reason'],
    ),
    tokenReviews: counter(
      registry,
      'xds_token_reviews_total',
      'Tokens of service accounts that the API server was to be asked about, by what came of it.',
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
      'Versions of snapshots above 4 MiB, the limit of usual clients.',
    ),
    changeToPush: histogram(
      registry,
      'change_to_push_seconds',
      'Time from a change that the source reported to the sending of the first snapshot with it.',
      pushBuckets,
    ),
    pushToAck: histogram(
      registry,
      'push_to_ack_seconds',
      'Time from the sending of a snapshot to its acceptance by the limiter.',
      pushBuckets,
    ),
  };
}

function statusMetrics(registry: Registry) {
  return {
    leader: gauge(registry, 'leader', '1 while this replica leads, else 0.'),
    leaseRenewalsFailed: counter(
      registry,
      'lease_renewals_failed_total',
      'Attempts to renew a Lease that failed.',
    ),
    reportsNotPublished: counter(
      registry,
      'report_publishes_failed_total',
      'Attempts to publish what the limiters of this replica answered that failed.',
    ),
    domainsHeld: gauge(registry, 'domains_held', 'Domains that came free and are held for a namespace.'),
    replicasAlive: gauge(registry, 'replicas_alive', 'Replicas whose Lease is renewed, this one included.'),
    statusWrites: counter(registry, 'status_writes_total', 'Statuses written, and attempts that failed.', [
      'outcome',
    ]),
    statusOverwrites: counter(
      registry,
      'status_overwrites_total',
      'Statuses of this control plane that somebody else changed.',
    ),
    classConflicts: counter(
      registry,
      'class_conflicts_total',
      'Objects whose status another control plane of the class wrote, twice within a minute.',
    ),
    statusWritesWaiting: gauge(
      registry,
      'status_writes_waiting',
      'Statuses that have changed and are not written yet.',
    ),
    eventsRecorded: counter(registry, 'events_recorded_total', 'Kubernetes events written.'),
    eventsDropped: counter(
      registry,
      'events_dropped_total',
      'Kubernetes events left out, for their number or a failure.',
    ),
  };
}

function webhookMetrics(registry: Registry) {
  return {
    webhookDelivered: counter(registry, 'webhook_events_delivered_total', 'Events that an endpoint took.'),
    webhookFailed: counter(
      registry,
      'webhook_attempts_failed_total',
      'Attempts to deliver an event that failed.',
    ),
    webhookDropped: counter(
      registry,
      'webhook_events_dropped_total',
      'Events that an endpoint will never get.',
      ['reason'],
    ),
    webhookQueued: gauge(registry, 'webhook_events_queued', 'Events that wait for an endpoint.'),
    secretReads: counter(registry, 'secret_reads_total', 'Lookups that were given the signing secret.'),
    secretLookupsRefused: counter(
      registry,
      'secret_lookups_refused_total',
      'Lookups of the signing secret that were refused for the token.',
      ['reason'],
    ),
    admissionReviews: counter(
      registry,
      'admission_reviews_total',
      'Objects that the API server asked about before it stored them, by the answer.',
      ['answer'],
    ),
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
