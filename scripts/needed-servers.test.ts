import { globSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { neededServers } from './needed-servers.ts';

const root = join(import.meta.dirname, '..');

/** Returns the needed servers, sorted. */
function needsOf(...files: string[]): string[] {
  const { commands, definitions } = neededServers(files.map((file) => join(root, file)));
  return [...commands, ...(definitions ? ['definitions'] : [])].sort();
}

describe('neededServers', () => {
  it.each([
    ['test/stores/redis-pool.test.ts', ['redis-server']],
    ['test/conformance/h2spec.test.ts', ['h2spec', 'openssl']],
    ['test/control-plane/watch.test.ts', ['etcd', 'kube-apiserver', 'kubectl']],
    ['test/documents.test.ts', []],
    [
      'test/chart/api-server.test.ts',
      ['definitions', 'etcd', 'go', 'helm', 'helm-commands', 'kube-apiserver', 'kubectl'],
    ],
  ])('finds what %s talks to', (file, commands) => {
    expect(needsOf(file)).toEqual(commands);
  });

  it('gathers the needs of several files', () => {
    const files = ['test/stores/redis-pool.test.ts', 'test/stores/memcache-full.test.ts'];
    expect(needsOf(...files)).toEqual(['memcached', 'redis-server']);
  });

  it('finds none beside the sources', () => {
    // Without `walks`, the script only counts files, and needs no servers.
    const exceptions = new Set(['scripts/measure-house.test.ts']);
    const folders = '{bench,cli,control-plane,limiter,process,replay,rules,scripts}';
    const files = globSync(`${folders}/**/*.test.ts`, { cwd: root });
    expect(files.length).toBeGreaterThan(100);
    const units = files.filter((file) => !file.endsWith('.timing.test.ts') && !exceptions.has(file));
    expect(units.filter((file) => needsOf(file).length > 0)).toEqual([]);
  });
});
