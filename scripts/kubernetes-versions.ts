/**
 * `npm run test:kubernetes-versions`: the tests that need an API server (test/chart and test/control-plane), against the oldest
 * Kubernetes that charts/weir/Chart.yaml names. The newest is in `npm test`. kube-apiserver is built by Go from the module in
 * test/support/apiserver-oldest, in minutes, once. etcd, kubectl and Helm are those of the other tests. Arguments go to vitest.
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { apiServerProgram, findServer, serversFolder } from '../test/support/find-server.ts';
import { mustRun, projectRoot, run } from './commands.ts';
import { neededServers } from './needed-servers.ts';
import { buildKubernetes, installServers, kubernetesVersion } from './test-servers.ts';

const folder = 'apiserver-oldest';

/** As `kubeVersion` of the chart begins: `>=1.30.0-0`, of which the patch is the newest that there is. */
export function oldestMinor(): string {
  const chart = parse(readFileSync(join(projectRoot, 'charts/weir/Chart.yaml'), 'utf8')) as {
    kubeVersion: string;
  };
  const [, minor] = /^>=(\d+\.\d+)\.0-0$/.exec(chart.kubeVersion) ?? [];
  if (minor === undefined)
    throw new Error(`kubeVersion "${chart.kubeVersion}" is not of the form >=1.30.0-0`);
  return minor;
}

function main(args: readonly string[]): number {
  const version = kubernetesVersion(folder);
  if (!version.startsWith(`${oldestMinor()}.`)) {
    console.error(
      `test/support/${folder} has Kubernetes ${version}, charts/weir/Chart.yaml begins at ${oldestMinor()}`,
    );
    return 1;
  }
  const files = globSync('test/{chart,control-plane}/*.test.ts', { cwd: projectRoot }).filter((file) =>
    neededServers([join(projectRoot, file)]).commands.has(apiServerProgram.command),
  );
  installServers(neededServers(files.map((file) => join(projectRoot, file))));
  const server = join(serversFolder, `kubernetes-${version}`, apiServerProgram.command);
  if (!existsSync(server)) buildKubernetes(apiServerProgram, folder, server);
  process.env[apiServerProgram.variable] = server;
  const found = findServer(apiServerProgram);
  if ('missing' in found) {
    console.error(found.missing);
    return 1;
  }
  mustRun(server, ['--version']);
  return run('vitest', ['run', '--project', 'tests', ...(args.length > 0 ? args : files.sort())]);
}

if (import.meta.main) process.exitCode = main(process.argv.slice(2));
