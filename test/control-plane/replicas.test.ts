import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { KubernetesClient } from '../../control-plane/kubernetes/client.ts';
import { loadKubernetesConfig } from '../../control-plane/kubernetes/client-config.ts';
import type { LimiterReport } from '../../control-plane/model/fleet-snapshot.ts';
import { gzipCodec } from '../../control-plane/replicas/own-objects.ts';
import { Replicas, type ReplicasOptions } from '../../control-plane/replicas/replicas.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import type { ApiServer, ApiUser } from '../support/api-server.ts';
import { recordedTelemetry, reportTo } from '../support/control-plane-telemetry.ts';
import { describeWithDistantApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { LoadedDeadline } from '../support/machine-load.ts';

const namespace = 'weir-system';
const times = {
  leaseDurationMs: 3_000,
  renewDeadlineMs: 2_000,
  retryPeriodMs: 300,
  replicaLeaseDurationMs: 2_000,
};

function limiter(id: string, fields: Partial<LimiterReport> = {}): LimiterReport {
  return {
    id,
    instance: undefined,
    name: `pod-${id}`,
    fleet: 'default',
    isWeir: true,
    countsCompatibly: true,
    capabilities: [],
    connectedMs: 1,
    acceptedVersion: 'v1',
    refusal: undefined,
    ...fields,
  };
}

/** `kill` ends it as kill -9 does: no timer fires, and nothing is sent or received. */
function replica(
  api: ApiServer,
  name: string,
  { user = 'control-plane', ...options }: Partial<ReplicasOptions> & { user?: ApiUser } = {},
) {
  const config = loadKubernetesConfig({ kubeconfig: api.kubeconfig(user) });
  const client = new KubernetesClient({ config, userAgent: 'weir-test' });
  const asked: string[] = [];
  const reported: string[] = [];
  const callOffs = new Set<() => void>();
  let isKilled = false;
  const replicas = new Replicas({
    ...times,
    client: {
      request: (request) => {
        asked.push(`${request.method ?? 'GET'} ${request.path}`);
        return client.request(request);
      },
      stream: (request) => client.stream(request),
      close: () => client.close(),
    },
    namespace,
    replica: name,
    leaseName: 'weir-control-plane',
    clock: systemClock,
    timers: {
      after: (delayMs, callback) => {
        const callOff = isKilled ? () => {} : systemTimers.after(delayMs, callback);
        callOffs.add(callOff);
        return callOff;
      },
      every: (intervalMs, callback) => {
        const end = systemTimers.every(intervalMs, callback);
        callOffs.add(end);
        return end;
      },
    },
    random: Math.random,
    codec: gzipCodec,
    ...recordedTelemetry(reportTo(reported)),
    startedLeading: () => {},
    stoppedLeading: () => {},
    changed: () => {},
    cutOff: () => {},
    ...options,
  });
  const kill = () => {
    isKilled = true;
    for (const callOff of callOffs) callOff();
    client.close();
  };
  onTestFinished(async () => {
    if (!isKilled) await replicas.close();
    client.close();
  });
  replicas.start();
  return { replicas, asked, reported, kill };
}

const namesOf = ({ replicas }: { replicas: Replicas }) => replicas.living().map(({ replica: name }) => name);
const limitersOf = ({ replicas }: { replicas: Replicas }) =>
  replicas.living().flatMap(({ limiters }) => limiters.map(({ id }) => id));

const names = (api: ApiServer, kind: 'leases' | 'configmaps'): string[] =>
  api.names(kind, { namespace }, 'ratelimit.weir.dev/role');

/** How often the replica wrote its report. */
function published({ asked }: ReturnType<typeof replica>, name: string): number {
  const path = `/api/v1/namespaces/${namespace}/configmaps/weir-limiters-${name}`;
  return asked.filter((request) => request === `PATCH ${path}`).length;
}

describeWithDistantApiServer('replicas on the API server', (api, network) => {
  beforeAll(() => {
    api().applyFiles('examples/kubernetes/rbac.yaml');
  });

  it('know each other’s limiters, and one of them leads', async () => {
    const [a, b] = [replica(api(), 'a'), replica(api(), 'b')];
    a.replicas.publish([limiter('1')]);
    b.replicas.publish([limiter('2', { refusal: { version: 'v2', message: 'no' } })]);
    expect(limitersOf(a)).toContain('1');
    await eventually(() => {
      expect(limitersOf(a)).toEqual(['1', '2']);
      expect(limitersOf(b)).toEqual(['2', '1']);
    });
    expect(a.replicas.living()[1]?.limiters[0]?.refusal).toEqual({ version: 'v2', message: 'no' });
    await eventually(() => expect([a, b].filter(({ replicas }) => replicas.leads)).toHaveLength(1));
    expect(names(api(), 'leases')).toEqual(['weir-replica-a', 'weir-replica-b']);
    expect(names(api(), 'configmaps')).toEqual(['weir-limiters-a', 'weir-limiters-b']);
    const owner = ['get', 'configmap', 'weir-limiters-a', '-n', namespace, '-o'];
    expect(api().mustKubectl([...owner, 'jsonpath={.metadata.ownerReferences[0].name}'])).toBe(
      'weir-replica-a',
    );
    expect(
      [...a.reported, ...b.reported].filter((line) => !/^(Leading|Another replica leads): [ab]$/.test(line)),
    ).toEqual([]);
  });

  it('learn of a limiter that moves within a second', async () => {
    const [a, b] = [replica(api(), 'a'), replica(api(), 'b')];
    a.replicas.publish([limiter('1')]);
    await eventually(() => expect(limitersOf(b)).toEqual(['1']));
    const deadline = new LoadedDeadline(1_000);
    a.replicas.publish([]);
    b.replicas.publish([limiter('1b')]);
    await eventually(() => expect([limitersOf(a), limitersOf(b)]).toEqual([['1b'], ['1b']]), {
      intervalMs: 5,
    });
    deadline.assertInTime();
  });

  it('do not count one that was killed, after its Lease’s duration', async () => {
    const [a, b] = [replica(api(), 'a'), replica(api(), 'b')];
    b.replicas.publish([limiter('2')]);
    await eventually(() => expect(limitersOf(a)).toEqual(['2']));
    b.kill();
    const killedMs = performance.now();
    const deadline = new LoadedDeadline(times.replicaLeaseDurationMs + 300);
    await eventually(() => expect(namesOf(a)).toEqual(['a']), { intervalMs: 5 });
    deadline.assertInTime();
    expect(performance.now() - killedMs).toBeGreaterThan(times.replicaLeaseDurationMs / 2);
  });

  it('do not count one that ended in order, at once, and find nothing of it', async () => {
    const [a, b] = [replica(api(), 'a'), replica(api(), 'c', { replicaLeaseDurationMs: 60_000 })];
    await eventually(() => expect(namesOf(a)).toEqual(['a', 'c']));
    await b.replicas.close();
    await eventually(() => expect(namesOf(a)).toEqual(['a']), { timeoutMs: 1_000 });
    expect(names(api(), 'leases')).not.toContain('weir-replica-c');
    expect(names(api(), 'configmaps')).not.toContain('weir-limiters-c');
  });

  it('write their objects again when somebody deletes them', async () => {
    const a = replica(api(), 'a');
    const b = replica(api(), 'b');
    a.replicas.publish([limiter('1')]);
    await eventually(() => expect(limitersOf(b)).toEqual(['1']));
    api().delete('configmaps', { name: 'weir-limiters-a', namespace });
    await eventually(() => expect(names(api(), 'configmaps')).toContain('weir-limiters-a'));
    await eventually(() => expect(limitersOf(b)).toEqual(['1']));
    const uid = () =>
      api().kubectl(['get', 'lease', 'weir-replica-a', '-n', namespace, '-o', 'jsonpath={.metadata.uid}'])
        .stdout;
    const before = uid();
    api().delete('leases', { name: 'weir-replica-a', namespace });
    await eventually(() => expect(['', before]).not.toContain(uid()));
    await eventually(() => {
      const path = 'jsonpath={.metadata.ownerReferences[0].uid}';
      const owner = api().mustKubectl(['get', 'configmap', 'weir-limiters-a', '-n', namespace, '-o', path]);
      expect(owner).toBe(uid());
    });
  });

  it('collapse a storm of changes into a few writes', async () => {
    const [a, b] = [replica(api(), 'a'), replica(api(), 'b')];
    await eventually(() => expect(namesOf(b)).toEqual(['b', 'a']));
    const before = published(a, 'a');
    const startMs = performance.now();
    for (let index = 1; performance.now() - startMs < 1_000; index++) {
      a.replicas.publish([limiter(String(index))]);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    a.replicas.publish([limiter('last')]);
    await eventually(() => expect(limitersOf(b)).toEqual(['last']));
    const writes = published(a, 'a') - before;
    expect(writes).toBeGreaterThan(1);
    expect(writes).toBeLessThan(8);
  });

  it('carry ten thousand limiters, in several ConfigMaps if one is too small', async () => {
    const [a, b] = [replica(api(), 'a', { maxPartBytes: 200_000 }), replica(api(), 'b')];
    const many = Array.from({ length: 10_000 }, (_, index) => {
      const instance = crypto.randomUUID();
      return limiter(`${crypto.randomUUID()}/${index}`, {
        instance,
        name: `pod-${index}`,
        connectedMs: Date.now(),
      });
    });
    const deadline = new LoadedDeadline(5_000);
    a.replicas.publish(many);
    await eventually(() => expect(limitersOf(b)).toHaveLength(10_000), { intervalMs: 20 });
    deadline.assertInTime();
    expect(limitersOf(b).at(-1)).toBe(many.at(-1)?.id);
    expect(names(api(), 'configmaps')).toContain('weir-limiters-a.3');
    a.replicas.publish([limiter('1')]);
    await eventually(() => expect(limitersOf(b)).toEqual(['1']));
    await eventually(() => expect(names(api(), 'configmaps')).not.toContain('weir-limiters-a.2'));
    expect(names(api(), 'configmaps')).not.toContain('weir-limiters-a.3');
  });

  it('pass over a report that is damaged', async () => {
    const [a, b] = [replica(api(), 'a'), replica(api(), 'b')];
    b.replicas.publish([limiter('2')]);
    await eventually(() => expect(limitersOf(a)).toEqual(['2']));
    const patch = JSON.stringify({ data: { revision: 'x', 'report.json': '{' } });
    const kubectl = ['patch', 'configmap', 'weir-limiters-b', '-n', namespace, '--type=merge', '-p', patch];
    api().mustKubectl(kubectl);
    await eventually(() =>
      expect(a.reported.join()).toMatch(/Cannot read a report of another replica: weir-limiters-b: .*JSON/),
    );
    expect(limitersOf(a)).toEqual(['2']);
  });

  it('clear away what a dead one left, when they lead', async () => {
    const b = replica(api(), 'dead');
    await eventually(() => expect(names(api(), 'configmaps')).toContain('weir-limiters-dead'));
    const a = replica(api(), 'a', { cleanupAfterMs: 1_000 });
    b.kill();
    await eventually(
      () => expect(a.reported).toContain('Deleted the reports of a replica that has ended: dead'),
      {
        timeoutMs: 15_000,
      },
    );
    // What it wrote in its last moment stays until the next round: it is deleted by its version.
    await eventually(() => {
      expect(names(api(), 'leases')).not.toContain('weir-replica-dead');
      expect(names(api(), 'configmaps')).not.toContain('weir-limiters-dead');
    });
  });

  it('take a Lease that they may not renew for no dead connection', async () => {
    const cutOffs: boolean[] = [];
    const cutOff = (isCutOff: boolean): void => void cutOffs.push(isCutOff);
    const { reported, kill } = replica(api(), 'a', { user: 'nobody', cutOff });
    await eventually(() => expect(reported.join()).toContain('Could not read or write a Lease object'));
    expect(new Set(cutOffs)).toEqual(new Set([false]));
    // It may not delete its Lease either.
    kill();
  });

  it('regard no limiter as gone while the API server is away', async () => {
    const cutOffs: boolean[] = [];
    const a = replica(api(), 'a', { cutOff: (isCutOff) => void cutOffs.push(isCutOff) });
    const b = replica(api(), 'b');
    a.replicas.publish([limiter('1')]);
    b.replicas.publish([limiter('2')]);
    await eventually(() =>
      expect([limitersOf(a), limitersOf(b)]).toEqual([
        ['1', '2'],
        ['2', '1'],
      ]),
    );
    await eventually(() => expect([a, b].filter(({ replicas }) => replicas.leads)).toHaveLength(1));
    const leader = a.replicas.leads ? a : b;
    await network().refuse();
    b.replicas.publish([limiter('2'), limiter('3')]);
    await eventually(() => expect(leader.reported.join()).toContain('No longer leading'));
    await new Promise((resolve) => setTimeout(resolve, times.replicaLeaseDurationMs));
    expect(namesOf(a)).toEqual(['a', 'b']);
    expect(cutOffs.at(-1)).toBe(true);
    await network().heal();
    const min = setInterval(() => {
      if (namesOf(a).length < 2) a.reported.push('b went missing');
    }, 5);
    onTestFinished(() => clearInterval(min));
    await eventually(() => expect(limitersOf(a)).toEqual(['1', '2', '3']), { timeoutMs: 15_000 });
    await eventually(() => expect([a, b].filter(({ replicas }) => replicas.leads)).toHaveLength(1));
    expect(a.reported).not.toContain('b went missing');
  });
});
