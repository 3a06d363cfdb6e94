import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, expect, it, onTestFinished } from 'vitest';
import { capabilities } from '../../rules/language/capabilities.ts';
import {
  applyFleet,
  conditionOf,
  installPrerequisites,
  messageOf,
  startReplica,
  type WrittenCondition,
} from '../support/cluster.ts';
import type { ControlPlaneProcess } from '../support/control-plane-process.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { httpAsk } from '../support/http-ask.ts';
import { rateLimitConfigText, rateLimitConfigTexts } from '../support/rate-limit-config.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { startReceiver } from '../support/webhook-receiver.ts';
import { ScriptedXdsClient, startWeirLikeClient, type WeirLikeClientOptions } from '../support/xds-client.ts';

/** Shorter than the default, so that the next leader leads soon. */
const leases = { LEASE_DURATION: '4s', LEASE_RENEW_DEADLINE: '3s', LEASE_RETRY_PERIOD: '500ms' };

const running: ControlPlaneProcess[] = [];
const clients: ScriptedXdsClient[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await Promise.all(running.splice(0).map((replica) => replica.stop()));
});

describeWithApiServer('Programmed', (api) => {
  beforeAll(() => {
    installPrerequisites(api());
    applyFleet(api(), { onDisconnected: 'Ignore' });
  });

  const start = async (name: string, env: Record<string, string> = {}): Promise<ControlPlaneProcess> => {
    const replica = await startReplica(api(), name, { ...leases, ...env });
    running.push(replica);
    return replica;
  };
  const startLeader = async (name: string, env: Record<string, string> = {}): Promise<number> => {
    const replica = await start(name, env);
    await replica.program.printed(/Leading/);
    return replica.ports.xds;
  };
  const limiter = async (
    port: number,
    pod: string,
    options: Partial<WeirLikeClientOptions> = {},
  ): Promise<ScriptedXdsClient> => {
    const client = await startWeirLikeClient({ port, pod, reconnects: false, ...options });
    clients.push(client);
    return client;
  };
  const apply = (requests: number, name = 'shop'): void =>
    api().apply(rateLimitConfigText({ name, domain: name, requests }));
  const programmed = (): string => conditionOf(api(), 'shop', 'Programmed');
  const shop = () => api().read('ratelimitconfigs', { name: 'shop', namespace: 'default' });
  const generation = (): number | undefined => shop().status?.observedGeneration;
  /** Whether that is said of the present generation: the one before may have been in force as well. */
  const isOfNow = (): boolean => shop().metadata.generation === generation();

  /** A leader behind a proxy, which notices soon that the API server does not answer. */
  const startBehindProxy = async (name: string): Promise<{ proxy: TcpProxy; port: number }> => {
    const proxy = await TcpProxy.to(Number(new URL(api().url).port));
    onTestFinished(() => proxy.close());
    const kubeconfig = api().kubeconfigOver(proxy.port, 'control-plane');
    const port = await startLeader(name, { KUBECONFIG: kubeconfig, REPLICA_LEASE_DURATION: '1s' });
    return { proxy, port };
  };

  it('rests on rules that no replica replaces by older ones when the API server falls silent', async () => {
    apply(11, 'mail');
    const { proxy, port } = await startBehindProxy('silent');
    expect((await limiter(port, 'lim-0')).last?.limits.get('mail')).toBe(11);
    proxy.swallow();
    apply(12, 'mail');
    await running[0]?.program.printed(/Could not read or write a Lease object/);
    // The other Lease has a longer patience.
    await sleep(1_000);
    const moved = new ScriptedXdsClient({ port, userAgentName: 'weir', claims: 'feedfacefeedface' });
    clients.push(moved);
    await sleep(1_500);
    expect(moved.received).toEqual([]);
    await proxy.heal();
    await eventually(() => expect(moved.last?.limits.get('mail')).toBe(12), { timeoutMs: 20_000 });
  }, 60_000);

  it('follows within seconds when the connections of a watch are dead and others are not', async () => {
    apply(21, 'mail');
    const { proxy, port } = await startBehindProxy('forgotten');
    const client = await limiter(port, 'lim-0');
    // The second time within a minute, too.
    for (const requests of [22, 23]) {
      proxy.forget();
      apply(requests, 'mail');
      await eventually(() => expect(client.last?.limits.get('mail')).toBe(requests), { timeoutMs: 20_000 });
    }
  }, 60_000);

  it('is False when a limiter returns with rules from before a restart and rejects the new ones', async () => {
    const port = await startLeader('first');
    const stays = await limiter(port, 'lim-0');
    const leaves = await limiter(port, 'lim-1');
    apply(1);
    await eventually(() => expect(programmed()).toBe('True AllLimiters'));
    await eventually(() => expect(leaves.acceptedVersion).toBe(stays.acceptedVersion));
    const old = leaves.acceptedVersion;
    leaves.close();
    apply(2);
    await eventually(() => expect(`${generation()} ${programmed()}`).toBe('2 True AllLimiters'));

    process.kill((running[0] as ControlPlaneProcess).pid, 'SIGKILL');
    const nextPort = await startLeader('second');
    await limiter(nextPort, 'lim-0');
    await limiter(nextPort, 'lim-1', { claims: old, refuses: 'I cannot load that' });
    await eventually(() => expect(programmed()).toBe('False Refused'));
    expect(messageOf(api(), 'shop', 'Programmed')).toMatch(
      /; rejected by lim-1 since \d\d:\d\d:\d\dZ: I cannot load that$/,
    );
  }, 60_000);

  it('is False while a limiter does not support the rules, which keeps the generation before, over a restart too', async () => {
    const first = await startLeader('plane-1');
    const old = await limiter(first, 'lim-old');
    await limiter(first, 'lim-new', { capabilities });
    const applySliding = (requests: number) => {
      const rateLimit = { unit: 'day', requestsPerUnit: requests, algorithm: 'SlidingWindow' };
      const text = rateLimitConfigText({ name: 'slide', domain: 'slide', requests, rule: { rateLimit } });
      api().apply(text);
    };
    const programmed = () => conditionOf(api(), 'slide', 'Programmed');
    const fleet = () =>
      api().read('ratelimitfleets', { name: 'default', namespace: 'weir-system' }).status ?? {};
    apply(31, 'slide');
    await eventually(() => expect(programmed()).toBe('True AllLimiters'));
    applySliding(32);
    await eventually(() =>
      expect(messageOf(api(), 'slide', 'Programmed')).toMatch(
        /; limiters that do not support all of algorithms get generation 1: lim-old since \d\d:\d\d:\d\dZ$/,
      ),
    );
    expect(programmed()).toBe('False LimiterTooOld');
    expect(conditionOf(api(), 'slide', 'Ready')).toBe('False LimiterTooOld');
    await eventually(() => expect(fleet()).toMatchObject({ limiters: '2/2', current: 1 }));
    expect(fleet().conditions[0].reason).toBe('LimiterTooOld');
    expect(clients.map(({ last }) => last?.limits.get('slide'))).toEqual([31, 32]);
    const configMaps = () => JSON.stringify(api().read('configmaps', { namespace: 'weir-system' }));
    await eventually(() => expect(configMaps()).toContain('weir-kept-'));

    await running.shift()?.stop();
    const second = await startLeader('plane-2');
    const again = await limiter(second, 'lim-old', { claims: old.acceptedVersion });
    await limiter(second, 'lim-new', { capabilities });
    applySliding(33);
    await eventually(() => expect(clients.at(-1)?.last?.limits.get('slide')).toBe(33));
    await eventually(() => expect(fleet().current).toBe(1));
    expect(programmed()).toBe('False LimiterTooOld');
    expect(again.received.map(({ limits }) => limits.get('slide'))).toEqual([31]);

    again.close();
    await limiter(second, 'lim-old', { capabilities, instance: 'its next process' });
    await eventually(() => expect(programmed()).toBe('True AllLimiters'));
  }, 60_000);

  it('is False NoLimiters, reported by a Warning event, while no limiter is connected', async () => {
    await startLeader('alone');
    apply(3);
    await eventually(() => expect(programmed()).toBe('False NoLimiters'));
    const events = () => api().read('events', { namespace: 'default' }, '?fieldSelector=reason=NoLimiters');
    await eventually(() => expect(events().items[0]?.type).toBe('Warning'));
  }, 60_000);

  it('does not depend on a replica cut off from the API server: it sends no old rules to a limiter that has rules', async () => {
    const proxy = await TcpProxy.to(Number(new URL(api().url).port));
    onTestFinished(() => proxy.close());
    applyFleet(api(), { count: 2 });
    const port = await startLeader('connected');
    const cutOff = await start('cut-off', {
      KUBECONFIG: api().kubeconfigOver(proxy.port, 'control-plane'),
    });
    await limiter(port, 'lim-0');
    const moves = await limiter(port, 'lim-1');
    apply(4);
    await eventually(() => expect([isOfNow(), programmed()]).toEqual([true, 'True AllLimiters']));
    const old = moves.acceptedVersion;
    const served = async (): Promise<string> => (await httpAsk(cutOff.ports.http, '/snapshot')).body;
    await eventually(async () => expect(await served()).toContain(old));

    await proxy.refuse();
    await cutOff.program.printed(/Cannot watch RateLimitConfigs/);
    apply(5);
    await eventually(() => expect(moves.acceptedVersion).not.toBe(old));
    const newer = moves.acceptedVersion;
    moves.close();
    const moved = new ScriptedXdsClient({
      port: cutOff.ports.xds,
      userAgentName: 'weir',
      metadata: { pod: 'lim-1', instance: 'lim-1-1' },
      claims: newer,
      reconnects: false,
    });
    clients.push(moved);
    // One without rules is better off with old ones.
    const starts = await limiter(cutOff.ports.xds, 'lim-2');
    await eventually(() => expect(starts.acceptedVersion).toBe(old));
    // The leader, which has no word of those that are there, does not call in force what they do not have.
    apply(6);
    await eventually(() => expect(programmed()).toBe('Unknown Disconnected'), { timeoutMs: 20_000 });
    expect(moved.received).toEqual([]);

    await proxy.heal();
    await eventually(() => expect(programmed()).toBe('True AllLimiters'), { timeoutMs: 30_000 });
    expect([moved.acceptedVersion, starts.acceptedVersion]).not.toContain(old);
    expect(moved.received.map(({ version }) => version)).not.toContain(old);
  }, 120_000);

  it('costs no write of an object, no NotReady and no webhook when a fourth limiter joins 501 objects', async () => {
    const receiver = await startReceiver();
    const port = await startLeader('joined', {
      WEBHOOK_URLS: receiver.url,
      WEBHOOK_ALLOW_LOCAL: 'true',
      WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
      WEBHOOK_QUEUE_SIZE: '10000',
      STATUS_WRITES_PER_SECOND: '1000',
    });
    for (const pod of ['lim-0', 'lim-1', 'lim-2']) await limiter(port, pod, { reconnects: true });
    const many = Array.from({ length: 501 }, (_, index) => {
      return { namespace: 'many', name: `many-${index}`, domain: `many-${index}`, requests: 1 };
    });
    api().createNamespace('many');
    // kubectl holds this process up, and with it the limiters that live here.
    for (let from = 0; from < many.length; from += 50) {
      const input = rateLimitConfigTexts(...many.slice(from, from + 50));
      api().mustKubectl(['create', '-f', '-'], { input });
      await sleep(50);
    }
    const states = (): string[] =>
      api()
        .read('ratelimitconfigs', { namespace: 'many' })
        .items.map(
          ({
            metadata,
            status,
          }: {
            metadata: Record<string, string>;
            status?: { conditions: WrittenCondition[] };
          }) => {
            const ready = status?.conditions.find(({ type }) => type === 'Ready');
            return `${metadata['name']} ${metadata['resourceVersion']} ${ready?.status}`;
          },
        );
    const isReady = (line: string): boolean => line.endsWith(' True');
    await eventually(() => expect(states().filter(isReady)).toHaveLength(501), { timeoutMs: 60_000 });
    const page = async (): Promise<string> =>
      (await httpAsk((running[0] as ControlPlaneProcess).ports.http, '/metrics')).body;
    await eventually(async () => expect(await page()).toMatch(/webhook_events_queued 0\n/), {
      timeoutMs: 60_000,
    });
    const before = states();
    // A status of another test's object may still be held by a leader that has begun.
    const reported = (): number => receiver.deliveries.filter(({ body }) => body.includes('many-')).length;
    const reportedBefore = reported();
    const newest = await limiter(port, 'lim-3');
    await eventually(() => expect(newest.acceptedVersion).not.toBe(''));
    for (let look = 0; look < 6; look++) {
      await sleep(500);
      expect(states()).toEqual(before);
    }
    expect(reported()).toBe(reportedBefore);
  }, 180_000);
});
