/** An API server that has just begun denies what it will grant, as its roles are not loaded: nothing is said of objects before. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import type { ApiServer } from '../support/api-server.ts';
import { createAuthority, type TestAuthority } from '../support/certificates.ts';
import {
  conditionOf,
  installPrerequisites,
  startReplicaHere,
  startXdsLimiterHere,
} from '../support/cluster.ts';
import type { RunningControlPlane } from '../support/control-plane-process.ts';
import { describeWithApiServer, describeWithDistantApiServer } from '../support/describe-with-api-server.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { httpAsk } from '../support/http-ask.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import type { RunningLimiter } from '../support/limiter-process.ts';
import { installWebhook } from '../support/played-webhook.ts';
import { rateLimitConfig, rateLimitConfigText } from '../support/rate-limit-config.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import { WebhookReceiver } from '../support/webhook-receiver.ts';

const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Warnings about our objects. The API server warns of its own Service while it starts. */
function warnings(api: ApiServer): object[] {
  const { items } = api.read('events', {}) as { items: { type: string; regarding: { kind: string } }[] };
  return items.filter(({ type, regarding }) => type === 'Warning' && regarding.kind.startsWith('RateLimit'));
}

describeWithApiServer('a control plane that may not read RateLimitFleets', (api) => {
  it('reports nothing about objects, keeps limits in force, and reports after 30 s what it is denied', async () => {
    installPrerequisites(api());
    const receiver = new WebhookReceiver();
    await receiver.start();
    onTestFinished(() => receiver.stop());
    const env = {
      XDS_PORT: String(await freePort()),
      WEBHOOK_URLS: receiver.url,
      WEBHOOK_ALLOW_LOCAL: 'true',
      WEBHOOK_SECRET: secret,
    };
    const apply = (name: string): void =>
      void api().apply(rateLimitConfigText({ name, domain: name, requests: 3 }));
    const first = await startReplicaHere(api(), 'first', env);
    const limiter = await startXdsLimiterHere(first.ports.xds, 'limiter');
    onTestFinished(async () => void (await limiter.stop()));
    const client = new LimiterClient(limiter.ports.grpc);
    onTestFinished(() => client.close());
    let asked = 0;
    const limitIn = async (domain: string): Promise<number> => {
      asked += 1;
      let passed = 0;
      for (let i = 0; i < 5; i++) if (await client.allowed(domain, 'key', `v${asked}`)) passed += 1;
      return passed;
    };
    apply('shop');
    await eventually(() => expect(conditionOf(api(), 'shop', 'Ready')).toBe('True Ready'), {
      timeoutMs: 20_000,
    });
    await first.stop();

    const role = { name: 'weir-control-plane', namespace: 'weir-system' };
    const { rules } = api().read('roles', role) as { rules: { resources: string[]; verbs: string[] }[] };
    const setRules = (list: object[]): void => api().patch('roles', role, { rules: list });
    setRules(rules.filter(({ resources }) => !resources.includes('ratelimitfleets')));
    const mayList = 'list ratelimitfleets.ratelimit.weir.dev -n weir-system';
    await eventually(() => expect(api().can('control-plane', mayList)).toBe(false));
    apply('mail');
    const delivered = receiver.deliveries.length;
    const plane = await startReplicaHere(api(), 'second', env);
    onTestFinished(async () => void (await plane.stop()));
    const isStill = async (): Promise<void> => {
      expect(conditionOf(api(), 'mail', 'Accepted')).toBe('');
      expect(conditionOf(api(), 'shop', 'Accepted')).toBe('True Valid');
      expect(await limitIn('shop')).toBe(3);
      expect(warnings(api())).toEqual([]);
    };
    for (let i = 0; i < 4; i++) {
      await sleep(1_000);
      await isStill();
    }
    expect(plane.program.output).not.toMatch(/level=error/);
    await plane.program.printed(
      /level=error msg="The API server denies .*verb=list resource=ratelimitfleets\.ratelimit\.weir\.dev /,
      45_000,
    );
    const series =
      'weir_control_plane_access_denied{verb="list",resource="ratelimitfleets.ratelimit.weir.dev"}';
    const metrics = async (): Promise<string> => (await httpAsk(plane.ports.http, '/metrics')).body;
    expect(await metrics()).toContain(`${series} 1`);
    await isStill();
    expect(receiver.deliveries.length).toBe(delivered);
    setRules(rules);
    await eventually(() => expect(conditionOf(api(), 'mail', 'Accepted')).toBe('True Valid'), {
      timeoutMs: 20_000,
    });
    expect(await metrics()).toContain(`${series} 0`);
    expect(await limitIn('shop')).toBe(3);
  }, 120_000);
});

describeWithServer('a control plane that the API server denies', opensslProgram, (openssl) => {
  describeWithDistantApiServer('what it needs', (server, network) => denials({ server, network, openssl }));
});

/** Where a role is. */
type Role = ['roles' | 'clusterroles', { name: string; namespace?: string }];

interface Rule {
  resources?: string[];
  nonResourceURLs?: string[];
  verbs: string[];
}

interface Denying {
  server: () => ApiServer;
  /** Between the control plane and the server. */
  network: () => TcpProxy;
  openssl: string;
}

function denials({ server, network, openssl }: Denying): void {
  const folder = mkdtempSync(join(tmpdir(), 'weir-denied-'));
  let api: ApiServer;
  let authority: TestAuthority;
  let plane: RunningControlPlane | undefined;
  let limiter: RunningLimiter;
  let client: LimiterClient;
  let env: Record<string, string>;
  let asked = 0;

  const start = async (): Promise<void> => {
    plane = await startReplicaHere(api, 'replica', env);
  };
  const apply = (name: string, rule: Record<string, unknown> = {}) =>
    api.kubectlBeside(['apply', '-f', '-'], {
      input: JSON.stringify(rateLimitConfig({ name, domain: name, requests: 3, rule })),
    });
  const becomes = (name: string, accepted: string): Promise<void> =>
    eventually(() => expect(conditionOf(api, name, 'Accepted')).toBe(accepted), { timeoutMs: 20_000 });
  const may = (question: string): boolean => api.can('control-plane', question);

  /** Takes the right to read such things away from a role. Returns a function that gives it back. */
  function take([kind, where]: Role, thing: RegExp): () => void {
    const { rules } = api.read(kind, where) as { rules: Rule[] };
    const set = (list: Rule[]): void => api.patch(kind, where, { rules: list });
    const less = rules.flatMap((rule) => {
      const { resources = [], nonResourceURLs = [], verbs } = rule;
      if (![...resources, ...nonResourceURLs].some((one) => thing.test(one))) return [rule];
      const writes = verbs.filter((verb) => !['get', 'list', 'watch'].includes(verb));
      return writes.length === 0 ? [] : [{ ...rule, verbs: writes }];
    });
    set(less);
    const giveBack = (): void => set(rules);
    onTestFinished(giveBack);
    return giveBack;
  }

  const ofCluster: Role = ['clusterroles', { name: 'weir-control-plane' }];
  const ofNamespace: Role = ['roles', { name: 'weir-control-plane', namespace: 'weir-system' }];
  const ofEveryUser: Role = ['clusterroles', { name: 'system:discovery' }];

  const limit = async (): Promise<number> => {
    asked += 1;
    let passed = 0;
    for (let i = 0; i < 5; i++) if (await client.allowed('shop', 'key', `v${asked}`)) passed += 1;
    return passed;
  };

  /** For some seconds no object is judged, no event is recorded, and the limit in force stays. */
  async function staysStill(judged: string, unjudged: string): Promise<void> {
    for (let i = 0; i < 4; i++) {
      await sleep(1_000);
      expect(conditionOf(api, judged, 'Accepted')).toBe('True Valid');
      expect(conditionOf(api, unjudged, 'Accepted')).toBe('');
      expect(await limit()).toBe(3);
    }
    expect(warnings(api)).toEqual([]);
  }

  beforeAll(async () => {
    api = server();
    installPrerequisites(api);
    authority = createAuthority(openssl, folder, 'authority');
    const pair = authority.issue({ name: 'webhook', alternativeNames: 'DNS:localhost,IP:127.0.0.1' });
    const admissionPort = await freePort();
    env = {
      XDS_PORT: String(await freePort()),
      ADMISSION_HOST: '127.0.0.1',
      ADMISSION_PORT: String(admissionPort),
      ADMISSION_TLS_CERT: pair.certFile,
      ADMISSION_TLS_KEY: pair.keyFile,
    };
    const path =
      '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/descriptors/items/properties/burstMode';
    const value = { type: 'string', enum: ['Off', 'On'], default: 'Off' };
    const patch = JSON.stringify([{ op: 'add', path, value }]);
    const crd = 'ratelimitconfigs.ratelimit.weir.dev';
    api.mustKubectl(['patch', 'crd', crd, '--type=json', '-p', patch]);
    await start();
    limiter = await startXdsLimiterHere(plane!.ports.xds, 'limiter');
    client = new LimiterClient(limiter.ports.grpc);
    installWebhook(api, { port: admissionPort, caFile: authority.caFile });
    expect((await apply('shop')).stderr).toBe('');
    await becomes('shop', 'True Valid');
    await eventually(async () => expect(await limit()).toBe(3), { timeoutMs: 20_000 });
  }, 120_000);
  afterAll(async () => {
    client?.close();
    await limiter?.stop();
    await plane?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it('right after a reconnect reports nothing about objects, and continues by itself', async () => {
    const give = [
      take(ofCluster, /^ratelimit/),
      take(ofNamespace, /^(configmaps|ratelimitfleets)$/),
      take(ofEveryUser, /^\/openapi/),
    ];
    await eventually(() => expect(may('list ratelimitconfigs.ratelimit.weir.dev')).toBe(false));
    await eventually(() => expect(may('list configmaps -n weir-system')).toBe(false));
    await eventually(() => expect(may('get /openapi/v3')).toBe(false));
    // At its start it may have asked before the changed definition was served.
    const before = plane!.program.output.length;
    network().cut();
    expect(await apply('later')).toMatchObject({ status: 0 });
    await staysStill('shop', 'later');
    expect(plane!.program.output.slice(before)).not.toMatch(/The API server denies|The schemas of the CRDs/);
    for (const back of give) back();
    await becomes('later', 'True Valid');
  }, 60_000);

  it('names every denied resource after 30 s, while admission answers and no object is judged', async () => {
    await plane!.stop();
    const give = [take(ofNamespace, /^configmaps$/), take(ofEveryUser, /^\/openapi/)];
    await eventually(() => expect(may('list configmaps -n weir-system')).toBe(false));
    await eventually(() => expect(may('get /openapi/v3')).toBe(false));
    await start();
    const holdsDefault = await apply('new');
    expect([holdsDefault.status, holdsDefault.stderr]).toEqual([0, expect.stringContaining('UnknownField')]);
    expect(await apply('other', { burstMode: 'On' })).toMatchObject({ status: 0 });
    await staysStill('shop', 'new');
    expect(plane!.program.output).not.toMatch(/level=error/);
    const metrics = async (): Promise<string> => (await httpAsk(plane!.ports.http, '/metrics')).body;
    const denied = [
      ['list', 'configmaps'],
      ['get', '/openapi/v3'],
    ] as const;
    const series = denied.map(
      ([verb, resource]) => `weir_control_plane_access_denied{verb="${verb}",resource="${resource}"}`,
    );
    for (const [verb, resource] of denied) {
      const line = new RegExp(`level=error msg="The API server denies .*verb=${verb} resource=${resource} `);
      await plane!.program.printed(line, 45_000);
    }
    for (const one of series) expect(await metrics()).toContain(`${one} 1`);
    await staysStill('shop', 'new');
    for (const back of give) back();
    await becomes('new', 'True Valid');
    await becomes('other', 'False UnknownField');
    await eventually(
      async () => {
        for (const one of series) expect(await metrics()).toContain(`${one} 0`);
      },
      { timeoutMs: 45_000 },
    );
  }, 180_000);
}
