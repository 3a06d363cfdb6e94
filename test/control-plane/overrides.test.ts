import { afterEach, beforeAll, expect, it, onTestFinished } from 'vitest';
import type { Capabilities } from '../../rules/language/capabilities.ts';
import type { ReadKind } from '../support/api-server.ts';
import {
  conditionIn,
  conditionOf,
  installPrerequisites,
  startReplica,
  startReplicaHere,
  startXdsLimiterHere,
  statusAndReason,
} from '../support/cluster.ts';
import type { RunningControlPlane } from '../support/control-plane-process.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { httpAsk } from '../support/http-ask.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { type ScriptedXdsClient, startWeirLikeClient } from '../support/xds-client.ts';

const running: RunningControlPlane[] = [];
const clients: ScriptedXdsClient[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await Promise.all(running.splice(0).map((replica) => replica.stop()));
});

const soon = (check: Parameters<typeof eventually>[0]): Promise<void> =>
  eventually(check, { timeoutMs: 25_000 });

const match = [{ key: 'key', value: 'a' }];
const common = { domain: 'shop', match, requestsPerUnit: 100, permanent: true, reason: 'a sale' };

function overrideText(name: string, spec: object, namespace = 'default'): string {
  const apiVersion = 'ratelimit.weir.dev/v1alpha1';
  return JSON.stringify({ apiVersion, kind: 'RateLimitOverride', metadata: { name, namespace }, spec });
}

describeWithApiServer('RateLimitOverrides', (api) => {
  beforeAll(() => installPrerequisites(api()));

  const lead = async <Replica extends RunningControlPlane>(starting: Promise<Replica>): Promise<Replica> => {
    const replica = await starting;
    running.push(replica);
    await replica.program.printed(/Leading/);
    return replica;
  };
  const env = { OVERRIDES_MAX_SECONDS: '3600' };
  const start = async (): Promise<number> => (await lead(startReplicaHere(api(), 'plane', env))).ports.xds;
  const limiter = async (
    port: number,
    pod: string,
    capabilities: Capabilities,
  ): Promise<ScriptedXdsClient> => {
    const client = await startWeirLikeClient({ port, pod, reconnects: false, capabilities });
    clients.push(client);
    return client;
  };
  const apply = (input: string): void => api().apply(input);
  const statusOf = (kind: ReadKind, name: string) =>
    api().read(kind, { name, namespace: 'default' }).status ?? {};
  const ready = (name: string, namespace = 'default') =>
    conditionIn(api(), { kind: 'ratelimitoverrides', name, namespace }, 'Ready');
  const conditionText = (name: string): string => statusAndReason(ready(name));
  const messageOf = (name: string): string | undefined => ready(name)?.message;

  it.each([
    ['two effects', { ...common, block: true }, 'exactly one effect is needed'],
    ['no end', { ...common, permanent: undefined }, 'exactly one end is needed'],
    ['two ends', { ...common, for: '2h' }, 'exactly one end is needed'],
    ['no reason', { ...common, reason: undefined }, 'spec.reason: Required value'],
    ['a blank reason', { ...common, reason: ' ' }, 'spec.reason'],
    ['no entries', { ...common, match: [] }, 'spec.match'],
    [
      'a grant with an end',
      { ...common, requestsPerUnit: undefined, grant: 5 },
      'a grant ends with its window',
    ],
    [
      'a grant for a pattern',
      {
        ...common,
        requestsPerUnit: undefined,
        permanent: undefined,
        grant: 5,
        match: [{ key: 'k', value: 'a*' }],
      },
      'a grant needs exact entries',
    ],
    [
      'a unit of nothing',
      { ...common, requestsPerUnit: undefined, block: true, unit: 'minute' },
      'unit needs',
    ],
  ])('are rejected by the API server with %s', (_, spec, words) => {
    const { status, stderr } = api().kubectl(['apply', '-f', '-'], { input: overrideText('bad', spec) });
    expect(stderr).toContain(words);
    expect(status).not.toBe(0);
  });

  it('are in force on those that know them, wait for those that do not, and are gone when they end', async () => {
    const port = await start();
    const now = await limiter(port, 'lim-new', ['overrides']);
    const old = await limiter(port, 'lim-old', ['windows']);
    apply(rateLimitConfigText({ name: 'shop', domain: 'shop', requests: 5 }));
    apply(overrideText('sale', common));
    await soon(() => expect(conditionText('sale')).toBe('False LimiterTooOld'));
    expect(messageOf('sale')).toContain(
      'limiters that do not support all of overrides get no part of it: lim-old since',
    );
    await soon(() => expect(conditionOf(api(), 'shop', 'Ready')).toBe('True Ready'));
    await soon(() => expect(old.last?.names).toEqual(['default/shop']));
    await soon(() => expect(now.last?.names).toEqual(['default/shop', 'override/default/sale']));
    old.close();
    await soon(() => expect(conditionText('sale')).toMatch(/^Unknown Disconnected|^True Ready/));
    await soon(() => expect(statusOf('ratelimitconfigs', 'shop').overrides).toBe(1));

    const until = new Date(Date.now() + 10_000).toISOString();
    apply(overrideText('sale', { ...common, permanent: undefined, expiresAt: until }));
    await soon(() => expect(statusOf('ratelimitoverrides', 'sale').endsAt).toBe(until));
    await soon(() => expect(conditionText('sale')).toBe('False Expired'));
    expect(Date.now()).toBeGreaterThan(Date.parse(until));
    expect(messageOf('sale')).toBe(`it ended at ${until}`);
    await soon(() => expect(now.last?.names).toEqual(['default/shop']));
    const table = api().mustKubectl(['get', 'rlo', 'sale']);
    expect(table).toMatch(/^NAME +DOMAIN +MATCH +EFFECT +ENDS +READY +AGE/);
    expect(table).toContain(`sale   shop     key=a   100 per window   ${until}   False`);
    await soon(() => expect(statusOf('ratelimitconfigs', 'shop').overrides).toBeUndefined());
    api().delete('ratelimitoverrides', { name: 'sale', namespace: 'default' });
  }, 120_000);

  it('of one match: the older holds; those that last too long, or are of other namespaces, are not accepted', async () => {
    const port = await start();
    await limiter(port, 'lim', ['overrides']);
    apply(rateLimitConfigText({ name: 'shop', domain: 'shop', requests: 5 }));
    const one = { ...common, match: [{ key: 'key', value: 'one' }] };
    apply(overrideText('first', one));
    await soon(() => expect(conditionText('first')).toBe('True Ready'));
    apply(overrideText('second', { ...one, requestsPerUnit: undefined, block: true }));
    await soon(() => expect(conditionText('second')).toBe('False Conflicted'));
    await soon(async () => {
      const { body } = await httpAsk(running[0]!.ports.http, '/v1/overrides?domain=shop');
      expect(JSON.parse(body).overrides).toMatchObject([
        { name: 'default/first', state: 'InForce', requestsPerUnit: 100, ready: { status: 'True' } },
        { name: 'default/second', state: 'Conflicted', block: true, secondsLeft: null },
      ]);
    });
    expect(messageOf('second')).toContain('has an older override: override/default/first');
    api().delete('ratelimitoverrides', { name: 'first', namespace: 'default' });
    await soon(() => expect(conditionText('second')).toBe('True Ready'));

    apply(
      overrideText('long', {
        ...common,
        permanent: undefined,
        for: '2h',
        match: [{ key: 'key', value: 'b' }],
      }),
    );
    await soon(() => expect(conditionText('long')).toBe('False Invalid'));
    expect(messageOf('long')).toContain('OVERRIDES_MAX_SECONDS');
    api().createNamespace('other');
    apply(overrideText('theirs', common, 'other'));
    await soon(() => expect(ready('theirs', 'other')?.reason).toBe('DomainNotAllowed'));
    const events = () =>
      api().mustKubectl(['get', 'events', '-A', '-o', 'custom-columns=K:.involvedObject.kind,R:.reason']);
    await soon(() => expect(events()).toMatch(/RateLimitOverride +Conflicted/));
  }, 120_000);

  it('are in force in limiters of both forms of xDS, and end there on time while no control plane lives', async () => {
    // A program, to be killed: a control plane that ends in order says goodbye to its limiters.
    const replica = await lead(startReplica(api(), 'plane', env));
    apply(rateLimitConfigText({ name: 'clock', domain: 'clock', requests: 5 }));
    const limiters = await Promise.all(
      ['GRPC_XDS_DELTA', 'GRPC_XDS_SOTW'].map((type) =>
        startXdsLimiterHere(replica.ports.xds, type.toLowerCase(), { CONFIG_TYPE: type }),
      ),
    );
    onTestFinished(() => Promise.all(limiters.map((limiter) => limiter.stop())).then(() => {}));
    const asked = limiters.map(({ ports }) => new LimiterClient(ports.grpc));
    onTestFinished(() => {
      for (const client of asked) client.close();
    });
    const limits = () =>
      Promise.all(
        asked.map(async (client) => {
          const entries = [{ key: 'key', value: 'a' }];
          const { statuses } = await client.ask({
            domain: 'clock',
            descriptors: [{ entries, hitsAddend: 0n }],
          });
          return statuses[0]?.currentLimit?.requestsPerUnit;
        }),
      );
    await soon(async () => expect(await limits()).toEqual([5, 5]));
    const endMs = Date.now() + 15_000;
    const end = { permanent: undefined, expiresAt: new Date(endMs).toISOString() };
    apply(overrideText('clock', { ...common, ...end, domain: 'clock' }));
    await soon(async () => expect(await limits()).toEqual([100, 100]));
    await soon(() => expect(conditionText('clock')).toBe('True Ready'));
    await replica.program.stop('SIGKILL');
    await new Promise((resolve) => setTimeout(resolve, endMs + 2_000 - Date.now()));
    expect(await limits()).toEqual([5, 5]);
  }, 120_000);
});
