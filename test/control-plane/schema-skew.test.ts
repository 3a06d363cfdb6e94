/**
 * A CRD that is newer or older than the control plane, before and after each: what a real limiter lets pass, while each step
 * has a control plane of its own, which knows nothing but what the cluster holds.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { ApiServer, KubectlResult } from '../support/api-server.ts';
import { createAuthority, type TestAuthority } from '../support/certificates.ts';
import {
  applyFleet,
  awaitCrds,
  conditionIn,
  conditionOf,
  installPrerequisites,
  messageOf,
  startReplicaHere,
  startXdsLimiterHere,
  statusAndReason,
} from '../support/cluster.ts';
import type { RunningControlPlane } from '../support/control-plane-process.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import type { RunningLimiter } from '../support/limiter-process.ts';
import { installWebhook, removeWebhook } from '../support/played-webhook.ts';
import { rateLimitConfig } from '../support/rate-limit-config.ts';

interface Schema {
  default?: unknown;
  enum?: string[];
  items?: Schema;
  properties: Record<string, Schema>;
}

/** The CRD of this version, changed. */
function definition(change: (spec: Schema, rule: Schema) => void): string {
  const file = join(import.meta.dirname, '../../crds/ratelimit.weir.dev_ratelimitconfigs.yaml');
  const crd = load(readFileSync(file, 'utf8')) as {
    spec: { versions: { schema: { openAPIV3Schema: Schema } }[] };
  };
  const spec = crd.spec.versions[0]!.schema.openAPIV3Schema.properties['spec']!;
  change(spec, spec.properties['descriptors']!.items!);
  return JSON.stringify(crd);
}

/** Fields of the first level of rules. */
function rulesOf(schema: Schema): Record<string, Schema> {
  return schema.properties['spec']!.properties['descriptors']!.items!.properties;
}

const ofThisVersion = definition(() => {});
const newer = definition((spec, rule) => {
  Object.assign(rule.properties, { burstMode: { type: 'string', enum: ['Off', 'On'], default: 'Off' } });
  rule.properties['rateLimit']!.properties['algorithm']!.enum!.push('LeakyBucket');
  const a = { type: 'integer', default: 1 };
  Object.assign(spec.properties, { extras: { type: 'object', default: {}, properties: { a } } });
});
/** Whatever was accepted reads otherwise now, in its old generation. */
const unreadable = definition((_, rule) => {
  const { algorithm } = rule.properties['rateLimit']!.properties;
  algorithm!.enum!.push('LeakyBucket');
  algorithm!.default = 'LeakyBucket';
});
const older = definition((_, rule) => {
  delete rule.properties['hideIdentity'];
});

describeWithServer('a control plane with a CRD of another version', opensslProgram, (openssl) => {
  describeWithApiServer('on a real API server', (server) => suite(server, openssl));
});

function suite(server: () => ApiServer, openssl: string): void {
  const folder = mkdtempSync(join(tmpdir(), 'weir-skew-'));
  let api: ApiServer;
  let authority: TestAuthority;
  let plane: RunningControlPlane | undefined;
  let limiter: RunningLimiter;
  let client: LimiterClient;
  let ports: { xds: number; admission: number };
  let env: Record<string, string>;
  let asked = 0;

  beforeAll(async () => {
    api = server();
    installPrerequisites(api);
    api.createNamespace('mail');
    authority = createAuthority(openssl, folder, 'authority');
    const pair = authority.issue({ name: 'webhook', alternativeNames: 'DNS:localhost,IP:127.0.0.1' });
    ports = { xds: await freePort(), admission: await freePort() };
    env = {
      XDS_PORT: String(ports.xds),
      ADMISSION_HOST: '127.0.0.1',
      ADMISSION_PORT: String(ports.admission),
      ADMISSION_TLS_CERT: pair.certFile,
      ADMISSION_TLS_KEY: pair.keyFile,
    };
    await freshPlane();
    limiter = await startXdsLimiterHere(ports.xds, 'limiter');
    client = new LimiterClient(limiter.ports.grpc);
    installWebhook(api, { port: ports.admission, caFile: authority.caFile });
  }, 120_000);
  afterEach(async () => {
    // A failed test says more with it.
    expect(plane?.program.output.match(/level=(?:fatal|panic).*/g) ?? []).toEqual([]);
  });
  afterAll(async () => {
    client?.close();
    await limiter?.stop();
    await plane?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Another one, as after an upgrade, a rollback or a crash. */
  async function freshPlane(): Promise<void> {
    await plane?.stop();
    plane = await startReplicaHere(api, 'replica', env);
  }

  /** The API server delivers objects by it. */
  async function install(crd: string): Promise<void> {
    api.mustKubectl(['replace', '-f', '-'], { input: crd });
    awaitCrds(api);
    const { burstMode, hideIdentity } = rulesOf(JSON.parse(crd).spec.versions[0].schema.openAPIV3Schema);
    await eventually(() => {
      const path = '/openapi/v3/apis/ratelimit.weir.dev/v1alpha1';
      const { components } = JSON.parse(api.get(path).body);
      const published = rulesOf(components.schemas['dev.weir.ratelimit.v1alpha1.RateLimitConfig']);
      expect([published['burstMode'], published['hideIdentity']]).toEqual([burstMode, hideIdentity]);
    });
  }

  /** How many of ten requests pass: the limit in force; 10 without one. */
  async function limitIn(domain: string): Promise<number> {
    asked += 1;
    let passed = 0;
    for (let i = 0; i < 10; i++) if (await client.allowed(domain, 'key', `value-${asked}`)) passed += 1;
    return passed;
  }

  /** It is in force, and stays so for as long as a control plane takes to decide anew. */
  async function holds(domain: string, limit: number): Promise<void> {
    await eventually(async () => expect(await limitIn(domain)).toBe(limit), { timeoutMs: 20_000 });
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(await limitIn(domain)).toBe(limit);
  }

  async function says(name: string, accepted: string): Promise<void> {
    await eventually(() => expect(conditionOf(api, name, 'Accepted')).toBe(accepted), { timeoutMs: 20_000 });
  }

  function apply(
    requests: number,
    rule: Record<string, unknown> = {},
    name = 'shop',
  ): Promise<KubectlResult> {
    const input = JSON.stringify(rateLimitConfig({ name, domain: name, requests, rule }));
    return api.kubectlBeside(['apply', '-f', '-'], { input });
  }

  async function remove(kind: string, name: string): Promise<void> {
    const stdout = expect.stringContaining('deleted');
    expect(await api.kubectlBeside(['delete', kind, name])).toMatchObject({ status: 0, stdout });
  }

  const storedSpecs = (): string[] =>
    api.names('configmaps', { namespace: 'weir-system' }, 'ratelimit.weir.dev/role=kept-spec');

  it('leaves limits in force if new fields hold their defaults, and names each field once', async () => {
    expect(await apply(3)).toMatchObject({ status: 0, stderr: '' });
    await holds('shop', 3);
    await install(newer);
    expect(api.read('ratelimitconfigs', { name: 'shop', namespace: 'default' })).toMatchObject({
      metadata: { generation: 1 },
      spec: { extras: { a: 1 }, descriptors: [{ burstMode: 'Off' }] },
    });
    await freshPlane();
    await plane!.program.printed(/is ignored.*spec\.extras/);
    await holds('shop', 3);
    await says('shop', 'True Valid');
    expect(await apply(4)).toMatchObject({ status: 0, stderr: '' });
    await holds('shop', 4);
    expect(plane!.program.output.match(/ is ignored/g)).toHaveLength(2);
  });

  it('leaves the last accepted spec in force if a new field holds something else, in the next process too', async () => {
    const { status, stderr } = await apply(5, { burstMode: 'On' });
    expect(stderr).toMatch(
      /^Warning: UnknownField: spec\.descriptors\[0\]\.burstMode comes from a newer CRD .*: generation 2 would stay in force\n$/,
    );
    expect(status).toBe(0);
    await says('shop', 'False UnknownField');
    expect(messageOf(api, 'shop', 'Accepted')).toMatch(
      /^spec\.descriptors\[0\]\.burstMode .* version \d+\.\d+\.\d+\S* of the control plane .*; generation 2 stays in force$/,
    );
    for (const type of ['Programmed', 'Ready']) expect(conditionOf(api, 'shop', type)).toMatch(/^False /);
    await holds('shop', 4);
    await eventually(() => expect(storedSpecs()).toContainEqual(expect.stringContaining('weir-kept-')));
    await freshPlane();
    await holds('shop', 4);
    await says('shop', 'False UnknownField');
  });

  it('serves an object without the field if nothing of it was accepted, as after a rollback', async () => {
    const { status, stderr } = await apply(6, { burstMode: 'On' }, 'rolled');
    expect(stderr).toMatch(/it would be served without it\n$/);
    expect(status).toBe(0);
    for (const restart of [false, true]) {
      if (restart) await freshPlane();
      await says('rolled', 'False UnknownField');
      await holds('rolled', 6);
      expect(messageOf(api, 'rolled', 'Accepted')).toMatch(/; generation 1 is in force without it$/);
      expect(messageOf(api, 'rolled', 'Programmed')).toContain(
        'generation 1 without spec.descriptors[0].burstMode is in force on every limiter',
      );
    }
    expect(storedSpecs()).toHaveLength(1);
    await remove('rlc', 'rolled');
    await holds('rolled', 10);
  });

  it('denies and does not serve an unknown value of a known field', async () => {
    const rule = { rateLimit: { unit: 'day', requestsPerUnit: 7, algorithm: 'LeakyBucket' } };
    expect((await apply(7, rule)).stderr).toContain(
      'denied the request: spec.descriptors[0].rateLimit.algorithm: unknown',
    );
    removeWebhook(api);
    expect(await apply(7, rule)).toMatchObject({ status: 0 });
    await says('shop', 'False Invalid');
    await holds('shop', 4);
    expect(await apply(7, rule, 'fresh')).toMatchObject({ status: 0 });
    await says('fresh', 'False Invalid');
    await holds('fresh', 10);
    await freshPlane();
    await holds('shop', 4);
    expect(await apply(5, { burstMode: 'On' })).toMatchObject({ status: 0 });
    api.delete('ratelimitconfigs', { name: 'fresh', namespace: 'default' });
  });

  it('serves what the CRD of its own version leaves, back and forth', async () => {
    await install(ofThisVersion);
    await freshPlane();
    await says('shop', 'True Valid');
    await holds('shop', 5);
    await eventually(() => expect(storedSpecs()).toEqual([]));
    await install(newer);
    await freshPlane();
    await holds('shop', 5);
  });

  it('serves what an older CRD leaves, and the whole again after it', async () => {
    await install(ofThisVersion);
    installWebhook(api, { port: ports.admission, caFile: authority.caFile });
    expect(await apply(2, { hideIdentity: true })).toMatchObject({ status: 0, stderr: '' });
    await holds('shop', 2);
    for (const crd of [older, ofThisVersion, newer, ofThisVersion]) {
      await install(crd);
      await freshPlane();
      await holds('shop', 2);
      await says('shop', 'True Valid');
    }
  });

  it('follows the same rules for RateLimitOverrides', async () => {
    const crd = 'ratelimitoverrides.ratelimit.weir.dev';
    const path = '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/scope';
    const change = (operation: object): void => {
      const patch = JSON.stringify([{ path, ...operation }]);
      api.mustKubectl(['patch', 'crd', crd, '--type=json', '-p', patch]);
    };
    const applySale = (requestsPerUnit: number, more: object = {}): Promise<KubectlResult> => {
      const spec = {
        domain: 'sales',
        match: [{ key: 'key', value: '*' }],
        requestsPerUnit,
        reason: 'a sale',
        ...more,
      };
      const object = { metadata: { name: 'sale' }, spec: { permanent: true, ...spec } };
      const apiVersion = 'ratelimit.weir.dev/v1alpha1';
      const input = JSON.stringify({ apiVersion, kind: 'RateLimitOverride', ...object });
      return api.kubectlBeside(['apply', '-f', '-'], { input });
    };
    const accepted = () =>
      conditionIn(api, { kind: 'ratelimitoverrides', name: 'sale', namespace: 'default' }, 'Accepted');
    const expectStatus = (text: string, message: RegExp) =>
      eventually(
        () => {
          expect(statusAndReason(accepted())).toBe(text);
          expect(accepted()?.message).toMatch(message);
        },
        { timeoutMs: 20_000 },
      );

    expect(await apply(2, {}, 'sales')).toMatchObject({ status: 0, stderr: '' });
    expect(await applySale(5)).toMatchObject({ status: 0, stderr: '' });
    await holds('sales', 5);
    change({ op: 'add', value: { type: 'string', enum: ['All', 'One'], default: 'All' } });
    await eventually(() =>
      expect(api.read('ratelimitoverrides', { name: 'sale', namespace: 'default' }).spec.scope).toBe('All'),
    );
    await freshPlane();
    await plane!.program.printed(/is ignored.*spec\.scope/);
    await expectStatus('True Valid', /./);
    await holds('sales', 5);

    const changed = await applySale(7, { scope: 'One' });
    expect(changed.stderr).toMatch(/^Warning: UnknownField: spec\.scope comes .*: generation 1 would stay/);
    expect(changed.status).toBe(0);
    for (const restart of [false, true]) {
      if (restart) await freshPlane();
      await expectStatus(
        'False UnknownField',
        /^spec\.scope comes from a newer CRD .*; generation 1 stays in force$/,
      );
      await holds('sales', 5);
    }

    await remove('rlo', 'sale');
    await holds('sales', 2);
    expect(await applySale(7, { scope: 'One' })).toMatchObject({ status: 0 });
    for (const restart of [false, true]) {
      if (restart) await freshPlane();
      await expectStatus('False UnknownField', /; generation 1 is in force without it$/);
      await holds('sales', 7);
    }

    change({ op: 'remove' });
    await freshPlane();
    await expectStatus('True Valid', /./);
    await holds('sales', 7);
    await remove('rlo', 'sale');
    await holds('sales', 2);
  }, 120_000);

  const names = ['owners', 'access', 'conflict', 'deleted'];

  it('keeps a spec in force that reads otherwise at the same generation, in the next process too', async () => {
    removeWebhook(api);
    await apply(9, {}, 'a-rival');
    for (const name of names) await apply(3, {}, name);
    for (const name of names) await says(name, 'True Valid');
    await install(unreadable);
    const seen = { metadata: { annotations: { seen: '1' } } };
    for (const name of names) api.patch('ratelimitconfigs', { name, namespace: 'default' }, seen);
    for (const name of names) await says(name, 'False Invalid');
    const stays = /; generation 1 as it was last accepted stays in force$/;
    for (const name of names) expect(messageOf(api, name, 'Accepted')).toMatch(stays);
    await holds('owners', 3);
    await eventually(() => expect(storedSpecs().length).toBeGreaterThanOrEqual(4));
    await freshPlane();
    for (const name of names) await holds(name, 3);
  });

  it('ends a spec at the same generation with its object, and when its domain is given to others, for good', async () => {
    api.delete('ratelimitconfigs', { name: 'deleted', namespace: 'default' });
    await holds('deleted', 10);
    applyFleet(api, { domains: [{ match: 'owners', namespaces: ['mail'] }] });
    await holds('owners', 10);
    applyFleet(api, { count: 1 });
    await holds('owners', 10);
    expect(messageOf(api, 'owners', 'Accepted')).toMatch(/; nothing is in force$/);
  });

  it('ends a spec at the same generation when an older object has its domain, for good', async () => {
    await holds('conflict', 3);
    await plane?.stop();
    const rateLimit = { unit: 'day', requestsPerUnit: 9, algorithm: 'FixedWindow' };
    const rival = rateLimitConfig({ name: 'a-rival', domain: 'conflict', requests: 9, rule: { rateLimit } });
    api.apply(JSON.stringify(rival));
    // As the leader of a release that is taken back may have left it.
    const status = { observedGeneration: 2, servedGeneration: 2, domain: 'conflict', fleet: 'default' };
    const where = { name: 'a-rival/status', namespace: 'default' };
    api.patch('ratelimitconfigs', where, { status: { ...status, conditions: [] } });
    await freshPlane();
    await says('a-rival', 'True Valid');
    await holds('conflict', 9);
    await eventually(() => expect(messageOf(api, 'conflict', 'Accepted')).toMatch(/; nothing is in force$/));
    api.delete('ratelimitconfigs', { name: 'a-rival', namespace: 'default' });
    await holds('conflict', 10);
  });

  it('ends a spec at the same generation when the fleet is closed to its namespace, for good', async () => {
    await holds('access', 3);
    const selector = { matchLabels: { tier: 'gold' } };
    applyFleet(api, { allowedNamespaces: { from: 'Selector', selector } });
    await holds('access', 10);
    applyFleet(api, { count: 1 });
    await holds('access', 10);
    expect(messageOf(api, 'access', 'Accepted')).toMatch(/; nothing is in force$/);
  });
}
