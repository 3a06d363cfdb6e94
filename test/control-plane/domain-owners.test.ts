import { createHash } from 'node:crypto';
import { afterEach, beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest';
import { type ClusterDecision, domainKey } from '../../control-plane/model/decision.ts';
import { DomainRecordStore } from '../../control-plane/replicas/domain-records.ts';
import { gzipCodec } from '../../control-plane/replicas/own-objects.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import {
  applyFleet,
  conditionIn,
  conditionOf,
  installPrerequisites,
  messageOf,
  startReplicaHere,
} from '../support/cluster.ts';
import type { RunningControlPlane } from '../support/control-plane-process.ts';
import { recordedTelemetry } from '../support/control-plane-telemetry.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { clientOf } from '../support/kubernetes-client.ts';
import { type ManifestOptions, rateLimitConfigText } from '../support/rate-limit-config.ts';
import { type ScriptedXdsClient, startWeirLikeClient } from '../support/xds-client.ts';

const running: RunningControlPlane[] = [];
const clients: ScriptedXdsClient[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await Promise.all(running.splice(0).map((replica) => replica.stop()));
});

const patient = { timeoutMs: 30_000 };

describeWithApiServer('domains and fleets', (api) => {
  beforeAll(() => {
    installPrerequisites(api());
    for (const namespace of ['owner', 'squatter']) api().createNamespace(namespace);
  });
  beforeEach(() => {
    for (const namespace of ['owner', 'squatter']) api().delete('ratelimitconfigs', { namespace });
    api().delete('ratelimitfleets', { namespace: 'weir-system' });
    api().delete('configmaps', { namespace: 'weir-system' });
    api().label('namespaces', { name: 'owner' }, { limits: null });
  });

  const start = async (name: string, env: Record<string, string> = {}): Promise<RunningControlPlane> => {
    const replica = await startReplicaHere(api(), name, env);
    running.push(replica);
    return replica;
  };
  const manifest = (namespace: string, traits: Partial<ManifestOptions> = {}): string =>
    rateLimitConfigText({ name: 'limits', namespace, domain: 'shop', requests: 1, ...traits });
  const apply = (namespace: string, traits: Partial<ManifestOptions> = {}): void =>
    api().apply(manifest(namespace, traits));
  const accepted = (namespace: string): string => conditionOf(api(), 'limits', 'Accepted', namespace);
  const programmed = (namespace: string): string => conditionOf(api(), 'limits', 'Programmed', namespace);
  const words = (namespace: string): string => messageOf(api(), 'limits', 'Accepted', namespace);
  const awaitAccepted = (namespace: string, status: string): Promise<void> =>
    eventually(() => expect(accepted(namespace)).toBe(status), patient);
  const record = (): string =>
    JSON.stringify(api().read('configmaps', { name: 'weir-domains', namespace: 'weir-system' }).data);
  const awaitRecord = (namespace: string): Promise<void> =>
    eventually(
      () => expect(record()).toContain(`default/shop\\":{\\"namespaces\\":[\\"${namespace}\\"]}`),
      patient,
    );
  const connect = async ({ ports }: RunningControlPlane, pod: string): Promise<ScriptedXdsClient> => {
    const client = await startWeirLikeClient({ port: ports.xds, pod });
    clients.push(client);
    return client;
  };
  const everServed = (): string[] =>
    clients.flatMap(({ received }) => received.flatMap(({ names }) => names)).sort();

  it('keeps a domain for its namespace over kubectl replace --force, whichever namespace has waited', async () => {
    const slow = { DOMAIN_RELEASE_DELAY: '10m' };
    const replicas = [await start('a', slow), await start('b', slow)];
    const limiters = await Promise.all(replicas.map((replica, i) => connect(replica, `lim-${i}`)));
    apply('owner');
    await awaitAccepted('owner', 'True Valid');
    await awaitRecord('owner');
    apply('squatter');
    await awaitAccepted('squatter', 'False DomainConflict');
    for (let round = 0; round < 3; round++) {
      const input = manifest('owner', { requests: 2 + round });
      api().mustKubectl(['replace', '--force', '-f', '-'], { input });
      await eventually(() => expect(programmed('owner')).toBe('True AllLimiters'), patient);
    }
    expect(accepted('squatter')).toBe('False DomainConflict');
    for (const { last } of limiters) expect(last?.limits).toEqual(new Map([['shop', 4]]));
    expect([...new Set(everServed())]).toEqual(['owner/limits']);

    api().delete('ratelimitconfigs', { name: 'limits', namespace: 'owner' });
    await eventually(() => {
      expect(words('squatter')).toMatch(
        /^domain 'shop' of fleet 'default' is reserved for namespace owner, its last namespace, until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ; nothing is in force$/,
      );
    }, patient);

    // Neither a new leader nor new replicas give it away.
    await Promise.all(running.splice(0).map((replica) => replica.stop()));
    await start('c', slow);
    apply('squatter', { requests: 9 });
    await eventually(() => expect(words('squatter')).toContain('is reserved for namespace owner'), patient);
    apply('owner');
    await awaitAccepted('owner', 'True Valid');
    expect(accepted('squatter')).toBe('False DomainConflict');
  }, 120_000);

  it('gives a domain to another namespace when the delay is over', async () => {
    await start('a', { DOMAIN_RELEASE_DELAY: '2s' });
    apply('owner');
    await awaitAccepted('owner', 'True Valid');
    await awaitRecord('owner');
    apply('squatter');
    await awaitAccepted('squatter', 'False DomainConflict');
    api().delete('ratelimitconfigs', { name: 'limits', namespace: 'owner' });
    await awaitAccepted('squatter', 'True Valid');
    await awaitRecord('squatter');
  }, 60_000);

  /** Every domain has a name that compresses badly. */
  const decisionOf = (count: number): Pick<ClusterDecision, 'holders'> => {
    const holders = Array.from({ length: count }, (_, index): [string, string[]] => {
      const domain = createHash('sha256').update(String(index)).digest('hex');
      return [domainKey({ fleet: 'default', domain }), [`team-${index % 300}`]];
    });
    return { holders: new Map(holders) };
  };
  const openStore = (leads: boolean): DomainRecordStore => {
    const store = new DomainRecordStore({
      client: clientOf(api(), { user: 'control-plane' }),
      namespace: 'weir-system',
      releaseMs: 60_000,
      maxPartBytes: 100_000,
      mayWrite: () => leads,
      clock: systemClock,
      timers: systemTimers,
      random: Math.random,
      codec: gzipCodec,
      ...recordedTelemetry(),
      changed: () => {},
    });
    onTestFinished(() => store.close());
    store.start();
    return store;
  };

  it('writes 5,000 domains at once, into as many ConfigMaps as they take', async () => {
    const [leader, other] = [openStore(true), openStore(false)];
    await eventually(() => expect(leader.records?.size).toBe(0));
    for (const count of [1, 1_000, 4_000, 5_000]) leader.decided(decisionOf(count));
    await eventually(() => expect(other.records?.size).toBe(5_000), patient);
    await eventually(() => expect(leader.records).toEqual(other.records), patient);
    const selector = '?labelSelector=ratelimit.weir.dev%2Frole%3Ddomains';
    const names = (): object[] => api().read('configmaps', { namespace: 'weir-system' }, selector).items;
    expect(names().length).toBeGreaterThan(1);
    leader.stoppedLeading();
    const next = openStore(true);
    await eventually(() => expect(next.records?.size).toBe(5_000), patient);
    next.decided(decisionOf(2));
    await eventually(() => {
      const held = [...(other.records ?? [])].filter(([, { heldUntilMs }]) => heldUntilMs !== undefined);
      expect(held).toHaveLength(4_998);
    }, patient);
  }, 60_000);

  it('recreates a record that is deleted or damaged, and holds what it knew', async () => {
    const replica = await start('a');
    apply('owner');
    await awaitRecord('owner');
    // A deletion that arrives together with the creation is the deletion of a record that the leader never saw.
    await eventually(() => {
      api().delete('configmaps', { name: 'weir-domains', namespace: 'weir-system' });
      expect(replica.program.output).toMatch(/was deleted: the leader creates a new one/);
    }, patient);
    await awaitRecord('owner');
    const damage = (): void => {
      const where = { name: 'weir-domains', namespace: 'weir-system' };
      api().patch('configmaps', where, { data: { 'domains.json': '{"x":1}' } });
    };
    damage();
    await replica.program.printed(/Cannot read the record of domain holders/);
    await awaitRecord('owner');
    await replica.stop();
    damage();
    await start('b');
    await awaitRecord('owner');
    expect(accepted('owner')).toBe('True Valid');
  }, 60_000);

  it('gives a domain to anybody at once with DOMAIN_RELEASE_DELAY=0', async () => {
    await start('a', { DOMAIN_RELEASE_DELAY: '0s' });
    apply('owner');
    await awaitAccepted('owner', 'True Valid');
    apply('squatter');
    await awaitAccepted('squatter', 'False DomainConflict');
    api().delete('ratelimitconfigs', { name: 'limits', namespace: 'owner' });
    await awaitAccepted('squatter', 'True Valid');
    const { items } = api().read('configmaps', { namespace: 'weir-system' });
    expect(JSON.stringify(items)).not.toContain('domains');
  }, 60_000);

  const fleet = (spec: Record<string, unknown>): void => applyFleet(api(), spec);
  const fleetReady = (): string | undefined =>
    conditionIn(api(), { kind: 'ratelimitfleets', name: 'default', namespace: 'weir-system' }, 'Ready')
      ?.reason;

  it('follows the domains of a RateLimitFleet, and keeps what held when they are bad', async () => {
    fleet({ domains: [{ match: 'sh*', namespaces: ['owner'] }] });
    const { program } = await start('a');
    apply('squatter');
    await awaitAccepted('squatter', 'False DomainNotAllowed');
    apply('owner');
    await awaitAccepted('owner', 'True Valid');
    fleet({
      domains: [
        { match: '*', namespaces: ['squatter'] },
        { match: 'shop', namespaces: ['owner'] },
      ],
    });
    await eventually(() => expect(fleetReady()).toBe('Invalid'), patient);
    await program.printed(/A field of a RateLimitFleet cannot be applied/);
    expect(accepted('owner')).toBe('True Valid');
    fleet({ domains: [{ match: 'shop', namespaces: ['squatter'] }] });
    await awaitAccepted('owner', 'False DomainNotAllowed');
    await awaitAccepted('squatter', 'True Valid');
    await eventually(() => expect(fleetReady()).not.toBe('Invalid'), patient);
  }, 60_000);

  it('lets namespaces into a fleet by their labels, which it follows', async () => {
    const selector = { matchLabels: { limits: 'yes' } };
    fleet({ allowedNamespaces: { from: 'Selector', selector } });
    await start('a');
    apply('owner');
    await awaitAccepted('owner', 'False FleetNotAllowed');
    expect(words('owner')).toBe(
      "fleet 'default' is not for namespace 'owner': allowedNamespaces of its RateLimitFleet allows namespaces with the labels limits=yes; nothing is in force",
    );
    api().label('namespaces', { name: 'owner' }, { limits: 'yes' });
    await awaitAccepted('owner', 'True Valid');
    api().label('namespaces', { name: 'owner' }, { limits: null });
    await awaitAccepted('owner', 'False FleetNotAllowed');
    fleet({ allowedNamespaces: { from: 'All' } });
    await awaitAccepted('owner', 'True Valid');
  }, 60_000);

  it('says that it may not read namespaces, and leaves what is served', async () => {
    const first = await start('a');
    apply('owner');
    await awaitAccepted('owner', 'True Valid');
    await first.stop();
    const role: { rules: { resources: string[] }[] } = api().read('clusterroles', {
      name: 'weir-control-plane',
    });
    const without = role.rules.filter(({ resources }) => !resources.includes('namespaces'));
    expect(without).toHaveLength(role.rules.length - 1);
    const setRules = (rules: object[]): void =>
      api().patch('clusterroles', { name: 'weir-control-plane' }, { rules });
    setRules(without);
    try {
      const mayList = () => api().can('control-plane', 'list namespaces');
      await eventually(() => expect(mayList()).toBe(false), patient);
      fleet({ allowedNamespaces: { from: 'Selector', selector: { matchLabels: { limits: 'yes' } } } });
      const replica = await start('b');
      // A denial of 30 s is reported, and none before.
      await replica.program.printed(
        /Cannot watch the objects that describe fleets.*namespaces is forbidden/,
        45_000,
      );
      apply('squatter', { domain: 'mail' });
      await awaitAccepted('squatter', 'False FleetNotAllowed');
      expect(words('squatter')).toMatch(
        /^it is unknown which namespaces may use fleet 'default': .*namespaces is forbidden/,
      );
      expect(accepted('owner')).toBe('True Valid');
      await eventually(() => expect(fleetReady()).toBe('NamespacesUnknown'), patient);
    } finally {
      setRules(role.rules);
    }
    await awaitAccepted('owner', 'False FleetNotAllowed');
  }, 90_000);

  it('takes the example, beside what the control plane set', async () => {
    const services = { FLEET_SERVICES: 'default=weir-system/weir-limiter' };
    const replica = await start('a', services);
    await replica.program.printed(/Created a RateLimitFleet/);
    api().mustKubectl(['apply', '--server-side', '-f', 'examples/kubernetes/fleet.yaml']);
    apply('owner');
    await awaitAccepted('owner', 'False FleetNotAllowed');
    api().label('namespaces', { name: 'owner' }, { limits: 'yes' });
    await awaitAccepted('owner', 'True Valid');
    apply('owner', { domain: 'mail-eu' });
    await awaitAccepted('owner', 'False DomainNotAllowed');
    api().label('namespaces', { name: 'owner' }, { limits: null });
    const service = ['get', 'rlf', 'default', '-n', 'weir-system', '-o', 'jsonpath={.spec.service.name}'];
    expect(api().mustKubectl(service)).toBe('weir-limiter');
  }, 60_000);

  it('rejects specs of fleets that say nothing', () => {
    for (const [spec, problem] of [
      [{ allowedNamespaces: { from: 'Selector' } }, 'selector is needed with from: Selector'],
      [{ allowedNamespaces: { selector: {} } }, 'selector is needed with from: Selector'],
      [{ domains: [{ match: 'a', namespaces: [] }] }, 'should have at least 1 items'],
      [{ domains: [{ match: 'a', namespaces: ['No'] }] }, 'should match'],
      [
        {
          allowedNamespaces: {
            from: 'Selector',
            selector: { matchExpressions: [{ key: 'a', operator: 'In' }] },
          },
        },
        'values are needed with In and NotIn',
      ],
    ] as const) {
      expect(() => fleet(spec), problem).toThrow(problem);
    }
  });

  it('leaves all fleets open to all if their definition is missing', async () => {
    api().mustKubectl(['delete', 'crd', 'ratelimitfleets.ratelimit.weir.dev']);
    try {
      await start('a');
      apply('owner');
      await awaitAccepted('owner', 'True Valid');
    } finally {
      installPrerequisites(api());
    }
  }, 60_000);
});
