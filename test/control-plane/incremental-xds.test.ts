/** The control plane's server and a limiter's source, with nothing between them but the wire. */
import { describe, expect, it } from 'vitest';
import { fleetSnapshot, hashOf } from '../../control-plane/model/fleet-snapshot.ts';
import type { RuleSource } from '../../rules/model.ts';
import { encodeResource } from '../../rules/xds/resource.ts';
import { eventually } from '../support/eventually.ts';
import { limit, rule, source } from '../support/rule-builder.ts';
import { WatchedXdsSource } from '../support/watched-xds-source.ts';
import { fleetsOf, startXdsServer } from '../support/xds-server.ts';

const weir = { id: 'node-1', metadata: { pod: 'pod-1', instance: 'pod-1-1' }, version: '1.2.3' };

function rules(domain: string, requestsPerUnit: number): RuleSource {
  return source(domain, [rule({ key: 'k', rateLimit: limit({ requestsPerUnit }) })], `team/${domain}`);
}

function snapshot(...sources: RuleSource[]) {
  const resources = sources.map((one) => {
    const bytes = encodeResource(one);
    return { name: one.name, domain: one.domain, bytes, hash: hashOf(bytes) };
  });
  return fleetSnapshot('default', resources);
}

const first = snapshot(rules('a', 1), rules('b', 1));
const second = snapshot(rules('a', 1), rules('b', 2), rules('c', 1));
/** Which the control plane would not serve: it stands for a limiter that knows less than its control plane. */
const half = snapshot(rules('a', 5), { ...rules('a', 9), name: 'team/z' }, rules('c', 7));

describe.each([true, false])('control plane and limiter, incremental: %s', (incremental) => {
  it('go together through changes, and through a control plane that starts anew', async () => {
    const { server, port } = await startXdsServer();
    server.serve(fleetsOf(first));
    const watched = await WatchedXdsSource.start({ port, incremental, node: weir });
    await eventually(() => expect(watched.rules).toEqual(['a.k 1', 'b.k 1']));
    server.serve(fleetsOf(second));
    await eventually(() => expect(server.limiters()[0]?.acceptedVersion).toBe(second.version));
    expect(watched.rules).toEqual(['a.k 1', 'b.k 2', 'c.k 1']);
    await server.shutdown();
    const again = await startXdsServer({ replicaName: 'replica-1' }, port);
    again.server.serve(fleetsOf(second));
    // It says so before it was sent anything.
    await eventually(() => expect(again.server.limiters()[0]?.acceptedVersion).toBe(second.version));
    await eventually(() => expect(watched.told).toContain('found'));
    expect(watched.told.filter((one) => one.startsWith('loaded'))).toHaveLength(2);
    again.server.serve(fleetsOf(first));
    await eventually(() => expect(watched.rules).toEqual(['a.k 1', 'b.k 1']));
  });
});

describe('a refusal', () => {
  it('is of the resources that are bad, by incremental xDS, and the others are in force', async () => {
    const { server, port } = await startXdsServer();
    server.serve(fleetsOf(second));
    const watched = await WatchedXdsSource.start({ port, incremental: true, node: weir });
    await eventually(() => expect(server.limiters()[0]?.acceptedVersion).toBe(second.version));
    server.serve(fleetsOf(half));
    const message = "duplicate domain 'a' in config file";
    await eventually(() =>
      expect(server.limiters()[0]).toMatchObject({
        acceptedVersion: second.version,
        refusal: { version: half.version, resources: [{ name: 'team/z', message }] },
      }),
    );
    expect(watched.rules).toEqual(['a.k 5', 'c.k 7']);
    // Another response, and still refused.
    server.serve(fleetsOf(snapshot(rules('a', 6), { ...rules('a', 9), name: 'team/z' })));
    await eventually(() => expect(watched.rules).toEqual(['a.k 6']));
    server.serve(fleetsOf(snapshot({ ...rules('a', 9), name: 'team/z' })));
    await eventually(() => expect(watched.rules).toEqual(['a.k 9']));
    await eventually(() => expect(server.limiters()[0]?.refusal).toBeUndefined());
  });

  it('is of the whole push, by state of the world', async () => {
    const { server, port } = await startXdsServer();
    server.serve(fleetsOf(second));
    const watched = await WatchedXdsSource.start({ port, node: weir });
    await eventually(() => expect(server.limiters()[0]?.acceptedVersion).toBe(second.version));
    server.serve(fleetsOf(half));
    await eventually(() => expect(server.limiters()[0]?.refusal?.version).toBe(half.version));
    expect(server.limiters()[0]?.refusal?.resources).toBeUndefined();
    expect(watched.rules).toEqual(['a.k 1', 'b.k 2', 'c.k 1']);
  });
});
