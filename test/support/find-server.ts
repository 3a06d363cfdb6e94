/**
 * Where the real servers are that tests talk to: an environment variable that names the program, PATH, or the project's
 * own folder `.cache/servers/`, which `npm run test:servers` fills. Those of Kubernetes also in the folder that
 * KUBEBUILDER_ASSETS names.
 */
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';

export interface ServerProgram {
  /** Name of the executable. */
  command: string;
  /** Environment variable that may hold its path. */
  variable: string;
  /** Environment variable that may name a folder with it, by a convention of its field. */
  folderVariable?: string;
  /** Only from the project's own folder, where it is not named: what PATH has is too old or too odd. */
  ownOnly?: boolean;
}

export const redisProgram: ServerProgram = { command: 'redis-server', variable: 'WEIR_REDIS_SERVER' };

/** What Redis was forked into; suites of Redis run on it as well. */
export const valkeyProgram: ServerProgram = { command: 'valkey-server', variable: 'WEIR_VALKEY_SERVER' };

/** The oldest Redis and the newest Valkey that a package has; without TLS. */
export const oldRedisProgram: ServerProgram = {
  command: 'redis-server-6.2',
  variable: 'WEIR_REDIS_SERVER_6_2',
  ownOnly: true,
};
export const newValkeyProgram: ServerProgram = {
  command: 'valkey-server-9',
  variable: 'WEIR_VALKEY_SERVER_9',
  ownOnly: true,
};

/** twemproxy, a proxy that spreads keys over servers. */
export const nutcrackerProgram: ServerProgram = { command: 'nutcracker', variable: 'WEIR_NUTCRACKER' };

export const memcachedProgram: ServerProgram = { command: 'memcached', variable: 'WEIR_MEMCACHED' };

export const goProgram: ServerProgram = { command: 'go', variable: 'WEIR_GO' };
export const curlProgram: ServerProgram = { command: 'curl', variable: 'WEIR_CURL' };
export const envoyProgram: ServerProgram = { command: 'envoy', variable: 'WEIR_ENVOY' };
export const opensslProgram: ServerProgram = { command: 'openssl', variable: 'WEIR_OPENSSL' };

/** Proxies that ask before they forward a request. */
export const nginxProgram: ServerProgram = { command: 'nginx', variable: 'WEIR_NGINX' };
export const haproxyProgram: ServerProgram = { command: 'haproxy', variable: 'WEIR_HAPROXY' };
export const caddyProgram: ServerProgram = { command: 'caddy', variable: 'WEIR_CADDY' };

/** Prometheus, and the checks that come with it. */
export const prometheusProgram: ServerProgram = { command: 'prometheus', variable: 'WEIR_PROMETHEUS' };
export const promtoolProgram: ServerProgram = { command: 'promtool', variable: 'WEIR_PROMTOOL' };

export const etcdProgram: ServerProgram = {
  command: 'etcd',
  variable: 'WEIR_ETCD',
  folderVariable: 'KUBEBUILDER_ASSETS',
};
export const apiServerProgram: ServerProgram = {
  command: 'kube-apiserver',
  variable: 'WEIR_KUBE_APISERVER',
  folderVariable: 'KUBEBUILDER_ASSETS',
};
export const kubectlProgram: ServerProgram = {
  command: 'kubectl',
  variable: 'WEIR_KUBECTL',
  folderVariable: 'KUBEBUILDER_ASSETS',
  ownOnly: true,
};

/** Of the version that test/support/helm pins. */
export const helmProgram: ServerProgram = { command: 'helm', variable: 'WEIR_HELM', ownOnly: true };

/** Many commands of that helm in one process: test/support/helm/main.go. */
export const helmCommandsProgram: ServerProgram = {
  command: 'helm-commands',
  variable: 'WEIR_HELM_COMMANDS',
  ownOnly: true,
};

/** A check of GitHub's workflows. */
export const actionlintProgram: ServerProgram = { command: 'actionlint', variable: 'WEIR_ACTIONLINT' };

/** GitHub's own reader of Markdown, a check of XML, and what runs hooks before a commit. */
export const cmarkProgram: ServerProgram = { command: 'cmark-gfm', variable: 'WEIR_CMARK_GFM' };
export const xmllintProgram: ServerProgram = { command: 'xmllint', variable: 'WEIR_XMLLINT' };
export const preCommitProgram: ServerProgram = { command: 'pre-commit', variable: 'WEIR_PRE_COMMIT' };

/** A conformance test of HTTP/2 servers. */
export const h2specProgram: ServerProgram = { command: 'h2spec', variable: 'WEIR_H2SPEC' };

/** Load generators: nghttp2's for HTTP/2, and one for gRPC. */
export const h2loadProgram: ServerProgram = { command: 'h2load', variable: 'WEIR_H2LOAD' };
export const ghzProgram: ServerProgram = { command: 'ghz', variable: 'WEIR_GHZ' };

export const grpcurlProgram: ServerProgram = { command: 'grpcurl', variable: 'WEIR_GRPCURL' };

/** A Python that can import grpcio, and its compiler of proto files. */
export const grpcioProgram: ServerProgram = {
  command: 'python-grpcio-tools',
  variable: 'WEIR_PYTHON_GRPCIO',
};

/** A Python that can import FastAPI, uvicorn and httpx. */
export const fastApiProgram: ServerProgram = { command: 'python-fastapi', variable: 'WEIR_PYTHON_FASTAPI' };

/** Runs what follows it, as in `java-spring javac`, with Spring Boot on the class path. */
export const springProgram: ServerProgram = { command: 'java-spring', variable: 'WEIR_JAVA_SPRING' };

/** Older Nodes, which run the library. */
export const node22Program: ServerProgram = { command: 'node-22', variable: 'WEIR_NODE_22', ownOnly: true };
export const node24Program: ServerProgram = { command: 'node-24', variable: 'WEIR_NODE_24', ownOnly: true };

/** A browser, headless, for the consoles. */
export const chromiumProgram: ServerProgram = { command: 'chromium', variable: 'WEIR_CHROMIUM' };

/** For a program of Go that ends soon: by one thread, and without collecting garbage, it takes a quarter less of a processor. */
export const goOnce = { GOGC: 'off', GOMAXPROCS: '1' } as const;

export type FoundServer = { path: string } | { missing: string };

export const serversFolder = join(import.meta.dirname, '../../.cache/servers');

/** A variable that is set decides alone: what it names is used or reported missing. */
export function findServer(
  program: ServerProgram,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): FoundServer {
  const { command, variable, folderVariable, ownOnly } = program;
  const named = environment[variable];
  if (named !== undefined && named !== '') {
    return isExecutable(named)
      ? { path: named }
      : { missing: `${variable} names no executable file: ${named}` };
  }
  const conventional = folderVariable === undefined ? undefined : environment[folderVariable];
  const onPath = ownOnly ? [] : (environment['PATH'] ?? '').split(delimiter);
  const folders = [conventional ?? '', ...onPath, serversFolder].filter((folder) => folder !== '');
  for (const folder of folders) {
    const path = join(folder, command);
    if (isExecutable(path)) return { path };
  }
  const names = [variable, ...(folderVariable === undefined ? [] : [folderVariable])].join(' or ');
  const path = ownOnly ? '' : ' nor on PATH,';
  return { missing: `${command} is neither named by ${names},${path} nor in .cache/servers` };
}

/** Path of a program that has to be there. */
export function programPath(program: ServerProgram): string {
  const found = findServer(program);
  if ('missing' in found) throw new Error(found.missing);
  return found.path;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
