import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { decisionOf, limiterReport } from '../../test/support/control-plane-view.ts';
import { ControlPlaneMetrics, type MetricSources } from './control-plane-metrics.ts';
import { metricPrefix } from './metric-set.ts';

function create(sources: Partial<MetricSources> = {}): ControlPlaneMetrics {
  return new ControlPlaneMetrics({
    sources: {
      decision: () => undefined,
      limiters: () => [],
      domainsHeld: () => 0,
      replicasAlive: () => 0,
      statusWritesWaiting: () => 0,
      webhookEventsQueued: () => 0,
      ...sources,
    },
    version: '1.2.3',
    nodeVersion: '26.0.0',
  });
}

/** Our own series without the prefix, those of histograms by their sum and count alone. */
async function series(metrics: ControlPlaneMetrics): Promise<Record<string, number>> {
  const lines = (await metrics.metrics()).split('\n').filter((line) => line.startsWith(metricPrefix));
  const pairs = lines
    .filter((line) => !line.includes('_bucket{'))
    .map((line) => [
      line.slice(metricPrefix.length, line.lastIndexOf(' ')),
      Number(line.slice(line.lastIndexOf(' '))),
    ]);
  return Object.fromEntries(pairs);
}

const initial = {
  'build_info{version="1.2.3",node="26.0.0"}': 1,
  faults_total: 0,
  source_connected: 0,
  source_outages_total: 0,
  source_skipped_total: 0,
  'objects{accepted="Valid"}': 0,
  'objects{accepted="Invalid"}': 0,
  'objects{accepted="UnknownField"}': 0,
  'objects{accepted="DomainConflict"}': 0,
  'objects{accepted="DomainNotAllowed"}': 0,
  'objects{accepted="FleetNotAllowed"}': 0,
  objects_served_older: 0,
  fleets: 0,
  snapshot_changes_total: 0,
  reconcile_duration_seconds_sum: 0,
  reconcile_duration_seconds_count: 0,
  xds_pushes_total: 0,
  xds_pushed_bytes_total: 0,
  xds_acks_total: 0,
  'access_denied{verb="list",resource="ratelimitconfigs.ratelimit.weir.dev"}': 0,
  xds_nacks_total: 0,
  xds_unanswered_total: 0,
  'xds_streams_refused_total{reason="identity"}': 0,
  'xds_streams_refused_total{reason="limit"}': 0,
  'xds_streams_refused_total{reason="request"}': 0,
  'xds_token_reviews_total{outcome="known"}': 0,
  'xds_token_reviews_total{outcome="unknown"}': 0,
  'xds_token_reviews_total{outcome="failed"}': 0,
  'xds_token_reviews_total{outcome="not asked"}': 0,
  'xds_connections_cut_total{reason="idle"}': 0,
  'xds_connections_cut_total{reason="memory"}': 0,
  xds_handshakes_failed_total: 0,
  xds_oversize_snapshots_total: 0,
  change_to_push_seconds_sum: 0,
  change_to_push_seconds_count: 0,
  push_to_ack_seconds_sum: 0,
  push_to_ack_seconds_count: 0,
  leader: 0,
  lease_renewals_failed_total: 0,
  report_publishes_failed_total: 0,
  domains_held: 0,
  replicas_alive: 0,
  'status_writes_total{outcome="written"}': 0,
  'status_writes_total{outcome="failed"}': 0,
  'status_writes_total{outcome="outdated"}': 0,
  status_overwrites_total: 0,
  class_conflicts_total: 0,
  status_writes_waiting: 0,
  events_recorded_total: 0,
  events_dropped_total: 0,
  webhook_events_delivered_total: 0,
  webhook_attempts_failed_total: 0,
  'webhook_events_dropped_total{reason="queue full"}': 0,
  'webhook_events_dropped_total{reason="too old"}': 0,
  'webhook_events_dropped_total{reason="endpoint gone"}': 0,
  'webhook_events_dropped_total{reason="shutdown"}': 0,
  webhook_events_queued: 0,
  secret_reads_total: 0,
  ...Object.fromEntries(
    ['foreign', 'unauthenticated', 'slowed', 'permission_denied'].map((reason) => [
      `api_refused_total{reason="${reason}"}`,
      0,
    ]),
  ),
  'secret_lookups_refused_total{reason="no token"}': 0,
  'secret_lookups_refused_total{reason="wrong token"}': 0,
  'secret_lookups_refused_total{reason="slowed"}': 0,
  ...Object.fromEntries(
    ['Valid', 'Invalid', 'UnknownField', 'DomainNotAllowed', 'FleetNotAllowed', 'Conflicted', 'Expired'].map(
      (reason) => [`overrides{accepted="${reason}"}`, 0],
    ),
  ),
  'admission_reviews_total{answer="allowed"}': 0,
  'admission_reviews_total{answer="warned"}': 0,
  'admission_reviews_total{answer="refused"}': 0,
  'admission_reviews_total{answer="bad request"}': 0,
  'admission_reviews_total{answer="busy"}': 0,
};

describe('ControlPlaneMetrics', () => {
  it('begins with every series at 0', async () => {
    expect(await series(create())).toEqual(initial);
  });

  const happenings: [string, (metrics: ControlPlaneMetrics) => void, Record<string, number>][] = [
    ['sourceConnected', (metrics) => metrics.sourceConnected(), { source_connected: 1 }],
    [
      'sourceLost',
      (metrics) => {
        metrics.sourceConnected();
        metrics.sourceLost();
        metrics.sourceLost();
      },
      { source_connected: 0, source_outages_total: 1 },
    ],
    [
      'accessDenied',
      (metrics) => {
        const denials = ['list', 'list', 'get'].map((verb) => ({ verb, resource: 'configmaps' }));
        for (const denial of denials) metrics.accessDenied(denial, true);
        metrics.accessDenied(denials[0]!, false);
        metrics.accessDenied(denials[2]!, false);
      },
      {
        'access_denied{verb="list",resource="configmaps"}': 1,
        'access_denied{verb="get",resource="configmaps"}': 0,
      },
    ],
  ];
  it.each(happenings)('counts %s', async (_, happen, changed) => {
    const metrics = create();
    happen(metrics);
    expect(await series(metrics)).toEqual({ ...initial, ...changed });
  });

  it('has a row here for every method that counts', () => {
    const own = ['constructor', 'contentType', 'metrics', 'decided'];
    const methods = Object.getOwnPropertyNames(ControlPlaneMetrics.prototype);
    expect(methods.filter((name) => !own.includes(name)).sort()).toEqual(
      happenings.map(([name]) => name).sort(),
    );
  });

  it('counts every outage of the source', async () => {
    const metrics = create();
    for (let i = 0; i < 2; i++) {
      metrics.sourceLost();
      metrics.sourceConnected();
    }
    expect(await series(metrics)).toMatchObject({ source_connected: 1, source_outages_total: 2 });
  });

  it('stops leading', async () => {
    const metrics = create();
    metrics.all.leader.set(1);
    metrics.all.leader.set(0);
    expect(await series(metrics)).toEqual(initial);
  });

  it('counts versions that are new, and fleets that come and go as such', async () => {
    const metrics = create();
    const one = decisionOf([{ name: 'a' }, { name: 'b', fleet: 'edge' }]);
    const two = decisionOf([
      { name: 'a', generation: 2 },
      { name: 'b', fleet: 'edge' },
    ]);
    for (const decision of [one, one, two, decisionOf([])]) metrics.decided(decision, 5);
    expect(await series(metrics)).toEqual({
      ...initial,
      snapshot_changes_total: 5,
      reconcile_duration_seconds_sum: 0.02,
      reconcile_duration_seconds_count: 4,
    });
  });

  it('reads the state of the moment when it is scraped', async () => {
    let decision = decisionOf([
      { name: 'a', rules: 3 },
      { name: 'b', fleet: 'edge', generation: 2, servedGeneration: 1, bytes: 7 },
      {
        name: 'c',
        servedGeneration: undefined,
        accepted: { status: false, reason: 'DomainConflict', message: '' },
      },
    ]);
    const version = decision.fleets.get('edge')?.version as string;
    const metrics = create({
      decision: () => decision,
      limiters: () => [limiterReport({ fleet: 'edge', acceptedVersion: version })],
      domainsHeld: () => 3,
      replicasAlive: () => 2,
      statusWritesWaiting: () => 9,
      webhookEventsQueued: () => 4,
    });
    const always = {
      ...initial,
      domains_held: 3,
      replicas_alive: 2,
      status_writes_waiting: 9,
      webhook_events_queued: 4,
    };
    expect(await series(metrics)).toEqual({
      ...always,
      'objects{accepted="Valid"}': 2,
      'objects{accepted="DomainConflict"}': 1,
      objects_served_older: 1,
      fleets: 2,
      'fleet_rules{fleet="default"}': 3,
      'fleet_rules{fleet="edge"}': 1,
      'fleet_snapshot_bytes{fleet="default"}': 100,
      'fleet_snapshot_bytes{fleet="edge"}': 7,
      'limiters{fleet="default",state="in_force"}': 0,
      'limiters{fleet="default",state="pending"}': 0,
      'limiters{fleet="default",state="refused"}': 0,
      'limiters{fleet="default",state="too_old"}': 0,
      'limiters{fleet="edge",state="in_force"}': 1,
      'limiters{fleet="edge",state="pending"}': 0,
      'limiters{fleet="edge",state="refused"}': 0,
      'limiters{fleet="edge",state="too_old"}': 0,
    });
    decision = decisionOf([]);
    expect(await series(metrics)).toEqual({
      ...always,
      'fleet_rules{fleet="_other"}': 0,
      'fleet_snapshot_bytes{fleet="_other"}': 0,
      'limiters{fleet="_other",state="in_force"}': 0,
      'limiters{fleet="_other",state="pending"}': 1,
      'limiters{fleet="_other",state="refused"}': 0,
      'limiters{fleet="_other",state="too_old"}': 0,
    });
  });

  it('has the metrics of the process, in the text format of Prometheus', async () => {
    const metrics = create();
    const text = await metrics.metrics();
    expect(metrics.contentType).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(text).toMatch(/^process_resident_memory_bytes \d+$/m);
    expect(text).toContain(
      '# HELP weir_control_plane_fleets Fleets that have at least one RateLimitConfig.\n# TYPE weir_control_plane_fleets gauge\nweir_control_plane_fleets 0\n',
    );
  });

  it('counts each replica in its own registry', async () => {
    const [one, two] = [create(), create()];
    one.all.nacks.inc();
    expect((await series(two))['xds_nacks_total']).toBe(0);
  });
});

describe('docs/metrics-control-plane.md', () => {
  const doc = readFileSync(new URL('../../docs/metrics-control-plane.md', import.meta.url), 'utf8');
  const own = (
    create().registry.getMetricsAsArray() as unknown as {
      name: string;
      type: string;
      labelNames: string[];
      help: string;
    }[]
  ).filter(({ name }) => name.startsWith(metricPrefix));

  it('has a row for every metric of our own, and no others', () => {
    const wanted = own.map(({ name, type, labelNames, help }) => {
      const labels = labelNames.map((label) => `\`${label}\``).join(', ');
      return `| \`${name}\` | ${type} | ${labels} | ${help} |`;
    });
    const rows = doc.split('\n').filter((line) => /^\| `weir_\w+` \|/.test(line));
    expect(rows.sort()).toEqual(wanted.sort());
  });

  it('names no metric that there is not', () => {
    const names = new Set(own.map(({ name }) => name));
    const named = doc.match(/weir_control_plane_\w+/g) ?? [];
    expect(named.filter((name) => !names.has(name))).toEqual([]);
  });
});
