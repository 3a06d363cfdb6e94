import { spawnSync } from 'node:child_process';
import { connect } from 'node:net';
import { delimiter, dirname } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { findServer, helmProgram, kubectlProgram, redisProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import {
  chartNotes,
  installedOf,
  objectOf,
  podOf,
  type RenderedObject,
  release,
  renderChart,
  testPodOf,
} from '../support/helm-chart.ts';
import { httpAsk } from '../support/http-ask.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { PodProcess, portsOfThisMachine } from '../support/pod-process.ts';
import { RedisServer } from '../support/redis-server.ts';
import { ScriptedXdsClient } from '../support/xds-client.ts';

function commandOf(notes: string, beginning: RegExp): string {
  const found = beginning.exec(notes);
  if (found === null) throw new Error(`the notes have no ${beginning}:\n${notes}`);
  return found[0].trim();
}

/** Whether something accepts connections at this address of loopback. */
function accepts(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, host);
    socket.once('connect', () => socket.destroy());
    socket.once('error', () => {});
    socket.once('close', (hadError) => resolve(!hadError));
  });
}

/** Two processes start, and Redis may be waited for, on a machine that others use, too. */
const patience = { timeout: 120_000 };

describeWithServer('the programs as the chart starts them', helmProgram, () => {
  describeWithServer('with a Redis', redisProgram, (redisPath) => {
    describeWithApiServer('and a cluster', (api) => {
      let redis: RedisServer;
      let objects: RenderedObject[];
      let notes: string;
      let controlPlane: PodProcess;
      let limiter: PodProcess;

      beforeAll(async () => {
        redis = new RedisServer({ path: redisPath }, await freePort());
        const values = { ...(await portsOfThisMachine()), redis: { existingSecret: 'redis' } };
        objects = renderChart(values);
        notes = chartNotes(values);
        api().createNamespace(release.namespace);
        const input = JSON.stringify({ kind: 'List', apiVersion: 'v1', items: installedOf(objects) });
        api().apply(input);
        controlPlane = new PodProcess(podOf(objects, 'control-plane'), {
          name: 'weir-control-plane-0',
          namespace: release.namespace,
          env: { KUBECONFIG: api().kubeconfig('control-plane') },
        });
        limiter = new PodProcess(podOf(objects, 'limiter'), {
          name: 'weir-limiter-0',
          namespace: release.namespace,
          data: { redis: { url: `127.0.0.1:${redis.port}` } },
          token: (audience) => api().accountToken('weir-limiter', { namespace: release.namespace, audience }),
        });
      });

      afterAll(async () => {
        await limiter?.stop('SIGKILL');
        await controlPlane?.stop('SIGKILL');
        await redis?.stop();
      });

      /** As in a terminal at which kubectl talks to this cluster, and the forwarded port is the limiter's own. */
      const shell = (command: string) => {
        const kubectl = findServer(kubectlProgram) as { path: string };
        const forwarded = command.replace('localhost:8080', `localhost:${limiter.port('http')}`);
        return spawnSync('sh', ['-c', forwarded], {
          env: {
            PATH: [dirname(kubectl.path), process.env['PATH']].join(delimiter),
            HOME: api().folder,
            KUBECONFIG: api().kubeconfig(),
          },
          encoding: 'utf8',
          timeout: 60_000,
        });
      };

      it('has a limiter that lives and is not ready without its Redis', patience, async () => {
        await eventually(async () => expect(await limiter.probe('startupProbe')).toBe(200), {
          timeoutMs: 30_000,
        });
        expect(await limiter.probe('livenessProbe')).toBe(200);
        expect(await limiter.probe('readinessProbe')).toBe(0);
      });

      it(
        'has a control plane that becomes ready with the rights that the chart gives it',
        patience,
        async () => {
          await eventually(async () => expect(await controlPlane.probe('startupProbe')).toBe(200), {
            timeoutMs: 30_000,
          });
          expect(await controlPlane.probe('livenessProbe')).toBe(200);
          await eventually(async () => expect(await controlPlane.probe('readinessProbe')).toBe(200), {
            timeoutMs: 30_000,
          });
          await controlPlane.program.printed(/Leading/);
          // An API server says it for a moment of kinds that were just installed, also after it listed them.
          const lines = controlPlane.program.output.split('\n');
          const own = lines.filter((line) => !line.includes('storage is (re)initializing'));
          expect(own.join('\n')).not.toMatch(/forbidden|"level":"error"/i);
        },
      );

      it('has a limiter that becomes ready when Redis is there', patience, async () => {
        await redis.start();
        await eventually(async () => expect(await limiter.probe('readinessProbe')).toBe(200), {
          timeoutMs: 40_000,
        });
      });

      it('puts a limit in force, and shows a 429, by the commands of the notes', patience, async () => {
        const apply = shell(commandOf(notes, /^kubectl -n \S+ apply -f - <<END\n.*?\nEND$/ms));
        expect([apply.status, apply.stderr]).toEqual([0, '']);
        const wait = shell(commandOf(notes, /^ *kubectl -n \S+ wait .*$/m));
        expect([wait.status, wait.stderr]).toEqual([0, '']);
        expect(notes.trim().split('\n').at(-1)?.trim()).toMatch(/^for i in /);
        const { stdout } = shell(commandOf(notes, /^ *for i in .*$/m));
        // A minute may end in between.
        expect(stdout).toMatch(/^(200\n){3,6}429\n$/);
      });

      it('rejects the pod of helm test, by the rule that it brings', patience, async () => {
        const pod = new PodProcess(testPodOf(objects), {
          name: 'weir-test',
          namespace: release.namespace,
          addresses: { 'weir-limiter.weir-system.svc:8081': `127.0.0.1:${limiter.port('grpc')}` },
        });
        const input = JSON.stringify(objectOf(objects, 'RateLimitConfig', '-test'));
        try {
          // It waits for a rule that is not there yet.
          await new Promise((resolve) => setTimeout(resolve, 500));
          api().apply(input);
          expect(await pod.program.ended).toEqual({ code: 0, signal: null });
          expect(pod.program.output).toMatch(
            /^OVER_LIMIT\n {2}caller=helm-test: OVER_LIMIT, 0 left, limit 3 per minute/,
          );
        } finally {
          await pod.stop('SIGKILL');
        }
      });

      it('gives rules to limiters that prove to be of the release, and to no other client', async () => {
        const { namespace } = release;
        api().createServiceAccount('other', namespace);
        const audience = 'weir-control-plane';
        const tokenOf = (account: string) => api().accountToken(account, { namespace, audience });
        const end = async (token?: string): Promise<string> => {
          const client = new ScriptedXdsClient({
            port: controlPlane.port('xds'),
            reconnects: false,
            ...(token === undefined ? {} : { authorization: () => `Bearer ${token}` }),
          });
          await eventually(() => expect(client.last ?? client.ends[0]).toBeDefined());
          client.close();
          return client.last === undefined ? String(client.ends[0]).replace(/:.*/s, '') : 'served';
        };
        expect(await end(tokenOf('weir-limiter'))).toBe('served');
        expect(await end(tokenOf('other'))).toBe('7 PERMISSION_DENIED');
        expect(await end(api().accountToken('weir-limiter', { namespace, audience: 'other' }))).toBe(
          '16 UNAUTHENTICATED',
        );
        expect(await end()).toBe('16 UNAUTHENTICATED');
      });

      it('answers a proxy over gRPC, and Prometheus on the port of the Service', async () => {
        const client = new LimiterClient(limiter.port('grpc'));
        expect(await client.allowed('weir-example', 'caller', 'somebody else')).toBe(true);
        client.close();
        expect((await httpAsk(limiter.port('metrics'), '/metrics')).body).toContain('weir_build_info');
        expect((await httpAsk(controlPlane.port('metrics'), '/metrics')).body).toContain('weir_');
      });

      it.runIf(process.platform === 'linux')('opens the debug port on loopback alone', async () => {
        const { env } = podOf(objects, 'limiter').spec.containers[0];
        const debug = Number(env.find(({ name }) => name === 'DEBUG_PORT')?.value);
        expect(await accepts('127.0.0.1', debug)).toBe(true);
        // Another address of this machine, as a pod's is: the other ports are open there.
        expect(await accepts('127.0.0.2', limiter.port('http'))).toBe(true);
        expect(await accepts('127.0.0.2', debug)).toBe(false);
      });

      it('lets a limiter live while Redis is gone', async () => {
        await redis.kill('SIGKILL');
        await limiter.program.printed(/Lost the connection to Redis/);
        expect(await limiter.probe('livenessProbe')).toBe(200);
        expect(limiter.program.running).toBe(true);
      });

      it('ends a limiter that continues answering for the drain delay, unready', async () => {
        const ended = limiter.program.stop('SIGTERM');
        await eventually(async () => expect(await limiter.probe('readinessProbe')).toBe(500));
        expect(await accepts('127.0.0.1', limiter.port('grpc'))).toBe(true);
        expect(await ended).toEqual({ code: 0, signal: null });
      });

      it('ends a control plane without an error', async () => {
        expect(await controlPlane.program.stop('SIGTERM')).toEqual({ code: 0, signal: null });
      });
    });
  });

  it(
    'keep a limiter out of service whose rules are wrong, alive, and say what it means',
    patience,
    async () => {
      const { limiter: own } = await portsOfThisMachine();
      const rules = {
        'shop.yaml': { domain: 'shop', descriptors: [{ key: 'a', rate_limit: { unit: 'fortnight' } }] },
      };
      const objects = renderChart({
        store: { type: 'memory' },
        controlPlane: { enabled: false },
        limiter: { ports: own['ports'], rules, autoscaling: { enabled: false }, replicas: 1 },
      });
      const configMap = objects.find(({ kind }) => kind === 'ConfigMap') as RenderedObject;
      const limiter = new PodProcess(podOf(objects, 'limiter'), {
        name: 'weir-limiter-0',
        namespace: release.namespace,
        data: { [configMap.metadata.name]: configMap.data ?? {} },
      });
      try {
        await limiter.program.printed(/No rules are loaded yet/);
        await eventually(async () => expect(await limiter.probe('readinessProbe')).toBe(500), {
          timeoutMs: 30_000,
        });
        expect(await limiter.probe('livenessProbe')).toBe(200);
      } finally {
        await limiter.stop('SIGKILL');
      }
    },
  );

  it('decide by files in ConfigMaps, and show a 429 by the command of the notes', patience, async () => {
    const { limiter: own } = await portsOfThisMachine();
    const rule = { key: 'address', value: 'a', rate_limit: { unit: 'hour', requests_per_unit: 2 } };
    const free = { key: 'address', value: 'b', rate_limit: { unlimited: true } };
    const rules = { 'shop.yaml': { domain: 'shop', descriptors: [{ key: 'free' }, free, rule] } };
    const action = { request_headers: { header_name: 'x-address', descriptor_key: 'address' } };
    const profiles = { ingress: { domain: 'shop', rate_limits: [{ actions: [action] }] } };
    const metrics = { enabled: false };
    const values = {
      store: { type: 'memory' },
      controlPlane: { enabled: false },
      limiter: {
        ports: own['ports'],
        rules,
        profiles,
        metrics,
        autoscaling: { enabled: false },
        replicas: 1,
      },
    };
    const objects = renderChart(values);
    const configMaps = objects.filter(({ kind }) => kind === 'ConfigMap');
    const limiter = new PodProcess(podOf(objects, 'limiter'), {
      name: 'weir-limiter-0',
      namespace: release.namespace,
      data: Object.fromEntries(configMaps.map(({ metadata, data = {} }) => [metadata.name, data])),
    });
    try {
      await eventually(async () => expect(await limiter.probe('readinessProbe')).toBe(200), {
        timeoutMs: 30_000,
      });
      expect([await limiter.probe('startupProbe'), await limiter.probe('livenessProbe')]).toEqual([200, 200]);
      const curl = commandOf(chartNotes(values), /^ *for i in .*$/m);
      const forwarded = curl.replace('localhost:8080', `localhost:${limiter.port('http')}`);
      const { stdout } = spawnSync('sh', ['-c', forwarded], { encoding: 'utf8', timeout: 30_000 });
      expect(stdout).toMatch(/^(200\n){2,4}429\n$/);
      const forwardAuth = async (address: string) => {
        const headers = { 'X-Address': address };
        return (await httpAsk(limiter.port('http'), '/v1/forward-auth/ingress', { headers })).status;
      };
      // The same counter, asked as another proxy than Envoy does.
      expect([await forwardAuth('b'), await forwardAuth('a')]).toEqual([200, 429]);
    } finally {
      await limiter.stop('SIGKILL');
    }
  });
});
