import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));

/** A part of the program and the parts that it may import. A part is the longest prefix of a file's path. */
const allowed: Record<string, string[]> = {
  gen: [],
  rules: [],
  'rules/bytes': [],
  'rules/wildcards': ['rules/bytes'],
  'rules/table': ['rules', 'rules/bytes', 'rules/wildcards', 'rules/validation'],
  'rules/yaml': [],
  'rules/validation': ['rules'],
  'rules/reader': ['rules', 'rules/yaml', 'rules/validation'],
  'rules/manifest': ['rules', 'rules/yaml', 'rules/validation'],
  'rules/xds': ['rules', 'rules/validation', 'gen'],
  'rules/documents': [
    'rules',
    'rules/manifest',
    'rules/reader',
    'rules/validation',
    'rules/xds',
    'rules/yaml',
  ],
  'rules/review': ['rules'],
  'rules/explanation': ['rules', 'rules/review'],
  'rules/comparison': ['rules', 'rules/explanation', 'rules/review', 'rules/table'],
  'rules/writing': ['rules', 'rules/manifest'],
  process: [],
  'process/http': ['process'],
  'process/files': ['process'],
  'process/grpc': ['process', 'gen'],
  'control-plane/model': [],
  'control-plane/kubernetes': ['process', 'control-plane/model', 'rules/manifest'],
  'control-plane/source': [
    'process',
    'process/files',
    'control-plane/model',
    'control-plane/kubernetes',
    'rules',
    'rules/manifest',
  ],
  'control-plane/reconcile': [
    'process',
    'control-plane/model',
    'rules',
    'rules/manifest',
    'rules/review',
    'rules/xds',
    'rules/validation',
  ],
  'control-plane/replicas': ['process', 'control-plane/model', 'control-plane/kubernetes'],
  'control-plane/xds': [
    'process',
    'process/grpc',
    'gen',
    'control-plane/model',
    'rules/manifest',
    'rules/xds',
  ],
  'control-plane/webhooks': ['process', 'process/http', 'control-plane/model'],
  'control-plane/http': ['process', 'process/http', 'control-plane/model'],
  'control-plane/metrics': ['process', 'control-plane/model'],
  'control-plane/settings.ts': ['process', 'control-plane/*'],
  'control-plane/log-lines.ts': ['process', 'rules', 'control-plane/model'],
  'control-plane/pace.ts': ['process'],
  'control-plane/distribution.ts': [
    'process',
    'control-plane/model',
    'control-plane/pace.ts',
    'control-plane/reconcile',
    'control-plane/source',
    'control-plane/xds',
  ],
  'control-plane/status-keeper.ts': [
    'process',
    'control-plane/backing',
    'control-plane/kubernetes',
    'control-plane/model',
    'control-plane/pace.ts',
    'control-plane/reconcile',
    'control-plane/replicas',
  ],
  'control-plane/meeting-watch.ts': [
    'process',
    'control-plane/model',
    'control-plane/pace.ts',
    'control-plane/reconcile',
    'control-plane/replicas',
  ],
  'control-plane/announcer.ts': [
    'process',
    'control-plane/model',
    'control-plane/reconcile',
    'control-plane/replicas',
    'control-plane/status-keeper.ts',
    'control-plane/webhooks',
  ],
  'control-plane/backing': [
    'process',
    'control-plane/kubernetes',
    'control-plane/log-lines.ts',
    'control-plane/metrics',
    'control-plane/model',
    'control-plane/replicas',
    'control-plane/settings.ts',
    'control-plane/source',
  ],
  'control-plane/decision-lines.ts': ['process', 'control-plane/log-lines.ts', 'control-plane/model'],
  'control-plane/drop-tally.ts': ['process'],
  'control-plane/notifications.ts': [
    'process',
    'control-plane/drop-tally.ts',
    'process/http',
    'control-plane/log-lines.ts',
    'control-plane/metrics',
    'control-plane/settings.ts',
    'control-plane/webhooks',
  ],
  'control-plane/xds-happenings.ts': [
    'process',
    'control-plane/log-lines.ts',
    'control-plane/metrics',
    'control-plane/xds',
  ],
  'control-plane/control-plane.ts': ['process', 'process/http', 'control-plane/*'],
  'control-plane/main.ts': ['process', 'process/http', 'control-plane/*'],
  'limiter/access-settings.ts': ['process'],
  'limiter/access-lines.ts': ['process'],
  'limiter/callers': ['process', 'process/grpc', 'rules', 'rules/yaml'],
  'limiter/opened-callers.ts': [
    'process',
    'limiter/access-settings.ts',
    'limiter/callers',
    'limiter/grpc-settings.ts',
    'limiter/log-lines.ts',
    'limiter/settings.ts',
    'limiter/stats',
  ],
  'limiter/opened-http.ts': [
    'process',
    'process/grpc',
    'process/http',
    'limiter/access-settings.ts',
    'limiter/decide',
    'limiter/http',
    'limiter/log-lines.ts',
    'limiter/opened-grpc-connections.ts',
    'limiter/settings.ts',
    'limiter/stats',
  ],
  'limiter/debug-token.ts': [
    'process',
    'limiter/access-settings.ts',
    'limiter/log-lines.ts',
    'limiter/settings.ts',
  ],
  'limiter/start-watch.ts': ['process'],
  'limiter/tracing-environment.ts': ['process'],
  'limiter/listener-error.ts': ['process'],
  'limiter/counter-settings.ts': ['process', 'rules', 'limiter/stores'],
  'limiter/settings.ts': [
    'process',
    'limiter/counter-settings.ts',
    'limiter/access-settings.ts',
    'limiter/dogstatsd-settings.ts',
    'limiter/stats',
    'limiter/tracing-environment.ts',
    'limiter/tracing-settings.ts',
    'limiter/grpc-settings.ts',
    'limiter/memcache-settings.ts',
    'limiter/prometheus-settings.ts',
    'limiter/redis-settings-warnings.ts',
    'limiter/redis-settings.ts',
    'limiter/request-settings.ts',
    'limiter/stats-settings.ts',
    'limiter/store-failure-settings.ts',
    'limiter/stores',
    'limiter/top-settings.ts',
    'limiter/worker-settings.ts',
    'limiter/xds-settings.ts',
  ],
  'limiter/request-settings.ts': ['process', 'limiter/decide'],
  'limiter/dogstatsd-settings.ts': ['process', 'limiter/stats'],
  'limiter/tracing-settings.ts': ['process'],
  'limiter/tracing': ['process', 'limiter/stores'],
  'limiter/opened-tracing.ts': [
    'process',
    'limiter/log-lines.ts',
    'limiter/settings.ts',
    'limiter/stats',
    'limiter/tracing',
  ],
  'limiter/grpc-settings.ts': ['process'],
  'limiter/xds-settings.ts': ['process'],
  'limiter/redis-settings.ts': ['process', 'limiter/redis-batch-settings.ts', 'limiter/stores'],
  'limiter/redis-batch-settings.ts': ['process'],
  'limiter/redis-settings-warnings.ts': ['limiter/redis-settings.ts'],
  'limiter/store-failure-settings.ts': ['process'],
  'limiter/memcache-settings.ts': ['process', 'limiter/stores'],
  'limiter/opened-memcache.ts': [
    'process',
    'limiter/log-lines.ts',
    'limiter/service',
    'limiter/settings.ts',
    'limiter/stats',
    'limiter/store-parts.ts',
    'limiter/stores',
  ],
  'limiter/calm-store.ts': [
    'process',
    'limiter/log-lines.ts',
    'limiter/settings.ts',
    'limiter/stats',
    'limiter/stores',
  ],
  'limiter/optional-parts.ts': [
    'limiter/grpc',
    'limiter/opened-memcache.ts',
    'limiter/opened-prometheus.ts',
    'limiter/opened-redis.ts',
    'limiter/opened-xds.ts',
    'limiter/settings.ts',
    'limiter/stats-settings.ts',
  ],
  'limiter/config-source-parts.ts': [
    'process',
    'limiter/config-source',
    'limiter/log-lines.ts',
    'limiter/settings.ts',
    'limiter/stats',
  ],
  'limiter/opened-config-source.ts': [
    'process',
    'limiter/config-source',
    'limiter/config-source-parts.ts',
    'limiter/log-lines.ts',
    'limiter/optional-parts.ts',
    'limiter/settings.ts',
  ],
  'limiter/opened-xds.ts': [
    'process',
    'limiter/config-source',
    'limiter/config-source-parts.ts',
    'limiter/log-lines.ts',
    'limiter/settings.ts',
    'limiter/stats',
    'limiter/xds-settings.ts',
  ],
  'limiter/log-lines.ts': [
    'process',
    'rules',
    'rules/review',
    'rules/table',
    'limiter/access-lines.ts',
    'limiter/connection-lines.ts',
    'limiter/export-lines.ts',
  ],
  'limiter/export-lines.ts': ['process'],
  'limiter/connection-lines.ts': ['process'],
  'limiter/opened-grpc-connections.ts': [
    'process',
    'limiter/log-lines.ts',
    'limiter/sockets',
    'limiter/stats',
  ],
  'limiter/loaded-rules-log.ts': ['process', 'rules/table', 'limiter/config-source', 'limiter/log-lines.ts'],
  'limiter/stats/rule-stats.ts': [],
  'limiter/decide': ['rules', 'process', 'limiter/stats/rule-stats.ts'],
  'limiter/stores': ['process'],
  'limiter/prometheus-settings.ts': ['process', 'process/http'],
  'limiter/stats/prometheus': ['process', 'process/http', 'rules/yaml', 'limiter/stats'],
  'limiter/stats': ['process', 'rules', 'limiter/stats/rule-stats.ts'],
  'limiter/service': [
    'rules',
    'process',
    'limiter/decide',
    'limiter/stores',
    'limiter/stats',
    'limiter/stats/rule-stats.ts',
    'process/grpc',
  ],
  'limiter/hpack': [],
  'limiter/http2': ['limiter/hpack'],
  'limiter/sockets': ['process', 'process/grpc', 'limiter/http2'],
  'limiter/grpc': ['process', 'gen', 'process/grpc', 'limiter/http2', 'limiter/sockets'],
  // Of `decide` the bounds of a request alone.
  'limiter/http': ['process', 'process/http', 'gen', 'process/grpc', 'limiter/decide'],
  'limiter/config-source': [
    'rules',
    'rules/documents',
    'rules/reader',
    'rules/review',
    'rules/table',
    'rules/xds',
    'rules/validation',
    'process',
    'process/files',
    'process/grpc',
    'gen',
  ],
  'limiter/store-parts.ts': [
    'process',
    'limiter/optional-parts.ts',
    'limiter/settings.ts',
    'limiter/stats',
    'limiter/stores',
    'limiter/tracing',
  ],
  'limiter/redis-lines.ts': ['process', 'limiter/log-lines.ts', 'limiter/stores'],
  'limiter/opened-redis.ts': [
    'process',
    'limiter/log-lines.ts',
    'limiter/redis-lines.ts',
    'limiter/redis-batch-settings.ts',
    'limiter/redis-settings.ts',
    'limiter/stats',
    'limiter/store-parts.ts',
    'limiter/stores',
  ],
  'limiter/opened-store.ts': [
    'process',
    'limiter/calm-store.ts',
    'limiter/log-lines.ts',
    'limiter/optional-parts.ts',
    'limiter/settings.ts',
    'limiter/stats',
    'limiter/store-parts.ts',
    'limiter/stores',
    'limiter/tracing',
  ],
  'limiter/replay': [
    'process',
    'rules',
    'rules/table',
    'limiter/decide',
    'limiter/decision-service.ts',
    'limiter/service',
    'limiter/settings.ts',
    'limiter/stats/rule-stats.ts',
    'limiter/stores',
  ],
  'limiter/decision-service.ts': [
    'process',
    'limiter/settings.ts',
    'limiter/decide',
    'limiter/service',
    'limiter/stats',
    'limiter/stores',
  ],
  'limiter/opened-connections.ts': [
    'process',
    'process/http',
    'limiter/connection-lines.ts',
    'limiter/log-lines.ts',
    'limiter/settings.ts',
    'limiter/stats',
  ],
  'limiter/rules-in-force.ts': [
    'process',
    'rules',
    'rules/review',
    'rules/table',
    'limiter/loaded-rules-log.ts',
    'limiter/log-lines.ts',
    'limiter/config-source',
    'limiter/stats',
  ],
  'limiter/worker-settings.ts': ['process'],
  'limiter/top-settings.ts': ['process'],
  'limiter/opened-top.ts': ['process', 'limiter/settings.ts', 'limiter/stats'],
  'limiter/workers': [
    'process',
    'rules/table',
    'limiter/callers',
    'limiter/http',
    'limiter/log-lines.ts',
    'limiter/opened-connections.ts',
    'limiter/optional-parts.ts',
    'limiter/serving.ts',
    'limiter/settings.ts',
    'limiter/stats',
    'limiter/stats-settings.ts',
    'limiter/stats/rule-stats.ts',
  ],
  'limiter/sink-parts.ts': ['process', 'process/http', 'limiter/settings.ts', 'limiter/stats'],
  'limiter/stats-settings.ts': ['process', 'limiter/prometheus-settings.ts'],
  'limiter/opened-sinks.ts': [
    'process',
    'limiter/listener-error.ts',
    'limiter/log-lines.ts',
    'limiter/optional-parts.ts',
    'limiter/settings.ts',
    'limiter/sink-parts.ts',
    'limiter/stats',
    'limiter/stats-settings.ts',
  ],
  'limiter/opened-prometheus.ts': [
    'process',
    'limiter/listener-error.ts',
    'limiter/log-lines.ts',
    'limiter/sink-parts.ts',
    'limiter/stats',
    'limiter/stats/prometheus',
  ],
  'limiter/opened-grpc.ts': [
    'process',
    'process/grpc',
    'limiter/grpc',
    'limiter/grpc-settings.ts',
    'limiter/log-lines.ts',
    'limiter/optional-parts.ts',
    'limiter/opened-grpc-connections.ts',
    'limiter/settings.ts',
    'limiter/sockets',
    'limiter/stats',
  ],
  'limiter/serving.ts': [
    'process',
    'rules/table',
    'limiter/decide',
    'limiter/callers',
    'limiter/decision-service.ts',
    'limiter/grpc',
    'limiter/http',
    'limiter/log-lines.ts',
    'limiter/opened-callers.ts',
    'limiter/opened-connections.ts',
    'limiter/opened-grpc.ts',
    'limiter/opened-http.ts',
    'limiter/opened-store.ts',
    'limiter/opened-tracing.ts',
    'limiter/opened-top.ts',
    'limiter/optional-parts.ts',
    'limiter/request-settings.ts',
    'limiter/service',
    'limiter/settings.ts',
    'limiter/stats',
    'limiter/stores',
  ],
  'limiter/main.ts': ['process', 'limiter/*'],
  cli: ['process', 'process/grpc', 'gen', 'rules', 'rules/*', 'limiter/*', 'control-plane/*'],
};
const parts = Object.keys(allowed).sort((a, b) => b.length - a.length);
const folders = ['gen', 'rules', 'process', 'limiter', 'control-plane', 'cli'];

interface Import {
  from: string;
  to: string;
  typeOnly: boolean;
}

function partOf(path: string): string {
  const part = parts.find((candidate) => path === candidate || path.startsWith(`${candidate}/`));
  if (part === undefined) throw new Error(`${path} belongs to no part`);
  return part;
}

function sourceFiles(): string[] {
  return folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.ts$/.test(name) && !/\.(test|suite)\.ts$/.test(name))
      .map((name) => join(folder, name)),
  );
}

function importsOf(path: string): Import[] {
  const text = readFileSync(join(root, path), 'utf8');
  const statements = text.matchAll(/^(?:import|export)\s+(type\s)?[^;]*?from\s+['"](\.[^'"]+)['"]/gms);
  const dynamic = text.matchAll(/(import)\(['"](\.[^'"]+)['"]\)/g);
  return [...statements, ...dynamic].map((match) => ({
    from: path,
    to: relative(root, join(root, dirname(path), match[2] as string)),
    typeOnly: match[1]?.startsWith('type') === true,
  }));
}

const imports = sourceFiles().flatMap(importsOf);

function mayImport(from: string, to: string): boolean {
  const [source, target] = [partOf(from), partOf(to)];
  if (source === target) return true;
  return (allowed[source] ?? []).some((entry) =>
    entry.endsWith('/*') ? target.startsWith(entry.slice(0, -1)) : entry === target,
  );
}

describe('the parts of the program', () => {
  it('are read at all', () => {
    expect(imports.length).toBeGreaterThan(50);
  });

  it('import only what lies below them', () => {
    const offences = imports
      .filter(({ from, to }) => !mayImport(from, to))
      .map(({ from, to }) => `${from} -> ${to}`);
    expect(offences).toEqual([]);
  });

  it('have no cycles among their files, types apart', () => {
    const next = new Map<string, string[]>();
    for (const { from, to, typeOnly } of imports) {
      if (!typeOnly) next.set(from, [...(next.get(from) ?? []), to]);
    }
    const done = new Set<string>();
    const visit = (path: string, trail: string[]): string | undefined => {
      if (trail.includes(path)) return [...trail.slice(trail.indexOf(path)), path].join(' -> ');
      if (done.has(path)) return undefined;
      for (const target of next.get(path) ?? []) {
        const cycle = visit(target, [...trail, path]);
        if (cycle !== undefined) return cycle;
      }
      done.add(path);
      return undefined;
    };
    expect(
      [...next.keys()].map((path) => visit(path, [])).find((cycle) => cycle !== undefined),
    ).toBeUndefined();
  });

  it('read the environment in the program’s entrances alone', () => {
    const readers = sourceFiles().filter((path) =>
      /process\.env/.test(readFileSync(join(root, path), 'utf8')),
    );
    expect(readers.filter((path) => !/^cli\//.test(path))).toEqual([]);
  });
});
