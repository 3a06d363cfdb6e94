/** What kubectl says of objects that an API server asks the control plane about, before it stores them. */
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ApiServer, KubectlResult } from '../support/api-server.ts';
import {
  type CertificatePair,
  createAuthority,
  overwritePair,
  type TestAuthority,
} from '../support/certificates.ts';
import { installPrerequisites, startReplica } from '../support/cluster.ts';
import type { ControlPlaneProcess } from '../support/control-plane-process.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { documentedMistakes, rejectionLines } from '../support/documented-mistakes.ts';
import { eventually } from '../support/eventually.ts';
import { helmProgram, opensslProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { objectOf, type RenderedObject, renderChart } from '../support/helm-chart.ts';
import { type HttpAnswer, httpAsk } from '../support/http-ask.ts';
import { InProcessControlPlane } from '../support/in-process-control-plane.ts';
import { type ManifestOptions, rateLimitConfig } from '../support/rate-limit-config.ts';

const denied = 'admission webhook "ratelimitconfigs.ratelimit.weir.dev" denied the request: ';
/** The CRD cannot say that a key stands twice. */
const twice = [{ key: 'key' }];
interface Webhook {
  clientConfig: { caBundle: string };
}

const alternativeNames = 'DNS:localhost,IP:127.0.0.1';

describeWithServer('admission by the chart', helmProgram, () => {
  describeWithServer('over TLS', opensslProgram, (openssl) => {
    describeWithApiServer('of a real API server', (server) => suite(server, openssl));
  });
});

function suite(server: () => ApiServer, openssl: string): void {
  const folder = mkdtempSync(join(tmpdir(), 'weir-admission-'));
  let api: ApiServer;
  let authority: TestAuthority;
  let pair: CertificatePair;
  /** A process of its own: kubectl holds up this one. */
  let plane: ControlPlaneProcess;
  let port: number;

  beforeAll(async () => {
    api = server();
    installPrerequisites(api);
    authority = createAuthority(openssl, folder, 'authority');
    pair = authority.issue({ name: 'webhook', alternativeNames });
    for (const namespace of ['shop', 'mail', 'away']) api.createNamespace(namespace);
    // Stored before anybody is asked.
    for (const name of ['broken', 'broken-too'])
      apply({ name, namespace: 'shop', domain: name, more: twice });
    port = await freePort();
    plane = await startReplica(api, 'replica', {
      WATCH_NAMESPACES: 'shop,mail',
      DOMAIN_OWNERS: 'mail=mail',
      ADMISSION_HOST: '127.0.0.1',
      ADMISSION_PORT: String(port),
      ADMISSION_TLS_CERT: pair.certFile,
      ADMISSION_TLS_KEY: pair.keyFile,
    });
    await eventually(async () => expect((await httpAsk(plane.ports.http, '/readyz')).status).toBe(200));
    installWebhook();
    const refused = { name: 'x', namespace: 'shop', domain: 'x', more: twice };
    await eventually(() => expect(tryOut(refused).status).toBe(1), { timeoutMs: 30_000 });
  }, 120_000);
  afterAll(async () => {
    await plane?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  function installWebhook(): void {
    const values = {
      redis: { url: 'redis:6379' },
      admission: {
        enabled: true,
        tlsSecret: 'a',
        caBundle: readFileSync(authority.caFile, 'utf8'),
        timeoutSeconds: 30,
      },
    };
    const object = objectOf(renderChart(values), 'ValidatingWebhookConfiguration', '-control-plane');
    const { webhooks, ...rest } = object as RenderedObject & { webhooks: Webhook[] };
    // This API server reaches no Service.
    const here = webhooks.map(({ clientConfig: { caBundle }, ...webhook }) => ({
      ...webhook,
      clientConfig: { caBundle, url: `https://127.0.0.1:${port}/validate` },
    }));
    const input = JSON.stringify({ ...rest, webhooks: here });
    api.apply(input);
  }

  async function metric(series: string): Promise<number> {
    const { body } = await httpAsk(plane.ports.http, '/metrics');
    const line = body.split('\n').find((one) => one.startsWith(`weir_control_plane_${series} `)) ?? '';
    return Number(line.slice(line.lastIndexOf(' ')));
  }

  type Wish = Omit<ManifestOptions, 'requests'>;

  function tryApply(wish: Wish, ...flags: string[]): KubectlResult {
    const input = JSON.stringify(rateLimitConfig({ requests: 1, ...wish }));
    return api.kubectl(['apply', '-f', '-', ...flags], { input });
  }

  function apply(wish: Wish): string {
    const { status, stderr } = tryApply(wish);
    expect(status, stderr).toBe(0);
    return stderr;
  }

  const tryOut = (wish: Wish): KubectlResult => tryApply(wish, '--dry-run=server');

  it('rejects an invalid object with a message, and stores nothing for a dry run', () => {
    const { status, stderr } = tryOut({ name: 'a', namespace: 'shop', domain: 'a', more: twice });
    expect(stderr).toContain(`${denied}spec.descriptors[1].key: duplicate descriptor`);
    expect(status).toBe(1);
    expect(api.kubectl(['get', 'rlc', 'a', '-n', 'shop']).status).toBe(1);
  });

  it.each(documentedMistakes.filter(({ webhook }) => webhook !== ''))(
    'refuses in words what the API server takes: $name',
    async ({ spec, webhook }) => {
      expect(await rejectionLines(api, 'shop', spec)).toEqual([`${denied}${webhook}`]);
    },
  );

  it('rejects a domain of another namespace', () => {
    const { status, stderr } = tryOut({ name: 'a', namespace: 'shop', domain: 'mail' });
    expect(stderr).toContain(`${denied}domain 'mail' is for these namespaces only: mail`);
    expect(status).toBe(1);
    expect(tryOut({ name: 'a', namespace: 'mail', domain: 'mail' })).toMatchObject({ status: 0, stderr: '' });
  });

  it('warns of a domain that another object has, and of what check warns about', async () => {
    expect(apply({ name: 'first', namespace: 'mail', domain: 'taken' })).toBe('');
    const second = () => tryOut({ name: 'second', namespace: 'shop', domain: 'taken' });
    await eventually(() =>
      expect(second()).toMatchObject({
        status: 0,
        stderr:
          "Warning: DomainConflict: domain 'taken' of fleet 'default' belongs to mail/first: it would not be served\n",
      }),
    );
    expect(apply({ name: 'first', namespace: 'mail', domain: 'taken', rule: { value: 'new' } })).toBe('');
    const more = [
      { key: 'other', value: '*', rateLimit: { unit: 'day', requestsPerUnit: 1 } },
      { key: 'other' },
    ];
    expect(apply({ name: 'odd', namespace: 'shop', domain: 'odd', more })).toMatch(
      /^Warning: never-matches: spec\.descriptors\[2\]\.key: .* \(spec\.descriptors\[1\]\)\n$/,
    );
    expect(await metric('admission_reviews_total{answer="warned"}')).toBeGreaterThan(1);
  });

  it('lets pass what does not change the spec of an invalid object, and its end', () => {
    const object = ['rlc', 'broken', '-n', 'shop'];
    api.mustKubectl(['annotate', ...object, 'seen=1']);
    api.mustKubectl(['label', ...object, 'tier=gold']);
    const finalizers = (list: string) => `{"metadata":{"finalizers":[${list}]}}`;
    api.mustKubectl(['patch', ...object, '--type=merge', '-p', finalizers('"shop.example/hold"')]);
    api.mustKubectl(['patch', ...object, '--type=merge', '-p', finalizers('')]);
    const changed = api.kubectl(['patch', ...object, '--type=merge', '-p', '{"spec":{"domain":"new"}}']);
    expect(changed.stderr).toContain(denied);
    api.mustKubectl(['delete', ...object]);
  });

  it('does not mention other classes and namespaces', () => {
    const other = { name: 'a', namespace: 'shop', domain: 'a', className: 'other', more: twice };
    expect(tryOut(other)).toMatchObject({ status: 0, stderr: '' });
    const away = { name: 'a', namespace: 'away', domain: 'a', more: twice };
    expect(tryOut(away)).toMatchObject({ status: 0, stderr: '' });
  });

  it('rejects a RateLimitFleet that is wrong by itself, and does not mention others', () => {
    const apply = (spec: Record<string, unknown>): KubectlResult => {
      const metadata = { name: 'default', namespace: 'weir-system' };
      const fleet = { apiVersion: 'ratelimit.weir.dev/v1alpha1', kind: 'RateLimitFleet', metadata, spec };
      return api.kubectl(['apply', '-f', '-', '--dry-run=server'], { input: JSON.stringify(fleet) });
    };
    expect(apply({ count: 2 })).toMatchObject({ status: 0, stderr: '' });
    const namespaces = ['shop'];
    const { status, stderr } = apply({
      domains: [
        { match: '*', namespaces },
        { match: 'mail', namespaces },
      ],
    });
    expect(stderr).toContain(
      'admission webhook "ratelimitfleets.ratelimit.weir.dev" denied the request: spec.domains: ',
    );
    expect(status).toBe(1);
  });

  it('answers an invalid review clearly, and continues', async () => {
    const ask = (body: string, options: Parameters<typeof httpAsk>[2] = {}): Promise<HttpAnswer> =>
      httpAsk(port, '/validate', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) },
        body,
        tls: { ca: readFileSync(authority.caFile) },
        ...options,
      });
    const answerText = async (answer: Promise<HttpAnswer>): Promise<string> => {
      const { status, body } = await answer;
      return `${status} ${body.trim()}`;
    };
    expect(await answerText(ask('{'))).toBe('400 the body is not JSON');
    expect(await answerText(ask('{}'))).toMatch(/^400 not an AdmissionReview: apiVersion: /);
    expect(await answerText(ask('', { method: 'GET', headers: {} }))).toBe('405 Method Not Allowed');
    expect(await answerText(ask('a', { headers: { 'content-type': 'text/plain' } }))).toBe(
      '415 the content type must be application/json',
    );
    const chunked = { 'content-type': 'application/json', 'transfer-encoding': 'chunked' };
    expect(await answerText(ask('a', { headers: chunked }))).toBe('411 the content length is missing');
    const tooLong = { 'content-type': 'application/json', 'content-length': String(8 * 1024 * 1024 + 1) };
    expect(await answerText(ask('a', { headers: tooLong }))).toBe(
      '413 the body is longer than 8388608 bytes',
    );
    expect((await httpAsk(port, '/', { tls: {} })).status).toBe(404);
    expect(await metric('admission_reviews_total{answer="bad request"}')).toBe(6);
    expect(await metric('faults_total')).toBe(0);
    expect(tryOut({ name: 'a', namespace: 'shop', domain: 'a', more: twice }).stderr).toContain(denied);
  });

  it('answers beside slow clients', async () => {
    const tls = { ca: readFileSync(authority.caFile) };
    const slow = Array.from({ length: 68 }, (_, index) => {
      const request = httpsRequest({
        ...{ host: '127.0.0.1', port, path: '/validate', method: 'POST', agent: false, ...tls },
        localAddress: '127.0.0.2',
        headers: {
          'content-type': 'application/json',
          'content-length': String(index < 4 ? 8 * 1024 * 1024 : 1_000),
        },
      });
      request.on('error', () => {});
      request.write('{');
      return request;
    });
    await Promise.all(
      slow.map((request) => once(request, 'socket').then(([it]) => once(it, 'secureConnect'))),
    );
    await sleep(100);
    expect(tryOut({ name: 'a', namespace: 'shop', domain: 'a', more: twice }).stderr).toContain(denied);
    expect(await metric('admission_reviews_total{answer="busy"}')).toBe(0);
    for (const request of slow) request.destroy();
  });

  it.each(['admission', 'http'] as const)(
    'answers on the port %s beside 1,100 idle connections',
    async (name) => {
      const taken = name === 'http' ? plane.ports.http : port;
      const refused = () => metric('http_refused_total{reason="too_many_connections"}');
      const before = await refused();
      const idle = Array.from({ length: 1_100 }, () => {
        const socket = connect({ port: taken, host: '127.0.0.1', localAddress: '127.0.0.2' });
        return socket.on('error', () => {});
      });
      await Promise.all(idle.map((socket) => once(socket, 'connect')));
      await eventually(async () => expect((await refused()) - before).toBeGreaterThanOrEqual(100));
      expect(tryOut({ name: 'a', namespace: 'shop', domain: 'a', more: twice }).stderr).toContain(denied);
      for (const socket of idle) socket.destroy();
    },
  );

  it.each([
    { setting: 'ADMISSION_HOST', value: () => '127.0.0.2', seen: / reviews on '127\.0\.0\.2:\d+'/ },
    { setting: 'ADMISSION_PORT', value: () => '0', seen: / reviews on '127\.0\.0\.1:(?!0')\d+'/ },
    {
      setting: 'ADMISSION_TLS_CERT',
      value: () => '',
      seen: /ADMISSION_TLS_KEY: needs ADMISSION_TLS_CERT as well/,
    },
    {
      setting: 'ADMISSION_TLS_KEY',
      value: () => authority.issue({ name: 'stranger' }).keyFile,
      seen: /its key does not belong to the first certificate/,
    },
  ])('obeys $setting', async ({ setting, value, seen }) => {
    const other = await InProcessControlPlane.start({
      env: {
        KUBECONFIG: api.kubeconfig(),
        POD_NAMESPACE: 'away',
        WATCH_NAMESPACES: 'away',
        ADMISSION_HOST: '127.0.0.1',
        ADMISSION_PORT: String(await freePort()),
        ADMISSION_TLS_CERT: pair.certFile,
        ADMISSION_TLS_KEY: pair.keyFile,
        [setting]: value(),
      },
    });
    await other.stop();
    expect(other.lines.join('\n')).toMatch(seen);
  });

  it('shows a new certificate without a restart', async () => {
    overwritePair(authority.issue({ name: 'next', alternativeNames }), pair);
    await plane.program.printed(/A new certificate is in use/);
    expect(tryOut({ name: 'a', namespace: 'shop', domain: 'a', more: twice }).stderr).toContain(denied);
  });

  it('is passed over with failurePolicy Ignore while no control plane runs', async () => {
    await plane.stop();
    const { status, stdout } = tryApply({ name: 'a', namespace: 'shop', domain: 'a', more: twice });
    expect(stdout).toContain('created');
    expect(status).toBe(0);
  });
}
