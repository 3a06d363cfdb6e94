import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));

/** The folders of the program, and those that the files of each may import. All of `gen` counts as one. */
const allowed: Record<string, string[]> = {
  cli: [
    'cli/ask',
    'cli/callers',
    'cli/check',
    'cli/completion',
    'cli/convert',
    'cli/diff',
    'cli/envoy',
    'cli/explain',
    'cli/init',
    'cli/operate',
    'cli/replay',
    'cli/schema',
    'cli/shared',
    'cli/test',
    'cli/webhook',
    'control-plane',
    'limiter',
    'process/files',
    'process/log',
  ],
  'cli/ask': [
    'cli/operate',
    'cli/shared',
    'gen',
    'limiter/service',
    'process/grpc',
    'process/log',
    'process/net',
    'rules',
  ],
  'cli/callers': ['cli/shared', 'limiter/callers'],
  'cli/check': [
    'cli/forms',
    'cli/mistakes',
    'cli/shared',
    'limiter/callers',
    'limiter/quota-service',
    'limiter/settings',
    'rules',
    'rules/language',
    'rules/proxy',
    'rules/reader',
    'rules/review',
    'rules/yaml',
  ],
  'cli/completion': ['cli/shared'],
  'cli/convert': ['cli/shared', 'rules', 'rules/language', 'rules/reader', 'rules/review', 'rules/yaml'],
  'cli/diff': [
    'cli/forms',
    'cli/mistakes',
    'cli/operate',
    'cli/replay',
    'cli/shared',
    'replay',
    'rules',
    'rules/algorithms',
    'rules/language',
    'rules/review',
    'rules/table',
  ],
  'cli/envoy': ['cli/shared', 'rules', 'rules/proxy'],
  'cli/explain': [
    'cli/operate',
    'cli/shared',
    'limiter/decide',
    'limiter/operate',
    'limiter/settings',
    'rules',
    'rules/algorithms',
    'rules/language',
    'rules/review',
    'rules/table',
  ],
  'cli/forms': ['cli/shared', 'process/files', 'rules'],
  'cli/init': ['cli/envoy', 'cli/shared', 'process/files', 'process/log', 'rules', 'rules/proxy'],
  'cli/mistakes': [
    'process/settings',
    'rules',
    'rules/algorithms',
    'rules/language',
    'rules/reader',
    'rules/yaml',
  ],
  'cli/operate': [
    'cli/shared',
    'control-plane/kubernetes',
    'control-plane/model',
    'limiter/top-offenders',
    'process/http',
    'process/log',
    'process/net',
    'process/settings',
    'rules',
    'rules/language',
    'rules/reader',
    'rules/review',
  ],
  'cli/replay': [
    'cli/shared',
    'limiter/settings',
    'process/files',
    'process/log',
    'replay',
    'rules',
    'rules/algorithms',
  ],
  'cli/schema': ['cli/shared', 'process/files'],
  'cli/shared': [
    'cli/mistakes',
    'control-plane/kubernetes',
    'gen',
    'limiter/callers',
    'limiter/config-source',
    'limiter/config-source/file',
    'limiter/settings',
    'process/files',
    'process/log',
    'process/settings',
    'rules',
    'rules/language',
    'rules/proxy',
    'rules/reader',
    'rules/yaml',
  ],
  'cli/test': [
    'cli/check',
    'cli/explain',
    'cli/forms',
    'cli/replay',
    'cli/shared',
    'limiter/assembly',
    'limiter/decide',
    'limiter/settings',
    'limiter/stats/registry',
    'process/files',
    'process/log',
    'process/time',
    'replay',
    'rules',
    'rules/reader',
    'rules/review',
    'rules/table',
    'rules/yaml',
  ],
  'cli/webhook': ['cli/shared', 'control-plane/webhooks', 'process/settings'],
  'control-plane': [
    'control-plane/fleets',
    'control-plane/http',
    'control-plane/kubernetes',
    'control-plane/model',
    'control-plane/reconcile',
    'control-plane/replicas',
    'control-plane/settings',
    'control-plane/source',
    'control-plane/telemetry',
    'control-plane/webhooks',
    'control-plane/xds',
    'process/files',
    'process/grpc',
    'process/http',
    'process/log',
    'process/net',
    'process/settings',
    'process/time',
    'rules/language',
  ],
  'control-plane/fleets': [
    'control-plane/kubernetes',
    'control-plane/model',
    'control-plane/reconcile',
    'control-plane/source',
    'control-plane/telemetry',
    'process/log',
    'process/time',
    'rules/language',
    'process/queues',
  ],
  'control-plane/http': [
    'control-plane/kubernetes',
    'control-plane/model',
    'control-plane/reconcile',
    'control-plane/telemetry',
    'control-plane/webhooks',
    'process/http',
    'process/log',
    'process/net',
    'process/queues',
    'process/time',
    'rules',
    'rules/language',
    'rules/reader',
    'rules/review',
  ],
  'control-plane/kubernetes': ['process/http', 'process/log', 'process/time', 'rules/yaml'],
  'control-plane/model': ['process/log', 'rules', 'rules/language', 'rules/reader'],
  'control-plane/reconcile': [
    'control-plane/model',
    'control-plane/replicas',
    'control-plane/telemetry',
    'process/time',
    'rules',
    'rules/algorithms',
    'rules/language',
    'rules/reader',
    'rules/review',
    'rules/table',
  ],
  'control-plane/replicas': [
    'control-plane/kubernetes',
    'control-plane/model',
    'control-plane/telemetry',
    'process/log',
    'process/time',
    'rules/language',
    'process/queues',
  ],
  'control-plane/settings': [
    'control-plane/model',
    'control-plane/source',
    'control-plane/webhooks',
    'control-plane/xds',
    'process/log',
    'process/net',
    'process/settings',
    'rules',
    'rules/language',
  ],
  'control-plane/source': [
    'control-plane/kubernetes',
    'control-plane/model',
    'control-plane/telemetry',
    'process/files',
    'process/log',
    'process/time',
    'rules',
    'rules/language',
    'rules/reader',
  ],
  'control-plane/telemetry': ['control-plane/model', 'process/log'],
  'control-plane/webhooks': [
    'control-plane/model',
    'control-plane/reconcile',
    'control-plane/telemetry',
    'process/files',
    'process/log',
    'process/time',
  ],
  'control-plane/xds': [
    'control-plane/model',
    'control-plane/telemetry',
    'gen',
    'process/files',
    'process/grpc',
    'process/log',
    'process/net',
    'process/time',
    'rules/language',
    'rules/reader',
    'process/queues',
  ],
  gen: [],
  limiter: [
    'limiter/assembly',
    'limiter/assembly/operators',
    'limiter/config-source',
    'limiter/http',
    'limiter/leases',
    'limiter/log',
    'limiter/operate',
    'limiter/operate/store-admin',
    'limiter/settings',
    'limiter/stats/registry',
    'limiter/stats/sinks',
    'limiter/stores/memcache',
    'limiter/workers',
    'process/files',
    'process/grpc',
    'process/http',
    'process/log',
    'process/net',
    'process/time',
  ],
  'limiter/algorithms': ['rules/algorithms'],
  'limiter/allocate': ['limiter/stores', 'process/time'],
  'limiter/assembly': [
    'limiter/capabilities',
    'limiter/config-source',
    'limiter/config-source/file',
    'limiter/config-source/xds',
    'limiter/decide',
    'limiter/grpc',
    'limiter/http',
    'limiter/leases',
    'limiter/log',
    'limiter/operate/store-admin',
    'limiter/reservations',
    'limiter/service',
    'limiter/settings',
    'limiter/sockets',
    'limiter/stats/prometheus',
    'limiter/stats/registry',
    'limiter/stats/sinks',
    'limiter/stores',
    'limiter/stores/failure',
    'limiter/stores/memcache',
    'limiter/stores/memory',
    'limiter/stores/redis',
    'limiter/stores/redis/cluster',
    'limiter/stores/reservations',
    'process/files',
    'process/grpc',
    'process/http',
    'process/log',
    'process/net',
    'process/time',
    'rules',
    'rules/language',
    'rules/table',
    'process/queues',
  ],
  'limiter/assembly/operators': [
    'limiter/assembly',
    'limiter/capabilities',
    'limiter/config-source',
    'limiter/leases',
    'limiter/log',
    'limiter/operate',
    'limiter/operate/store-admin',
    'limiter/settings',
    'limiter/stats/registry',
    'limiter/stores/memcache',
    'limiter/stores/memory',
    'process/files',
    'process/grpc',
    'process/http',
    'process/log',
    'process/net',
    'rules',
  ],
  'limiter/callers': [
    'limiter/capabilities',
    'limiter/stats/registry',
    'process/files',
    'process/grpc',
    'process/log',
    'process/net',
    'process/settings',
    'process/time',
    'rules',
    'rules/yaml',
  ],
  'limiter/forward-auth': [
    'limiter/capabilities',
    'limiter/decide',
    'limiter/http',
    'limiter/service',
    'limiter/stats/registry',
    'process/files',
    'process/grpc',
    'process/http',
    'process/log',
    'process/settings',
    'rules/proxy',
  ],
  'limiter/capabilities': [
    'limiter/grpc',
    'limiter/http',
    'limiter/service',
    'limiter/stats/prometheus',
    'limiter/stats/registry',
    'limiter/stores',
    'process/grpc',
    'process/http',
    'process/log',
    'process/settings',
    'process/time',
    'rules',
    'rules/table',
    'limiter/decide',
    'limiter/operate',
    'limiter/operate/store-admin',
    'process/queues',
  ],
  'limiter/config-source': [
    'limiter/log',
    'limiter/stats/registry',
    'process/grpc',
    'process/log',
    'process/time',
    'rules',
    'rules/review',
    'rules/table',
  ],
  'limiter/config-source/file': [
    'limiter/config-source',
    'process/files',
    'process/log',
    'process/time',
    'rules',
    'rules/reader',
    'rules/table',
  ],
  'limiter/config-source/xds': [
    'gen',
    'limiter/config-source',
    'process/grpc',
    'process/log',
    'process/net',
    'process/time',
    'rules',
    'rules/reader',
    'rules/table',
  ],
  'limiter/decide': [
    'limiter/algorithms',
    'limiter/stats/registry',
    'limiter/stores',
    'rules',
    'rules/algorithms',
    'rules/table',
  ],
  'limiter/grpc': ['limiter/http2', 'limiter/sockets', 'process/grpc', 'process/net', 'process/time'],
  'limiter/hpack': [],
  'limiter/http': [
    'gen',
    'limiter/decide',
    'limiter/service',
    'process/grpc',
    'process/http',
    'process/net',
    'process/time',
    'rules',
  ],
  'limiter/http2': ['limiter/hpack'],
  'limiter/kuadrant': [
    'limiter/capabilities',
    'limiter/decide',
    'limiter/grpc',
    'limiter/service',
    'process/grpc',
    'limiter/reservations',
  ],
  'limiter/leases': [
    'limiter/capabilities',
    'limiter/stats/registry',
    'limiter/stores',
    'process/settings',
    'process/time',
    'rules',
  ],
  'limiter/log': ['limiter/stores/redis/wire', 'process/http', 'process/log', 'process/time', 'rules'],
  'limiter/operate': [
    'limiter/decide',
    'limiter/stats/registry',
    'limiter/stores',
    'limiter/operate/store-admin',
    'process/http',
    'process/log',
    'process/time',
    'rules',
    'rules/algorithms',
    'rules/review',
    'rules/table',
  ],
  'limiter/operate/store-admin': [
    'limiter/algorithms',
    'limiter/stores',
    'limiter/stores/redis',
    'limiter/stores/redis/cluster',
    'limiter/stores/redis/wire',
    'process/time',
  ],
  'limiter/overrides': [
    'limiter/capabilities',
    'limiter/config-source/file',
    'limiter/decide',
    'limiter/operate',
    'limiter/operate/store-admin',
    'limiter/stats/registry',
    'limiter/stores',
    'process/http',
    'process/log',
    'process/settings',
    'process/time',
    'rules',
    'rules/reader',
    'rules/review',
  ],
  'limiter/pprof': ['limiter/capabilities', 'limiter/http', 'process/http', 'process/time'],
  'limiter/quota-service': [
    'limiter/allocate',
    'limiter/callers',
    'limiter/capabilities',
    'limiter/decide',
    'limiter/grpc',
    'limiter/service',
    'limiter/stats/registry',
    'limiter/stores',
    'process/grpc',
    'process/http',
    'process/log',
    'process/net',
    'process/settings',
    'process/time',
    'rules',
    'rules/algorithms',
    'process/queues',
  ],
  'limiter/reflection': ['gen', 'limiter/capabilities', 'limiter/grpc', 'process/grpc', 'process/settings'],
  'limiter/over-limit': [
    'limiter/capabilities',
    'limiter/stats/registry',
    'process/http',
    'process/settings',
    'rules',
    'rules/algorithms',
  ],
  'limiter/reservations': [
    'limiter/capabilities',
    'limiter/decide',
    'limiter/http',
    'limiter/service',
    'limiter/stores',
    'process/grpc',
    'process/http',
    'process/settings',
    'rules',
  ],
  'limiter/service': [
    'limiter/decide',
    'limiter/stats/registry',
    'limiter/stores',
    'process/grpc',
    'process/time',
    'rules',
  ],
  'limiter/settings': [
    'limiter/callers',
    'limiter/capabilities',
    'limiter/decide',
    'limiter/forward-auth',
    'limiter/kuadrant',
    'limiter/leases',
    'limiter/pprof',
    'limiter/quota-service',
    'limiter/reflection',
    'limiter/over-limit',
    'limiter/stats/registry',
    'limiter/stats/sinks',
    'limiter/statsd-mapper',
    'limiter/stores',
    'limiter/stores/memcache',
    'limiter/stores/redis/wire',
    'limiter/top-offenders',
    'limiter/tracing',
    'process/http',
    'process/log',
    'process/net',
    'process/settings',
    'rules',
    'process/regex',
    'limiter/overrides',
    'limiter/reservations',
  ],
  'limiter/sockets': ['limiter/http2', 'process/net', 'process/time', 'process/queues'],
  'limiter/stats/prometheus': ['limiter/stats/registry', 'process/http', 'process/net', 'process/time'],
  'limiter/stats/registry': ['process/grpc', 'process/time', 'rules', 'process/regex', 'process/queues'],
  'limiter/stats/sinks': ['limiter/stats/registry', 'process/time'],
  'limiter/statsd-mapper': [
    'limiter/capabilities',
    'limiter/stats/prometheus',
    'limiter/stats/registry',
    'process/log',
    'process/settings',
    'process/regex',
    'rules/yaml',
  ],
  'limiter/stores': ['limiter/algorithms', 'process/grpc', 'process/log', 'process/net', 'process/time'],
  'limiter/stores/failure': ['limiter/stores', 'limiter/stores/memory', 'process/time'],
  'limiter/stores/memcache': ['limiter/stores', 'process/time'],
  'limiter/stores/memory': [
    'limiter/algorithms',
    'limiter/allocate',
    'limiter/stores',
    'process/time',
    'process/queues',
  ],
  'limiter/stores/redis': [
    'limiter/algorithms',
    'limiter/allocate',
    'limiter/stores',
    'limiter/stores/redis/lua',
    'limiter/stores/redis/wire',
    'process/time',
    'process/queues',
  ],
  'limiter/stores/redis/cluster': [
    'limiter/stores',
    'limiter/stores/redis',
    'limiter/stores/redis/lua',
    'limiter/stores/redis/wire',
    'process/time',
  ],
  'limiter/stores/redis/lua': [
    'limiter/algorithms',
    'limiter/allocate',
    'limiter/stores',
    'limiter/stores/redis/wire',
  ],
  'limiter/stores/redis/wire': ['limiter/stores', 'process/time', 'process/queues'],
  'limiter/stores/reservations': ['limiter/stores'],
  'limiter/top-offenders': [
    'limiter/capabilities',
    'limiter/service',
    'limiter/stats/registry',
    'process/http',
    'process/settings',
    'rules',
    'process/queues',
  ],
  'limiter/tracing': [
    'limiter/capabilities',
    'limiter/stores',
    'process/files',
    'process/grpc',
    'process/log',
    'process/settings',
    'process/time',
  ],
  'limiter/workers': [
    'limiter/assembly',
    'limiter/capabilities',
    'limiter/leases',
    'limiter/log',
    'limiter/settings',
    'limiter/stats/registry',
    'process/grpc',
    'process/log',
    'process/net',
    'process/time',
    'rules/table',
  ],
  'packages/limiter': [
    'limiter/assembly',
    'limiter/assembly/operators',
    'limiter/config-source/file',
    'limiter/decide',
    'limiter/operate',
    'limiter/operate/store-admin',
    'limiter/service',
    'limiter/settings',
    'limiter/stats/registry',
    'limiter/stores',
    'limiter/stores/redis',
    'limiter/stores/redis/wire',
    'process/grpc',
    'process/log',
    'process/time',
    'rules',
    'rules/proxy',
    'rules/reader',
    'rules/review',
    'rules/table',
    'limiter/reservations',
    'process/queues',
  ],
  'process/files': ['process/log', 'process/time'],
  'process/grpc': ['gen', 'process/net', 'process/time'],
  'process/http': ['process/files', 'process/net', 'process/time', 'process/queues'],
  'process/log': ['process/time'],
  'process/net': ['process/files', 'process/log', 'process/time', 'process/queues'],
  'process/queues': ['process/time'],
  'process/settings': ['process/net'],
  'process/time': [],
  replay: [
    'limiter/assembly',
    'limiter/decide',
    'limiter/reservations',
    'limiter/service',
    'limiter/settings',
    'limiter/stats/registry',
    'limiter/stores/memory',
    'rules',
    'rules/algorithms',
    'rules/table',
  ],
  rules: ['rules/algorithms', 'rules/language'],
  'rules/algorithms': [],
  'rules/language': ['rules/algorithms'],
  'rules/proxy': ['rules', 'rules/reader', 'process/regex', 'rules/review', 'rules/yaml'],
  'rules/reader': ['gen', 'rules', 'rules/algorithms', 'rules/language', 'rules/yaml'],
  'process/regex': [],
  'rules/review': ['rules', 'rules/algorithms'],
  'rules/table': ['rules', 'rules/algorithms', 'rules/language'],
  'rules/yaml': [],
};
const roots = ['gen', 'rules', 'process', 'limiter', 'replay', 'control-plane', 'cli', 'packages/limiter'];

interface Import {
  from: string;
  to: string;
  typeOnly: boolean;
}

function folderOf(path: string): string {
  const folder = path.startsWith('gen/') ? 'gen' : dirname(path);
  if (allowed[folder] === undefined) throw new Error(`${path}: its folder has no row`);
  return folder;
}

function sourceFiles(): string[] {
  return roots.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.ts$/.test(name) && !/\.(test|suite|d)\.ts$/.test(name))
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

function exportedTypes(text: string): string[] {
  const declared = text.matchAll(/^export (?:abstract )?(?:class|interface|type) (\w+)/gm);
  return [...declared].map(([, name]) => name!);
}

const imports = sourceFiles().flatMap(importsOf);

function mayImport(from: string, to: string): boolean {
  const [source, target] = [folderOf(from), folderOf(to)];
  return source === target || allowed[source]?.includes(target) === true;
}

/** The first circle that is found on the way along the arrows. */
function circleIn(next: ReadonlyMap<string, readonly string[]>): string | undefined {
  const done = new Set<string>();
  const visit = (at: string, trail: string[]): string | undefined => {
    if (trail.includes(at)) return [...trail.slice(trail.indexOf(at)), at].join(' -> ');
    if (done.has(at)) return undefined;
    for (const target of next.get(at) ?? []) {
      const circle = visit(target, [...trail, at]);
      if (circle !== undefined) return circle;
    }
    done.add(at);
    return undefined;
  };
  return [...next.keys()].map((at) => visit(at, [])).find((circle) => circle !== undefined);
}

describe('the folders of the program', () => {
  it('are read at all', () => {
    expect(imports.length).toBeGreaterThan(50);
  });

  it('import only what lies below them', () => {
    const offences = imports
      .filter(({ from, to }) => !mayImport(from, to))
      .map(({ from, to }) => `${from} -> ${to}`);
    expect(offences).toEqual([]);
  });

  it('keep what proxies send apart from the rules', () => {
    const importers = Object.keys(allowed).filter((folder) => allowed[folder]!.includes('rules/proxy'));
    expect(importers.filter((folder) => folder.startsWith('rules'))).toEqual([]);
  });

  it('name no folder that is not needed', () => {
    const needed = new Set(imports.map(({ from, to }) => `${folderOf(from)} -> ${folderOf(to)}`));
    const rows = Object.entries(allowed).flatMap(([from, tos]) => tos.map((to) => `${from} -> ${to}`));
    expect(rows.filter((row) => !needed.has(row))).toEqual([]);
  });

  it('have no circle among their folders', () => {
    expect(circleIn(new Map(Object.entries(allowed)))).toBeUndefined();
  });

  it('have no circle among their files, in rules/ not even by types', () => {
    const next = new Map<string, string[]>();
    for (const { from, to, typeOnly } of imports) {
      if (!typeOnly || from.startsWith('rules/')) next.set(from, [...(next.get(from) ?? []), to]);
    }
    expect(circleIn(next)).toBeUndefined();
  });

  it('read rules without casts', () => {
    const readers = sourceFiles().filter((path) => path.startsWith('rules/reader/'));
    expect(readers.length).toBeGreaterThan(0);
    const casts = readers.flatMap((path) => {
      const lines = readFileSync(join(root, path), 'utf8').split('\n');
      const code = lines
        .filter((line) => !/^\s*(?:\/\/|\/?\*|import )/.test(line))
        .map((line) => line.replaceAll(/'[^']*'|`[^`]*`/g, "''"));
      return code.filter((line) => /[\w)\]}'] as (?!const\b)/.test(line)).map((line) => `${path}: ${line}`);
    });
    expect(casts).toEqual([]);
  });

  it('are tested against models that take nothing from their formulas', () => {
    const models = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
      .filter((name) => /-model\.ts$/.test(name))
      .flatMap((name) => importsOf(join('test', name)));
    expect(models.filter(({ to }) => /(?:^|\/)algorithms\//.test(to))).toEqual([]);
    expect(models.length).toBeGreaterThan(0);
  });

  it('read the environment in the program’s entrances alone', () => {
    const readers = sourceFiles().filter((path) =>
      /process\.env/.test(readFileSync(join(root, path), 'utf8')),
    );
    expect(readers.filter((path) => !/^cli\//.test(path))).toEqual([]);
  });
  it('explain themselves without documents from elsewhere', () => {
    const vague = /Likewise\.|[Rr]eference sections? \d|\breference\.md\b|\/\*\* (?:Ours[:.,]|We chose)/;
    const found = sourceFiles().filter((path) => vague.test(readFileSync(join(root, path), 'utf8')));
    expect(found).toEqual([]);
  });

  // packages/ has the public names of the library, and gen/ the names of the protos.
  it('export no two types of one name', () => {
    const own = sourceFiles().filter((path) => !/^(?:gen|packages)\//.test(path));
    const places = Map.groupBy(
      own.flatMap((path) =>
        exportedTypes(readFileSync(join(root, path), 'utf8')).map((name) => ({ name, path })),
      ),
      ({ name }) => name,
    );
    expect(places.size).toBeGreaterThan(1_000);
    const several = [...places].filter(([, found]) => found.length > 1);
    expect(several.map(([name, found]) => `${name}: ${found.map(({ path }) => path).join(', ')}`)).toEqual(
      [],
    );
  });
});

describe('tests whose time is not measured alone', () => {
  /** What a busy machine fails: an upper bound, in a number of its own, on time that was read from the wall clock. */
  function wallTimeBounds(text: string): string[] {
    const read = String.raw`(?:performance|Date)\.now\(\)`;
    const durations = text.matchAll(new RegExp(String.raw`\b(\w+)\s*[:=]\s*[^;{}\n]*${read}\s*-`, 'g'));
    const measured = [read, ...Array.from(durations, ([, name]) => String.raw`\b${name}\b`)].join('|');
    const upper = String.raw`expect\((?!Math\.abs\()[^;]*?(?:${measured})[^;]*?\)\s*\.toBeLessThan(?:OrEqual)?\([^;]*;`;
    const ternary = String.raw`${read} - \w+ <=? [\d_]+ \?`;
    return text.match(new RegExp(`${upper}|${ternary}`, 'g')) ?? [];
  }

  it.each([
    ['a duration', 'expect(performance.now() - startMs).toBeLessThan(500);'],
    [
      'a duration with a name',
      'const tookMs = performance.now() - startMs;\nexpect(tookMs).toBeLessThan(500);',
    ],
    [
      'a duration in an object',
      'all.push({ tookMs: Date.now() - startMs });\nexpect(tookMs)\n  .toBeLessThanOrEqual(5);',
    ],
    ['a choice', "return performance.now() - startMs < 1_800 ? 'soon' : 'late';"],
  ])('are recognized by an upper bound on %s', (_, text) => {
    expect(wallTimeBounds(text)).toHaveLength(1);
  });

  it.each([
    ['a lower bound', 'expect(performance.now() - startMs).toBeGreaterThan(500);'],
    ['a date', 'expect(Math.abs(Date.parse(endsAt) - Date.now())).toBeLessThan(60_000);'],
    ['a virtual clock', 'expect(time.nowMs - brokenMs).toBeLessThan(12_000);'],
  ])('may have %s', (_, text) => {
    expect(wallTimeBounds(text)).toEqual([]);
  });

  it('have no upper bound on wall time: LoadedDeadline has, or a *.timing.test.ts', () => {
    // It is about the relation of two clocks.
    const excused = ['process/time/attended-time.test.ts'];
    const files = [...roots, 'bench', 'console', 'packages', 'scripts', 'test'].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
        .filter(
          (name) => /\.(?:test|suite)\.ts$/.test(name) && !/node_modules|\.(?:timing|nightly)\./.test(name),
        )
        .map((name) => join(folder, name)),
    );
    const found = files
      .filter((path) => !excused.includes(path) && path !== 'test/architecture.test.ts')
      .flatMap((path) =>
        wallTimeBounds(readFileSync(join(root, path), 'utf8')).map((bound) => `${path}: ${bound}`),
      );
    expect(found).toEqual([]);
  });
});
