/** charts/weir/RECIPES.md: the migration from envoyproxy/ratelimit, with its values and commands as they are written. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse } from 'yaml';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { projectRoot } from '../support/documents.ts';
import { eventually } from '../support/eventually.ts';
import { fencedBlocks } from '../support/fenced-blocks.ts';
import { findServer, helmProgram, kubectlProgram, redisProgram } from '../support/find-server.ts';
import { installedOf, podOf, type RenderedObject, release, renderChart } from '../support/helm-chart.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { PodProcess, portsOfThisMachine } from '../support/pod-process.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { runWeir } from '../support/weir-command.ts';

const page = readFileSync(join(projectRoot, 'charts/weir/RECIPES.md'), 'utf8');
const blocks = fencedBlocks(page.slice(page.indexOf('\n## Migrate from envoyproxy/ratelimit\n')));
const written = parse(blocks[0]?.text ?? '');
const [convert = '', apply = '', upgrade = '', wait = '', ...others] = (blocks[1]?.text ?? '')
  .replaceAll('\\\n', ' ')
  .trim()
  .split('\n');

const rules = `domain: shop
descriptors:
  - key: account
    rate_limit: { unit: year, requests_per_unit: 10 }
`;

const patience = { timeout: 120_000 };

describeWithServer('the chart instead of envoyproxy/ratelimit', helmProgram, () => {
  describeWithServer('with its Redis', redisProgram, (redisPath) => {
    describeWithApiServer('and a cluster', (api) => {
      let redis: RedisServer;
      let direct: Redis;
      let fromFiles: PodProcess;
      let controlPlane: PodProcess | undefined;
      let fromObjects: PodProcess | undefined;

      const { namespace } = release;

      const install = (objects: readonly RenderedObject[]) =>
        api().apply(JSON.stringify({ kind: 'List', apiVersion: 'v1', items: installedOf(objects) }));

      const shell = (command: string) => {
        const kubectl = findServer(kubectlProgram) as { path: string };
        const env = {
          PATH: `${dirname(kubectl.path)}:${process.env['PATH']}`,
          HOME: api().folder,
          KUBECONFIG: api().kubeconfig(),
        };
        const { status, stderr } = spawnSync('sh', ['-c', command], {
          cwd: api().folder,
          env,
          encoding: 'utf8',
        });
        return { status, stderr };
      };

      const left = async (limiter: PodProcess): Promise<number> => {
        const client = new LimiterClient(limiter.port('grpc'));
        const descriptors = [{ entries: [{ key: 'account', value: 'ann' }] }];
        const { statuses } = await client.ask({ domain: 'shop', descriptors });
        client.close();
        return statuses[0]?.limitRemaining ?? -1;
      };

      const ready = (pod: PodProcess) =>
        eventually(async () => expect(await pod.probe('readinessProbe')).toBe(200), { timeoutMs: 60_000 });

      beforeAll(async () => {
        redis = await startRedis({ path: redisPath });
        direct = new Redis(redis.port, '127.0.0.1');
        api().createNamespace(namespace);
        const { ports } = (await portsOfThisMachine()).limiter;
        const url = `127.0.0.1:${redis.port}`;
        const objects = renderChart({ ...written, redis: { url }, limiter: { ...written.limiter, ports } });
        install(objects);
        fromFiles = new PodProcess(podOf(objects, 'limiter'), {
          name: 'weir-limiter-0',
          namespace,
          data: { 'ratelimit-config': { 'shop.yaml': rules } },
        });
        await ready(fromFiles);
      });

      afterAll(async () => {
        await fromObjects?.stop('SIGKILL');
        await controlPlane?.stop('SIGKILL');
        await fromFiles?.stop('SIGKILL');
        direct?.disconnect();
        await redis?.stop();
      });

      it('goes on with the counters of the Go service', async () => {
        // As the Go service names and writes it.
        const year = 365 * 86_400;
        const start = Math.floor(Date.now() / 1000 / year) * year;
        await direct.set(`shop_account_ann_${start}`, 4, 'EX', year);
        expect(await left(fromFiles)).toBe(5);
      });

      it('goes on with them when the rules become objects', patience, async () => {
        expect(others).toEqual([]);
        const folder = join(api().folder, 'rules');
        mkdirSync(folder);
        writeFileSync(join(folder, 'shop.yaml'), rules);
        const [, words = '', file = ''] = /^weir (convert .*) > (\S+)$/.exec(convert) ?? [];
        const converted = runWeir(words.replace('rules/', folder).split(' '));
        expect([converted.status, converted.stderr]).toEqual([0, '']);
        writeFileSync(join(api().folder, file), converted.stdout);
        expect(shell(apply)).toEqual({ status: 0, stderr: '' });

        expect(upgrade).toMatch(
          / -f values-migrate.yaml +--set controlPlane.enabled=true --set limiter.existingRulesConfigMap=$/,
        );
        const here = await portsOfThisMachine();
        const objects = renderChart({
          ...written,
          redis: { url: `127.0.0.1:${redis.port}` },
          controlPlane: { ...here.controlPlane, enabled: true },
          limiter: { ...written.limiter, ...here.limiter, existingRulesConfigMap: '' },
        });
        install(objects);
        controlPlane = new PodProcess(podOf(objects, 'control-plane'), {
          name: 'weir-control-plane-0',
          namespace,
          env: { KUBECONFIG: api().kubeconfig('control-plane') },
        });
        fromObjects = new PodProcess(podOf(objects, 'limiter'), {
          name: 'weir-limiter-1',
          namespace,
          token: (audience) => api().accountToken('weir-limiter', { namespace, audience }),
        });
        await ready(fromObjects);
        expect(shell(wait)).toEqual({ status: 0, stderr: '' });
        expect(await left(fromObjects)).toBe(4);
        expect(await left(fromFiles)).toBe(3);
      });
    });
  });
});
