import { randomBytes } from 'node:crypto';
import { beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest';
import type { RemovedObject } from '../../control-plane/model/decision.ts';
import { gzipCodec } from '../../control-plane/replicas/own-objects.ts';
import { RemovedObjectStore } from '../../control-plane/replicas/removed-object-store.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { recordedTelemetry, reportTo } from '../support/control-plane-telemetry.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { clientOf } from '../support/kubernetes-client.ts';

const namespace = 'weir-system';

function removed(name: string): RemovedObject {
  const served = { fleet: 'default', domain: 'ü', resource: `team/${name}` };
  return { namespace: 'team', name, uid: `uid-${name}`, generation: 2, served, removedMs: 1_700_000_000_000 };
}

describeWithApiServer('deleted objects on the API server', (api) => {
  beforeAll(() => {
    api().applyFiles('examples/kubernetes/rbac.yaml');
  });
  beforeEach(() => {
    api().mustKubectl(['delete', 'configmap', 'weir-removed', '-n', namespace, '--ignore-not-found']);
  });

  function open({ leads = true } = {}) {
    const reported: string[] = [];
    const seen: { names: string[] | undefined } = { names: undefined };
    let wanted: readonly RemovedObject[] | undefined;
    const objects = new RemovedObjectStore({
      client: clientOf(api(), { user: 'control-plane' }),
      namespace,
      mayWrite: () => leads,
      clock: systemClock,
      timers: systemTimers,
      random: Math.random,
      codec: gzipCodec,
      ...recordedTelemetry(reportTo(reported)),
      changed: (stored) => {
        seen.names = stored.map(({ name }) => name);
        return wanted ?? stored;
      },
    });
    objects.start();
    onTestFinished(() => objects.close());
    const want = (next: readonly RemovedObject[]): void => {
      wanted = next;
      objects.sync(next);
    };
    return { objects, want, reported, seen };
  }

  it('outlive the process that stored them, and take no room once they were reported', async () => {
    const first = open();
    first.want([removed('a'), removed('b')]);
    const other = open({ leads: false });
    await eventually(() => expect(other.seen.names).toEqual(['a', 'b']));
    other.want([]);
    await first.objects.close();
    const second = open();
    await eventually(() => expect(second.seen.names).toEqual(['a', 'b']));
    second.want([removed('b')]);
    await eventually(() => expect(other.seen.names).toEqual(['b']));
    second.want([]);
    const maps = [
      'get',
      'configmaps',
      '-n',
      namespace,
      '-l',
      'ratelimit.weir.dev/role=removed',
      '-o',
      'name',
    ];
    await eventually(() => expect(api().mustKubectl(maps).trim()).toBe(''));
    expect([...first.reported, ...second.reported, ...other.reported]).toEqual([]);
  });

  it('are in several ConfigMaps if one is too small', async () => {
    const { want, seen, reported } = open();
    const long = (): string => randomBytes(300_000).toString('base64');
    const many = ['a', 'b', 'c', 'd', 'e'].map((name): RemovedObject => {
      const served = { fleet: 'default', domain: long(), resource: 'r' };
      return { ...removed(name), served };
    });
    want(many);
    await eventually(() => expect(seen.names).toEqual(['a', 'b', 'c', 'd', 'e']));
    expect(reported).toEqual([]);
    want([]);
    await eventually(() => expect(seen.names).toEqual([]));
  });

  it('that cannot be read are reported, and written over', async () => {
    const metadata = { name: 'weir-removed', namespace, labels: { 'ratelimit.weir.dev/role': 'removed' } };
    const damaged = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata,
      binaryData: { 'objects.json.gz': 'AAAA' },
    };
    api().apply(JSON.stringify(damaged));
    const { want, seen, reported } = open();
    await eventually(() => expect(seen.names).toEqual([]));
    expect(reported).toEqual([
      expect.stringMatching(/^Cannot read the stored list of deleted objects.*: weir-removed: /),
    ]);
    want([removed('a')]);
    await eventually(() => expect(seen.names).toEqual(['a']));
  });
});
