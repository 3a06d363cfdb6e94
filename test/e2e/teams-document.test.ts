/** What docs/teams.md shows of Envoy and of rules works together, and Envoy takes the snippet of docs/rules-matching.md. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { parseDomainOwners } from '../../control-plane/model/domain-owners.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { readDocument } from '../support/documents.ts';
import { type EnvoyProcess, startEnvoy } from '../support/envoy.ts';
import { envoyAt } from '../support/example-envoy.ts';
import { fencedBlocks } from '../support/fenced-blocks.ts';
import { envoyProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

interface Manifest {
  metadata: { namespace: string };
  spec: {
    domain: string;
    descriptors: { key: string; rateLimit: { unit: string; requestsPerUnit: number } }[];
  };
}

const blocks = fencedBlocks(readDocument('docs/teams.md'));
const [gateway = '', manifestsText = ''] = blocks
  .filter(({ language }) => language === 'yaml')
  .map(({ text }) => text);
const manifests = parseAllDocuments(manifestsText).map((document) => document.toJS() as Manifest);

/** The same rules as files. */
function writeRules(folder: string): void {
  for (const { spec } of manifests) {
    const descriptors = spec.descriptors.map(({ key, rateLimit: { unit, requestsPerUnit } }) => ({
      key,
      rate_limit: { unit, requests_per_unit: requestsPerUnit },
    }));
    writeFileSync(join(folder, `${spec.domain}.yaml`), stringify({ domain: spec.domain, descriptors }));
  }
}

describe('docs/teams.md', () => {
  it('binds domains to the namespaces of its objects', () => {
    const owners = blocks.find(({ language }) => language === '')?.text.trim() ?? '';
    const parsed = parseDomainOwners(owners, 'open');
    if (!parsed.ok) throw new Error(parsed.errors.join());
    const owned = manifests.map(({ spec }) => parsed.owners.ownersOf(spec.domain));
    expect(owned).toEqual(manifests.map(({ metadata }) => [metadata.namespace]));
    expect(owned).toHaveLength(3);
  });

  describeWithServer('with Envoy', envoyProgram, (envoyPath) => {
    let limiter: InProcessLimiter;
    let service: Server;
    let envoy: EnvoyProcess;
    let port: number;
    const folder = mkdtempSync(join(tmpdir(), 'weir-teams-'));

    beforeAll(async () => {
      service = createServer((_request, response) => response.end('passed'));
      await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve));
      writeRules(folder);
      limiter = await InProcessLimiter.start({
        clock: new ManualClock(Date.UTC(2026, 2, 4)),
        env: { RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: '.', RUNTIME_WATCH_ROOT: 'false' },
      });
      port = await freePort();
      const ports = {
        listener: port,
        limiter: limiter.ports.grpc,
        service: (service.address() as AddressInfo).port,
      };
      envoy = await startEnvoy(envoyPath, envoyAt(gateway, ports));
    });

    afterAll(async () => {
      await envoy?.stop();
      await limiter?.stop();
      service?.closeAllConnections();
      service?.close();
      rmSync(folder, { recursive: true, force: true });
    });

    it("counts each team's users apart, and every address for the platform", async () => {
      const ask = async (path: string, user: string): Promise<number> =>
        (await fetch(`http://127.0.0.1:${port}${path}`, { headers: { 'x-user': user } })).status;
      expect([await ask('/shop', 'ann'), await ask('/shop', 'ann')]).toEqual([200, 200]);
      expect(await ask('/shop', 'ann')).toBe(429);
      // Two were let through and one was rejected by the team's filter: the platform has counted three.
      expect([await ask('/mail', 'ann'), await ask('/mail', 'ann'), await ask('/', 'ann')]).toEqual([
        200, 200, 200,
      ]);
      expect([await ask('/', 'bob'), await ask('/shop', 'bob')]).toEqual([429, 429]);
    });

    it('takes the two descriptors of docs/rules-matching.md', () => {
      const snippet = fencedBlocks(readDocument('docs/rules-matching.md')).find(
        ({ language, text }) => language === 'yaml' && text.startsWith('rate_limits:'),
      );
      if (snippet === undefined) throw new Error('the page has no rate_limits');
      const text = stringify({
        ...(parse(gateway) as object),
        route_config: {
          virtual_hosts: [
            {
              name: 'all',
              domains: ['*'],
              routes: [
                {
                  match: { prefix: '/' },
                  route: { cluster: 'service', ...(parse(snippet.text) as object) },
                },
              ],
            },
          ],
        },
      });
      const file = join(temporaryFolder(), 'envoy.json');
      writeFileSync(file, JSON.stringify(envoyAt(text, { listener: 1, limiter: 2, service: 3 })));
      const output = execFileSync(envoyPath, ['--mode', 'validate', '-c', file, '--log-level', 'error']);
      expect(String(output)).toMatch(/OK$/m);
    });
  });
});
