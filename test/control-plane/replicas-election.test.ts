import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { LeaseApi } from '../../control-plane/replicas/lease-api.ts';
import { type ElectionOptions, LeaseElection } from '../../control-plane/replicas/lease-election.ts';
import { errorText } from '../../process/log/error-text.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import type { ApiServer } from '../support/api-server.ts';
import { allowLeases } from '../support/cluster.ts';
import { recordedTelemetry, reportTo } from '../support/control-plane-telemetry.ts';
import { describeWithDistantApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { clientOf } from '../support/kubernetes-client.ts';
import { LoadedDeadline } from '../support/machine-load.ts';

const namespace = 'weir-system';
const times = { leaseDurationMs: 3_000, renewDeadlineMs: 2_000, retryPeriodMs: 300 };

interface LeaseJson {
  metadata: { resourceVersion: string };
  spec: Record<string, unknown>;
}

/** `cut` ends it as kill -9 does: nothing is released, no timer fires. `reported` is what was logged, and what was called. */
function candidate(
  api: ApiServer,
  identity: string,
  leaseName: string,
  options: Partial<ElectionOptions> = {},
) {
  const client = clientOf(api, { user: 'control-plane' });
  const reported: string[] = [];
  const callOffs = new Set<() => void>();
  let isCut = false;
  const election = new LeaseElection({
    ...times,
    ...options,
    identity,
    leaseName,
    api: new LeaseApi({ client, namespace, timeoutMs: 1_000, clock: systemClock }),
    clock: systemClock,
    timers: {
      ...systemTimers,
      after: (delayMs, callback) => {
        if (isCut) return () => {};
        const callOff = systemTimers.after(delayMs, callback);
        callOffs.add(callOff);
        return callOff;
      },
    },
    ...recordedTelemetry(reportTo(reported)),
    startedLeading: () => reported.push('started'),
    stoppedLeading: () => reported.push('stopped'),
    failed: (error) => reported.push(`failed: ${errorText(error)}`),
  });
  const cut = () => {
    isCut = true;
    for (const callOff of callOffs) callOff();
  };
  onTestFinished(() => (isCut ? undefined : election.close()));
  return { election, reported, cut };
}

function lease(api: ApiServer, name: string): LeaseJson {
  return JSON.parse(api.mustKubectl(['get', 'lease', name, '-n', namespace, '-o', 'json'])) as LeaseJson;
}

describeWithDistantApiServer('an election on the API server', (api, network) => {
  beforeAll(() => {
    api().applyFiles('examples/kubernetes/rbac.yaml');
    allowLeases(api(), 'first', 'renewed', 'killed', 'released', 'many', 'deleted', 'outage');
  });

  it('has one leader, whose Lease says so', async () => {
    const one = candidate(api(), 'one', 'first');
    one.election.start();
    await eventually(() => expect(one.election.leads).toBe(true));
    const two = candidate(api(), 'two', 'first');
    two.election.start();
    await eventually(() => expect(two.election.leader).toBe('one'));
    expect(two.election.leads).toBe(false);
    expect(one.reported).toEqual(['Leading: one', 'started']);
    expect(lease(api(), 'first').spec).toEqual({
      holderIdentity: 'one',
      leaseDurationSeconds: 3,
      leaseTransitions: 0,
      acquireTime: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
      renewTime: expect.stringMatching(/Z$/),
    });
  });

  it('renews the Lease and keeps the time of its acquisition', async () => {
    const one = candidate(api(), 'one', 'renewed');
    one.election.start();
    await eventually(() => expect(one.election.leads).toBe(true));
    const first = lease(api(), 'renewed').spec;
    await eventually(() => expect(lease(api(), 'renewed').spec['renewTime']).not.toBe(first['renewTime']));
    expect(lease(api(), 'renewed').spec['acquireTime']).toBe(first['acquireTime']);
  });

  it('passes to another candidate within the duration of the Lease when the leader is killed', async () => {
    const one = candidate(api(), 'one', 'killed');
    one.election.start();
    await eventually(() => expect(one.election.leads).toBe(true));
    const two = candidate(api(), 'two', 'killed');
    two.election.start();
    await eventually(() => expect(two.election.leader).toBe('one'));
    one.cut();
    const deadline = new LoadedDeadline(times.leaseDurationMs + 300);
    await eventually(() => expect(two.election.leads).toBe(true), { intervalMs: 5 });
    deadline.assertInTime();
    expect(one.election.leads).toBe(false);
    expect(two.reported).toEqual(['Another replica leads: one', 'Leading: two', 'started']);
    expect(lease(api(), 'killed').spec).toMatchObject({ holderIdentity: 'two', leaseTransitions: 1 });
  });

  it('passes at once when the leader releases the Lease and the other hears of it', async () => {
    const one = candidate(api(), 'one', 'released', { leaseDurationMs: 60_000 });
    one.election.start();
    await eventually(() => expect(one.election.leads).toBe(true));
    const two = candidate(api(), 'two', 'released');
    two.election.start();
    await eventually(() => expect(two.election.leader).toBe('one'));
    await one.election.close();
    expect(one.reported).toEqual(['Leading: one', 'started', 'No longer leading: one', 'stopped']);
    const { metadata, spec } = lease(api(), 'released');
    expect(spec).toMatchObject({ leaseDurationSeconds: 1 });
    expect(spec['holderIdentity'] ?? '').toBe('');
    two.election.observed({
      resourceVersion: metadata.resourceVersion,
      holder: '',
      durationMs: 1_000,
      acquireTime: undefined,
      transitions: 0,
    });
    await eventually(() => expect(two.election.leads).toBe(true), { timeoutMs: 1_000 });
  });

  it('is won by one of many candidates that start at once', async () => {
    const all = Array.from({ length: 8 }, (_, index) => candidate(api(), `c${index}`, 'many'));
    for (const { election } of all) election.start();
    await eventually(() => expect(all.filter(({ election }) => election.leads)).toHaveLength(1));
    await eventually(() => expect(new Set(all.map(({ election }) => election.leader)).size).toBe(1));
    expect(all.flatMap(({ reported }) => reported).filter((line) => line.startsWith('failed'))).toEqual([]);
  });

  it('continues when somebody deletes the Lease', async () => {
    const one = candidate(api(), 'one', 'deleted');
    one.election.start();
    await eventually(() => expect(one.election.leads).toBe(true));
    api().delete('leases', { name: 'deleted', namespace });
    await eventually(() => expect(lease(api(), 'deleted').spec['holderIdentity']).toBe('one'));
    expect(one.election.leads).toBe(true);
    expect(one.reported).not.toContain('stopped');
  });

  it('ends for a leader whose API server is away, before its Lease does, and restarts with the server', async () => {
    const one = candidate(api(), 'one', 'outage');
    one.election.start();
    await eventually(() => expect(one.election.leads).toBe(true));
    await network().refuse();
    const deadline = new LoadedDeadline(times.renewDeadlineMs + 300);
    await eventually(() => expect(one.reported).toContain('stopped'), { intervalMs: 5 });
    deadline.assertInTime();
    expect(one.reported.find((line) => line.startsWith('failed'))).toMatch(
      /connection (refused|reset by peer)|socket disconnected/,
    );
    await network().heal();
    await eventually(() => expect(one.election.leads).toBe(true));
  });
});
