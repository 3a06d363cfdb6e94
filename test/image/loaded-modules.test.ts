import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startLimiter } from '../support/limiter-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** Writes the URL of each module that is loaded, in threads as well. */
const hook = `
import { registerHooks } from 'node:module';
import { appendFileSync } from 'node:fs';
registerHooks({ load(url, context, next) {
  appendFileSync(process.env.LOADED_MODULES, url + '\\n');
  return next(url, context);
} });
`;

/** The packages that a limiter has loaded when it listens. */
async function packagesOf(env: Record<string, string>): Promise<Set<string>> {
  const folder = temporaryFolder();
  const list = join(folder, 'modules.txt');
  const hookFile = join(folder, 'hook.mjs');
  writeFileSync(hookFile, hook);
  writeFileSync(list, '');
  const limiter = await startLimiter({
    nodeArguments: ['--import', hookFile],
    env: {
      LOADED_MODULES: list,
      RUNTIME_ROOT: join(import.meta.dirname, '../../examples'),
      RUNTIME_APPDIRECTORY: 'rules',
      ...env,
    },
  });
  await limiter.stop();
  const urls = readFileSync(list, 'utf8').split('\n');
  const names = urls.map((url) => /\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1]);
  return new Set(names.filter((name) => name !== undefined));
}

const heavy = ['@kubernetes/client-node', '@grpc/grpc-js', '@opentelemetry/api', 'prom-client'];

describe('a limiter', () => {
  it('that counts in memory, by rules from files, loads none of the heavy libraries', async () => {
    const packages = await packagesOf({ BACKEND_TYPE: 'memory', DISABLE_STATS: 'true' });
    expect(heavy.filter((name) => packages.has(name))).toEqual([]);
    expect([...packages].filter((name) => /^@(opentelemetry|kubernetes|grpc)\//.test(name))).toEqual([]);
    expect(packages).toContain('pino');
  });

  it('loads those that its settings name', async () => {
    const packages = await packagesOf({
      BACKEND_TYPE: 'memory',
      USE_PROMETHEUS: 'true',
      PROMETHEUS_ADDR: '127.0.0.1:0',
    });
    expect(packages).toContain('prom-client');
    expect(packages).not.toContain('@grpc/grpc-js');
  });
});
