/** examples/compose: as far as it can be tried without a container engine. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join, normalize } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it, onTestFinished } from 'vitest';
import { parse } from 'yaml';
import { startControlPlane } from '../support/control-plane-process.ts';
import { foreignModules } from '../support/definitions.ts';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { readDocument } from '../support/documents.ts';
import { startEnvoy } from '../support/envoy.ts';
import { examplesFolder, readExample } from '../support/example-cases.ts';
import { envoyProgram, promtoolProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';
import { startRedis } from '../support/redis-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { runWeir } from '../support/weir-command.ts';

interface Service {
  image: string;
  entrypoint?: string;
  command?: string[];
  ports?: string[];
  expose?: number[];
  volumes?: string[];
  environment?: string[];
  depends_on?: string[];
  secrets?: string[];
  networks: string[];
}

interface ComposeFile {
  services: Record<string, Service>;
  secrets: Record<string, { file: string }>;
}

const folder = join(examplesFolder, 'compose');
const files = ['docker-compose.yml', 'docker-compose-example.yml'] as const;
const read = (file: string): ComposeFile => parse(readExample('compose', file)) as ComposeFile;
const serviceOf = (file: string, name: string): Service => {
  const found = read(file).services[name];
  if (found === undefined) throw new Error(`examples/compose/${file} has no service ${name}`);
  return found;
};

/** `${NAME:-default}` as without a variable of that name. */
const withDefaults = (text: string): string => text.replaceAll(/\$\{\w+:-([^}]*)\}/g, '$1');

function environmentOf({ environment = [] }: Service): Record<string, string> {
  const pairs = environment.map((line) => withDefaults(line).split(/=(.*)/s).slice(0, 2));
  return Object.fromEntries(pairs) as Record<string, string>;
}

/** What stands at a path of the container, on this machine. */
function mountedAt({ volumes = [] }: Service, path: string): string {
  for (const [source = '', target = ''] of volumes.map((volume) => volume.split(':'))) {
    if (path === target || path.startsWith(`${target}/`)) {
      return normalize(join(folder, source + path.slice(target.length)));
    }
  }
  throw new Error(`nothing is mounted at ${path}`);
}

/** Of a settings page. */
function settingsIn(document: string): Set<string> {
  const names = [...readDocument(document).matchAll(/^\| `([A-Z][A-Z0-9_]+)`/gm)].map(([, name]) => name);
  return new Set(names as string[]);
}

describe.each(files)('examples/compose/%s', (file) => {
  const { services } = read(file);
  const found = foreignModules('compose');
  const isWithout = 'missing' in found && process.env['CI'] !== 'true';

  it.skipIf(isWithout)('is what the compose specification describes', () => {
    if ('missing' in found) throw new Error(found.missing);
    const schema = JSON.parse(readFileSync(found.modules[0]!.files[0]!, 'utf8')) as object;
    const isValid = new Ajv2020({ strict: false, allowUnionTypes: true, validateFormats: false }).compile(
      schema,
    );
    expect([isValid(read(file)), isValid.errors]).toEqual([true, null]);
    const other = read(file);
    Object.assign(other.services['redis'] ?? {}, { imagge: 'x' });
    expect(isValid(other)).toBe(false);
  });

  it('mounts what is there, for reading alone', () => {
    const volumes = Object.values(services).flatMap((service) => service.volumes ?? []);
    expect(volumes.length).toBeGreaterThan(0);
    for (const volume of volumes) {
      const [source = '', , mode] = volume.split(':');
      expect([volume, existsSync(join(folder, source)), mode]).toEqual([volume, true, 'ro']);
    }
  });

  it('opens ports on this machine alone, and names services that there are', () => {
    for (const { ports = [], depends_on: needed = [], networks } of Object.values(services)) {
      expect(ports.filter((port) => !port.startsWith('127.0.0.1:'))).toEqual([]);
      expect(needed.filter((name) => services[name] === undefined)).toEqual([]);
      expect(networks).toEqual(['ratelimit-network']);
    }
  });

  it('gives the limiter settings that there are, a program of its image, and the ports of its image', () => {
    const limiter = services['ratelimit'] as Service;
    const known = settingsIn('docs/settings.md');
    expect(Object.keys(environmentOf(limiter)).filter((name) => !known.has(name))).toEqual([]);
    const image = readFileSync(join(folder, '../../Dockerfile'), 'utf8');
    expect(image).toContain(`${limiter.entrypoint} `);
    const exposed = /^EXPOSE (.*)/m.exec(image)?.[1]?.split(' ') ?? [];
    const inside = (limiter.ports ?? []).map((port) => port.split(':').at(-1) as string);
    const { PROMETHEUS_ADDR = ':' } = environmentOf(limiter);
    expect(inside.filter((port) => !exposed.includes(port) && PROMETHEUS_ADDR !== `:${port}`)).toEqual([]);
  });
});

/** Ports of the two files of envoyproxy/ratelimit, statsd's apart: who changes over finds all where it was. */
it('has the services and ports of envoyproxy/ratelimit', () => {
  const portsOf = (file: string) =>
    Object.fromEntries(
      Object.entries(read(file).services).map(([name, { ports = [], expose = [] }]) => [
        name,
        [...ports.map((port) => Number(port.split(':')[1])), ...expose],
      ]),
    );
  expect(portsOf('docker-compose.yml')).toEqual({
    redis: [6379],
    memcached: [11211],
    ratelimit: [8080, 8081, 6070],
  });
  expect(portsOf('docker-compose-example.yml')).toMatchObject({
    redis: [6379],
    ratelimit: [8080, 8081, 6070, 9102],
    'ratelimit-xds-config-server': [18000],
    'envoy-proxy': [8888, 8001],
    'envoy-mock': [9999],
    prometheus: [9090],
    grafana: [3000],
  });
});

describeWithServer("Prometheus's own check", promtoolProgram, (path) => {
  it('finds nothing in what it is to scrape, and in its alerts', () => {
    const prometheus = serviceOf('docker-compose-example.yml', 'prometheus');
    const config = mountedAt(prometheus, '/etc/prometheus/prometheus.yml');
    const alerts = mountedAt(prometheus, '/etc/prometheus/weir.yaml');
    const here = join(temporaryFolder(), 'prometheus.yml');
    writeFileSync(here, readFileSync(config, 'utf8').replace('/etc/prometheus/weir.yaml', alerts));
    const { status, stdout, stderr } = spawnSync(path, ['check', 'config', here], { encoding: 'utf8' });
    expect([status, stderr]).toEqual([0, expect.any(String)]);
    expect(stdout).toMatch(/\d\d rules found/);
  });
});

it('Prometheus scrapes where the limiter answers', () => {
  const { scrape_configs: jobs } = parse(readExample('compose', 'prometheus.yml')) as {
    scrape_configs: { static_configs: { targets: string[] }[] }[];
  };
  const limiter = serviceOf('docker-compose-example.yml', 'ratelimit');
  const targets = jobs.flatMap((job) => job.static_configs.flatMap((config) => config.targets));
  expect(targets).toEqual([`ratelimit${environmentOf(limiter)['PROMETHEUS_ADDR']}`]);
});

it("Grafana finds Prometheus, and the chart's dashboard", () => {
  const grafana = serviceOf('docker-compose-example.yml', 'grafana');
  const provisioned = (kind: string, file: string): unknown =>
    parse(readFileSync(mountedAt(grafana, `/etc/grafana/provisioning/${kind}/${file}`), 'utf8'));
  const { datasources } = provisioned('datasources', 'prometheus.yaml') as {
    datasources: { type: string; url: string; isDefault: boolean }[];
  };
  expect(datasources).toMatchObject([{ type: 'prometheus', url: 'http://prometheus:9090', isDefault: true }]);
  const { providers } = provisioned('dashboards', 'weir.yaml') as {
    providers: { options: { path: string } }[];
  };
  const [path = ''] = providers.map(({ options }) => options.path);
  const home = environmentOf(grafana)['GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH'] as string;
  expect(home.startsWith(`${path}/`)).toBe(true);
  // test/observability tries its queries.
  expect(mountedAt(grafana, home)).toMatch(/charts\/weir\/dashboards\/weir\.json$/);
  expect(existsSync(mountedAt(grafana, home))).toBe(true);
});

/** The line of the README that makes the secret, run where nothing else is. */
function madeToken(): string {
  const [line = ''] = /^.*> debug-token.*$/m.exec(readExample('compose', 'README.md')) ?? [];
  const cwd = temporaryFolder();
  const { status, stderr } = spawnSync('sh', ['-c', `umask 077; ${line}`], { cwd, encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, '']);
  return join(cwd, 'debug-token');
}

/** A limiter with the environment of a file, its folders, secrets and addresses as they are here. */
async function startAsIn(
  file: string,
  { debugToken = madeToken(), ...more }: Record<string, string>,
): Promise<LimiterProcess> {
  const service = serviceOf(file, 'ratelimit');
  const env: Record<string, string> = { ...environmentOf(service), DEBUG_TOKEN_FILE: debugToken };
  const rules = mountedAt(service, `${env['RUNTIME_ROOT']}/${env['RUNTIME_SUBDIRECTORY']}`);
  const limiter = await startLimiter({ env: { ...env, RUNTIME_ROOT: join(rules, '..'), ...more } });
  onTestFinished(() => limiter.stop());
  return limiter;
}

describe('the token of the debug port', () => {
  it.each(files)('is a secret of %s, which the repository and the image are without', (file) => {
    const { secrets } = read(file);
    const service = serviceOf(file, 'ratelimit');
    expect(service.secrets).toEqual(Object.keys(secrets));
    const [name = ''] = service.secrets ?? [];
    expect(environmentOf(service)['DEBUG_TOKEN_FILE']).toBe(`/run/secrets/${name}`);
    const source = normalize(join('examples/compose', secrets[name]?.file ?? ''));
    const { status } = spawnSync('git', ['check-ignore', '-q', source], { cwd: join(folder, '../..') });
    expect([source, status]).toEqual(['examples/compose/debug-token', 0]);
    const notSent = readFileSync(join(folder, '../../.dockerignore'), 'utf8').split('\n');
    expect(notSent).toContain(source);
  });

  it('lets operators read and change, with the commands of the README, and no caller without the token', async () => {
    const debugToken = madeToken();
    // Others than its owner read it: the limiter of the image is one.
    expect(statSync(debugToken).mode & 0o777).toBe(0o644);
    const limiter = await startAsIn('docker-compose.yml', { debugToken, BACKEND_TYPE: 'memory' });
    for (let i = 0; i < 7; i++) await ask(limiter);
    const lines = [...readExample('compose', 'README.md').matchAll(/^bin\/weir (.*--token-file .*)$/gm)];
    expect(lines).toHaveLength(2);
    const here = (line = '') =>
      line
        .replace('localhost', `127.0.0.1:${limiter.ports.debug}`)
        .replace('examples/compose/debug-token', debugToken);
    for (const args of lines.map(([, line]) => here(line).split(' '))) {
      // Its window may have ended since.
      await ask(limiter);
      const { status, stdout, stderr } = runWeir(args);
      expect([status, stderr]).toEqual([0, '']);
      expect(stdout).toContain(args[0] === 'status' ? '1 of 1 limiters answered' : '1 counter was reset');
      const without = runWeir(args.slice(0, args.indexOf('--token-file')));
      expect([without.status, without.stdout + without.stderr]).toEqual([
        1,
        expect.stringContaining('it requires a valid token'),
      ]);
    }
  }, 60_000);
});

async function ask(limiter: LimiterProcess): Promise<number> {
  const descriptors = [{ entries: [{ key: 'user', value: 'ann' }] }];
  const body = JSON.stringify({ domain: 'rl', descriptors });
  const response = await fetch(`http://127.0.0.1:${limiter.ports.http}/json`, { method: 'POST', body });
  await response.arrayBuffer();
  return response.status;
}

describeWithEachRedis('the limiter', (path) => {
  it.each(files)(
    'starts with the environment of %s, and answers',
    async (file) => {
      const redis = await startRedis({ path });
      onTestFinished(() => redis.stop());
      const metrics = `127.0.0.1:${await freePort()}`;
      const limiter = await startAsIn(file, {
        REDIS_URL: `127.0.0.1:${redis.port}`,
        PROMETHEUS_ADDR: metrics,
      });
      const seen: number[] = [];
      for (let i = 0; i < 11; i++) seen.push(await ask(limiter));
      expect(seen.slice(0, 5)).toEqual([200, 200, 200, 200, 200]);
      expect(seen).toContain(429);
      if (file === 'docker-compose.yml') return;
      const exposition = await (await fetch(`http://${metrics}/metrics`)).text();
      expect(exposition).toMatch(/^ratelimit_service_rate_limit_over_limit\{.*domain="rl".*\} [1-9]/m);
    },
    60_000,
  );
});

it('takes rules from the control plane with the profile xds-config', async () => {
  const service = serviceOf('docker-compose-example.yml', 'ratelimit-xds-config-server');
  const env = environmentOf(service);
  const known = settingsIn('docs/settings-control-plane.md');
  expect(Object.keys(env).filter((name) => !known.has(name))).toEqual([]);
  const manifests = mountedAt(service, env['MANIFESTS_DIRECTORY'] as string);
  const plane = await startControlPlane({ env: { ...env, MANIFESTS_DIRECTORY: manifests } });
  onTestFinished(() => plane.stop());
  const limiter = await startAsIn('docker-compose-example.yml', {
    BACKEND_TYPE: 'memory',
    PROMETHEUS_ADDR: '127.0.0.1:0',
    CONFIG_TYPE: 'GRPC_XDS_SOTW',
    CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${plane.ports.xds}`,
  });
  const seen: number[] = [];
  for (let i = 0; i < 21; i++) seen.push(await ask(limiter));
  expect(seen.slice(0, 10)).toEqual(Array(10).fill(200));
  expect(seen).toContain(429);
}, 60_000);

describeWithServer('the Envoys', envoyProgram, (path) => {
  it('limit the sixth request of a user', async () => {
    const limiter = await startAsIn('docker-compose-example.yml', {
      BACKEND_TYPE: 'memory',
      PROMETHEUS_ADDR: '127.0.0.1:0',
    });
    const [proxyPort, mockPort, adminPort] = [await freePort(), await freePort(), await freePort()];
    const here = (service: string): string => {
      const config = mountedAt(serviceOf('docker-compose-example.yml', service), '/etc/envoy/envoy.yaml');
      return (
        readFileSync(config, 'utf8')
          .replaceAll('address: 0.0.0.0', 'address: 127.0.0.1')
          .replace('port_value: 8001', `port_value: ${adminPort}`)
          .replace('port_value: 8888', `port_value: ${proxyPort}`)
          .replace('port_value: 9999', `port_value: ${mockPort}`)
          .replace('address: envoy-mock,', 'address: 127.0.0.1,')
          .replace('address: ratelimit,', 'address: 127.0.0.1,')
          .replace('port_value: 8081', `port_value: ${limiter.ports.grpc}`)
          // Left open, a limiter that does not answer would look like one that lets pass.
          .replace('failure_mode_deny: false', 'failure_mode_deny: true')
          .replace('timeout: 0.25s', 'timeout: 20s')
      );
    };
    for (const service of ['envoy-mock', 'envoy-proxy']) {
      const envoy = await startEnvoy(path, here(service));
      onTestFinished(() => envoy.stop());
    }
    const seen: number[] = [];
    for (let i = 0; i < 11; i++) {
      const response = await fetch(`http://127.0.0.1:${proxyPort}/`, { headers: { 'x-user': 'ann' } });
      if (response.status === 200) expect(await response.text()).toBe('hello\n');
      seen.push(response.status);
    }
    expect(seen.slice(0, 5)).toEqual([200, 200, 200, 200, 200]);
    expect(seen).toContain(429);
  }, 60_000);
});
