import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type CertificatePair, createAuthority, type TestAuthority } from '../support/certificates.ts';
import { awaitCrds } from '../support/cluster.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { helmProgram, opensslProgram } from '../support/find-server.ts';
import {
  installedOf,
  objectOf,
  podOf,
  type RenderedObject,
  release,
  renderChart,
  testPodOf,
} from '../support/helm-chart.ts';
import { httpAsk } from '../support/http-ask.ts';
import { PodProcess, portsOfThisMachine } from '../support/pod-process.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { runWeir } from '../support/weir-command.ts';

/** Two processes start on a machine that others use, too. */
const patience = { timeout: 120_000 };
const values = {
  store: { type: 'memory' },
  limiter: {
    fleet: 'edge',
    autoscaling: { enabled: false },
    replicas: 1,
    grpcTls: { existingSecret: 'grpc', clientCa: true, clientName: 'proxy.example' },
    httpTls: { existingSecret: 'grpc', clientCa: true },
    callers: {
      entries: [
        { name: 'proxy', certificate: { dns: 'proxy.*' }, domains: ['shop'], requests_per_second: 1_000_000 },
      ],
    },
    debugToken: { existingSecret: 'lookup' },
    xdsTls: { serverName: 'weir-control-plane.weir-system.svc' },
  },
  certManager: { enabled: true },
  helmTest: { domain: 'shop', descriptor: 'key=helm', tlsSecret: 'proxy' },
  controlPlane: {
    watchNamespaces: ['shop'],
    webhooks: { urlsSecret: 'hooks', signingSecret: 'hooks' },
    secretLookup: { tokenSecret: 'lookup' },
  },
};

describeWithServer('the programs as the chart starts them with TLS', helmProgram, () => {
  describeWithServer('and certificates', opensslProgram, (openssl) => {
    describeWithApiServer('in watched namespaces', (api) => {
      const folder = mkdtempSync(join(tmpdir(), 'weir-chart-tls-'));
      let authority: TestAuthority;
      let proxy: CertificatePair;
      let controlPlane: PodProcess;
      let limiter: PodProcess;
      let debugPort: number;
      let rendered: RenderedObject[];

      let data: Record<string, Record<string, string>>;

      /** As cert-manager fills a Secret. */
      const secretOf = ({ certFile, keyFile }: CertificatePair): Record<string, string> => ({
        'tls.crt': readFileSync(certFile, 'utf8'),
        'tls.key': readFileSync(keyFile, 'utf8'),
        'ca.crt': readFileSync(authority.caFile, 'utf8'),
      });

      beforeAll(async () => {
        authority = createAuthority(openssl, folder, 'authority');
        const issue = (name: string, dns: string): CertificatePair =>
          authority.issue({ name, alternativeNames: dns });
        proxy = issue('proxy', 'DNS:proxy.example');
        data = {
          proxy: secretOf(proxy),
          grpc: secretOf(issue('grpc', 'DNS:localhost,IP:127.0.0.1')),
          hooks: { urls: 'http://127.0.0.1:9/hook', secret: `whsec_${'A'.repeat(43)}=` },
          lookup: { token: 'a-token-that-callers-show' },
        };
        const ports = await portsOfThisMachine();
        debugPort = ports.limiter.ports['debug'] as number;
        const objects = renderChart({
          ...values,
          limiter: { ...values.limiter, ...ports.limiter },
          controlPlane: { ...values.controlPlane, ...ports.controlPlane },
        });
        rendered = objects;
        for (const { kind, metadata, spec } of objects) {
          if (kind !== 'Certificate' || spec.isCA) continue;
          const names = (spec.dnsNames as string[]).map((name) => `DNS:${name}`);
          data[spec.secretName] = secretOf(issue(metadata.name, [...names, 'IP:127.0.0.1'].join(',')));
        }
        for (const namespace of [release.namespace, 'shop']) api().createNamespace(namespace);
        // This API server knows no cert-manager.
        const items = installedOf(objects).filter(({ apiVersion }) => !apiVersion.startsWith('cert-manager'));
        const input = JSON.stringify({ kind: 'List', apiVersion: 'v1', items });
        api().apply(input);
        awaitCrds(api());
        const { namespace } = release;
        const env = { KUBECONFIG: api().kubeconfig('control-plane') };
        const name = 'weir-control-plane-0';
        controlPlane = new PodProcess(podOf(objects, 'control-plane'), { name, namespace, data, env });
        const { metadata, data: callers = {} } = objectOf(objects, 'ConfigMap', '-callers');
        limiter = new PodProcess(podOf(objects, 'limiter'), {
          ...{ name: 'weir-limiter-0', namespace },
          data: { ...data, [metadata.name]: callers },
        });
      });

      afterAll(async () => {
        await limiter?.stop('SIGKILL');
        await controlPlane?.stop('SIGKILL');
        rmSync(folder, { recursive: true, force: true });
      });

      it('becomes ready with rights in these namespaces alone', patience, async () => {
        await eventually(async () => expect(await controlPlane.probe('readinessProbe')).toBe(200), {
          timeoutMs: 30_000,
        });
        expect(controlPlane.program.output).not.toMatch(/forbidden|"level":"error"/i);
      });

      it('gets a limit of such a namespace to a limiter that shows its certificate', patience, async () => {
        const manifest = { name: 'shop', namespace: 'shop', domain: 'shop', fleet: 'edge', requests: 1 };
        api().apply(rateLimitConfigText(manifest));
        api().mustKubectl(['wait', '--for=condition=Ready', 'rlc/shop', '--namespace=shop', '--timeout=50s']);
        // It acknowledges its rules a moment before it listens.
        await eventually(async () => expect(await limiter.probe('readinessProbe')).toBe(200));
      });

      it('answers a proxy with a certificate over TLS, and no other caller', () => {
        const ask = (own: readonly string[]) =>
          runWeir([
            ...['ask', '-grpc-use-tls', '-grpc-server-ca-file', authority.caFile, ...own],
            ...['-dial_string', `127.0.0.1:${limiter.port('grpc')}`],
            ...['-domain', 'shop', '-descriptors', 'key=v'],
          ]);
        const shown = ['-grpc-cert-file', proxy.certFile, '-grpc-key-file', proxy.keyFile];
        expect(ask(shown).stdout).toMatch(/^OK\n {2}key=v: .* left, limit 1 per day/);
        expect(ask([]).stdout).not.toMatch(/^OK/);
      });

      it(
        'rejects the pod of helm test, which shows its certificate, by a rule of the values',
        patience,
        async () => {
          const pod = new PodProcess(testPodOf(rendered), {
            ...{ name: 'weir-test', namespace: release.namespace },
            data: { ...data, grpc: { 'ca.crt': readFileSync(authority.caFile, 'utf8') } },
            addresses: { 'weir-limiter.weir-system.svc:8081': `127.0.0.1:${limiter.port('grpc')}` },
          });
          try {
            expect(await pod.program.ended).toEqual({ code: 0, signal: null });
            expect(pod.program.output).toMatch(
              /^OVER_LIMIT\n {2}key=helm: OVER_LIMIT, 0 left, limit 1 per day/,
            );
          } finally {
            await pod.stop('SIGKILL');
          }
        },
      );

      it('answers HTTP to callers that it knows over TLS alone, and shows the debug port to callers with the token', async () => {
        const body = '{"domain":"DOMAIN","descriptors":[{"entries":[{"key":"key","value":"http"}]}]}';
        const ask = async (domain: string, pair?: CertificatePair): Promise<number> => {
          const ca = readFileSync(authority.caFile);
          const own = pair && { cert: readFileSync(pair.certFile), key: readFileSync(pair.keyFile) };
          const request = { method: 'POST', body: body.replace('DOMAIN', domain), tls: { ca, ...own } };
          return (await httpAsk(limiter.port('http'), '/json', request)).status;
        };
        expect([await ask('shop', proxy), await ask('bank', proxy), await ask('shop')]).toEqual([
          200, 403, 403,
        ]);
        await expect(httpAsk(limiter.port('http'), '/healthcheck')).rejects.toThrow();
        const headers = { authorization: 'Bearer a-token-that-callers-show' };
        expect((await httpAsk(debugPort, '/stats')).status).toBe(401);
        const { status, body: stats } = await httpAsk(debugPort, '/stats', { headers });
        expect([status, stats]).toEqual([200, expect.stringContaining('ratelimit.callers.entries: 1')]);
      });

      it('opens the lookup of the signing secret for callers with the token', async () => {
        const path = '/v1/webhooks/default/secret';
        const port = controlPlane.port('api');
        const tls = { ca: readFileSync(authority.caFile) };
        expect((await httpAsk(port, path, { tls })).status).toBe(401);
        const headers = { authorization: 'Bearer a-token-that-callers-show' };
        const { status, body } = await httpAsk(port, path, { headers, tls });
        expect([status, body.includes('whsec_AAAA')]).toEqual([200, true]);
      });
    });
  });
});
