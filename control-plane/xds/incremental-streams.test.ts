import { describe, expect, it, onTestFinished } from 'vitest';
import { DeltaClient } from '../../test/support/delta-client.ts';
import { eventually } from '../../test/support/eventually.ts';
import { ScriptedXdsClient } from '../../test/support/xds-client.ts';
import { fleetsOf, startXdsServer, testSnapshot } from '../../test/support/xds-server.ts';

const v1 = testSnapshot('default', ['a', 'b']);
const v2 = testSnapshot('default', ['b', 'c']);
const v3 = testSnapshot('default', ['b', 'c', 'd']);
const versionsOf = ({ resources }: typeof v1) =>
  Object.fromEntries(resources.map(({ name, hash }) => [name, hash]));
const versions = versionsOf(v1);

async function serving(snapshot = v1, options: { accepts?: boolean } = {}) {
  const running = await startXdsServer();
  running.server.serve(fleetsOf(snapshot));
  const client = new DeltaClient(running.port, options);
  return { ...running, client };
}

describe('an incremental stream', () => {
  it('gets everything at first and then what is different, removals included', async () => {
    const { server, client } = await serving();
    client.request();
    expect(await client.responses(1)).toMatchObject({ version: v1.version, names: ['team/a', 'team/b'] });
    server.serve(fleetsOf(v2));
    expect(await client.responses(2)).toMatchObject({
      version: v2.version,
      names: ['team/c'],
      removed: ['team/a'],
    });
    await eventually(() => expect(server.limiters()).toMatchObject([{ acceptedVersion: v2.version }]));
  });

  it('gets nothing before the first call of serve', async () => {
    const { server, port } = await startXdsServer();
    const client = new DeltaClient(port);
    client.request();
    await eventually(() => expect(server.limiters()).toHaveLength(1));
    expect(client.received).toEqual([]);
    server.serve(fleetsOf(v1));
    await client.responses(1);
  });

  it('of a limiter that comes again with all resources is that of one that has them in force, and brings none', async () => {
    const { server, client } = await serving(v1, { accepts: false });
    client.request({ initialResourceVersions: versions });
    expect(await client.responses(1)).toMatchObject({ version: v1.version, names: [], removed: [] });
    expect(server.limiters()).toMatchObject([{ acceptedVersion: v1.version, refusal: undefined }]);
  });

  it('brings rules to a limiter without any while the source is out of reach, and no old ones to others', async () => {
    const { server, port, client } = await serving();
    server.cutOff(true);
    const newer = new DeltaClient(port, { pod: 'q' });
    const whole = new ScriptedXdsClient({ port, userAgentName: 'weir', claims: v2.version });
    onTestFinished(() => whole.close());
    newer.request({ initialResourceVersions: versionsOf(v2) });
    await eventually(() => expect(server.limiters()).toHaveLength(2));
    client.request();
    await client.responses(1);
    server.serve(fleetsOf(v2));
    await eventually(() =>
      expect(
        server
          .limiters()
          .map(({ acceptedVersion }) => acceptedVersion)
          .sort(),
      ).toEqual([v1.version, v2.version, v2.version].sort()),
    );
    expect([client.received.length, newer.received.length, whole.received.length]).toEqual([1, 0, 0]);
    server.cutOff(false);
    server.serve(fleetsOf(v3));
    for (const one of [client, newer]) await one.responses(one === client ? 2 : 1);
    await eventually(() => expect(whole.received).toMatchObject([{ version: v3.version }]));
  });

  it('of a limiter with other rules brings none before it is known which are older', async () => {
    const asked: (() => void)[] = [];
    const { server, port } = await startXdsServer({ confirm: (then) => asked.push(then) });
    server.serve(fleetsOf(v1));
    const [same, other, without] = ['p', 'q', 'r'].map((pod) => new DeltaClient(port, { pod }));
    const whole = new ScriptedXdsClient({ port, userAgentName: 'weir', claims: v2.version });
    onTestFinished(() => whole.close());
    other!.request({ initialResourceVersions: versionsOf(v2) });
    await eventually(() => expect(asked).toHaveLength(2));
    same!.request({ initialResourceVersions: versions });
    without!.request();
    await same!.responses(1);
    await without!.responses(1);
    expect([asked.length, other!.received.length, whole.received.length]).toEqual([2, 0, 0]);
    server.serve(fleetsOf(v3));
    await same!.responses(2);
    expect([other!.received.length, whole.received.length]).toEqual([0, 0]);
    for (const then of asked) then();
    expect(await other!.responses(1)).toMatchObject({ version: v3.version, names: ['team/d'] });
    await eventually(() => expect(whole.received).toMatchObject([{ version: v3.version }]));
  });

  it('of a limiter that comes again brings what has changed meanwhile', async () => {
    const { server, client } = await serving(v2, { accepts: false });
    client.request({ initialResourceVersions: versions });
    expect(await client.responses(1)).toMatchObject({ names: ['team/c'], removed: ['team/a'] });
    expect(server.limiters()).toMatchObject([{ acceptedVersion: v1.version }]);
  });

  it('says what of a response is rejected, while the rest is in force', async () => {
    const { server, client } = await serving(v1, { accepts: false });
    client.request();
    await client.responses(1);
    client.refuse('a: bad', [{ name: 'team/a', message: 'bad' }]);
    const resources = [{ name: 'team/a', message: 'bad' }];
    await eventually(() =>
      expect(server.limiters()).toMatchObject([
        { acceptedVersion: undefined, refusal: { version: v1.version, message: 'a: bad', resources } },
      ]),
    );
    server.serve(fleetsOf(v2));
    expect(await client.responses(2)).toMatchObject({ names: ['team/c'], removed: ['team/a'] });
    client.accept();
    await eventually(() =>
      expect(server.limiters()).toMatchObject([{ acceptedVersion: v2.version, refusal: undefined }]),
    );
  });

  it('names a resource of the longest name unchanged, however long the message is', async () => {
    const name = `${'n'.repeat(63)}/${'o'.repeat(253)}`;
    const { server, client } = await serving(v1, { accepts: false });
    client.request();
    await client.responses(1);
    client.refuse('bad', [{ name, message: 'w'.repeat(300) }]);
    const message = `${'w'.repeat(256)}...`;
    await eventually(() => expect(server.limiters()[0]?.refusal?.resources).toEqual([{ name, message }]));
  });

  it.each([
    ['without such a list', []],
    ['with a name that no resource can have', [{ name: 'x'.repeat(521), message: 'bad' }]],
    ['with an empty name', [{ name: '', message: 'bad' }]],
  ])('takes an error %s for one of everything', async (_, list) => {
    const { server, client } = await serving(v1, { accepts: false });
    client.request();
    await client.responses(1);
    client.refuse('out of memory', list);
    await eventually(() =>
      expect(server.limiters()[0]?.refusal).toEqual({
        version: v1.version,
        message: 'out of memory',
        resources: undefined,
      }),
    );
  });

  it('has one response in flight, and then the newest', async () => {
    const { server, client } = await serving(v1, { accepts: false });
    client.request();
    await client.responses(1);
    server.serve(fleetsOf(v2));
    server.serve(fleetsOf(v3));
    client.accept();
    expect(await client.responses(2)).toMatchObject({
      version: v3.version,
      names: ['team/c', 'team/d'],
      removed: ['team/a'],
    });
  });

  it('does not say that a limiter has the version which comes back while it has not answered another one', async () => {
    const { server, client, changes } = await serving(v1, { accepts: false });
    client.request();
    await client.responses(1);
    client.accept();
    await eventually(() => expect(server.limiters()).toMatchObject([{ acceptedVersion: v1.version }]));
    server.serve(fleetsOf(v2));
    await client.responses(2);
    const before = changes();
    server.serve(fleetsOf(v1));
    expect(changes()).toBe(before + 1);
    expect(server.limiters()).toMatchObject([{ acceptedVersion: v1.version, sentVersion: v2.version }]);
    client.accept();
    await client.responses(3);
    client.accept();
    await eventually(() => {
      expect(server.limiters()).toMatchObject([{ acceptedVersion: v1.version }]);
      expect(server.limiters()[0]).not.toHaveProperty('sentVersion');
    });
  });

  it('answers a flood of requests by one response', async () => {
    const { server, client } = await serving(v1, { accepts: false });
    client.request();
    for (let i = 0; i < 100; i++)
      client.request({ resourceNamesSubscribe: ['team/a'], responseNonce: `x${i}` });
    await client.responses(1);
    client.accept();
    // What was asked for meanwhile is one more.
    await client.responses(2);
    client.accept();
    await eventually(() => expect(server.limiters()).toMatchObject([{ acceptedVersion: v1.version }]));
    expect(client.received).toHaveLength(2);
  });

  it('ends when it subscribes to more names than the bound, first or later', async () => {
    const names = Array.from({ length: 1_001 }, (_, i) => `n${i}`);
    const { client, port } = await serving();
    client.request({ resourceNamesSubscribe: names });
    const end =
      '3 INVALID_ARGUMENT: subscribes to 1001 names of resources, the bound is 1000: subscribe to * for all of them';
    await eventually(() => expect(client.end).toBe(end));
    const later = new DeltaClient(port);
    later.request();
    later.request({ resourceNamesSubscribe: names });
    await eventually(() => expect(later.end).toBe(end));
  });

  it('may begin with a long list of what it has, and says no more of that length later', async () => {
    const { client } = await serving();
    const many = Object.fromEntries(
      Array.from({ length: 20_000 }, (_, i) => [`team/${'x'.repeat(60)}${i}`, 'v']),
    );
    client.request({ initialResourceVersions: many });
    expect((await client.responses(1)).removed).toHaveLength(20_000);
    client.request({ initialResourceVersions: many });
    await eventually(() => expect(client.end).toMatch(/^8 RESOURCE_EXHAUSTED: .*the bound is 1048576$/));
  });

  it('passes over other types', async () => {
    const { server, client } = await serving();
    client.request({ typeUrl: 'type.googleapis.com/envoy.config.cluster.v3.Cluster' });
    client.request();
    await client.responses(1);
    await eventually(() => expect(server.limiters()).toHaveLength(1));
    expect(client.received).toHaveLength(1);
  });

  it('runs beside one of the state of the world, on the same fleet', async () => {
    const { server, client, port } = await serving();
    client.request();
    await client.responses(1);
    const world = new ScriptedXdsClient({ port });
    await eventually(() => expect(world.last?.version).toBe(v1.version));
    server.serve(fleetsOf(v3));
    await eventually(() => {
      expect(world.last).toMatchObject({ version: v3.version, names: ['team/b', 'team/c', 'team/d'] });
      expect(server.limiters().map(({ acceptedVersion }) => acceptedVersion)).toEqual([
        v3.version,
        v3.version,
      ]);
    });
    world.close();
    expect([...client.world.keys()].sort()).toEqual(['team/b', 'team/c', 'team/d']);
  });
});
