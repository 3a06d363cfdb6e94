/**
 * A client whose limit is exhausted sends requests of every form through each proxy, by its published configuration. None of them
 * reaches the service.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { examplesFolder } from '../support/example-cases.ts';
import { freePort } from '../support/free-port.ts';
import { httpAsk } from '../support/http-ask.ts';
import { type InProcessLimiter, startLimiterHere } from '../support/in-process-limiter.ts';
import { hostileRequests } from './hostile-requests.ts';
import { sendAll } from './hostile-sender.ts';
import { profilesOfAll, publishedProxies } from './published-proxies.ts';
import { WatchedService } from './watched-service.ts';

const requestsOfEach = Number(process.env['HOSTILE_REQUESTS'] ?? 150);
const seed = Number(process.env['HOSTILE_SEED'] ?? Math.trunc(Math.random() * 2 ** 31));
/**
 * Answers of a limit, and of proxies by themselves: Caddy answers `OPTIONS *` with 200, and Envoy rejects what looks like gRPC with a
 * `grpc-status`.
 */
const refusals = /^(none|200|400|403|404|405|408|411|413|414|417|421|422|426|429|431|500|501|505)$/;

let folder: string;
let limiter: InProcessLimiter;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'weir-hostile-'));
  const rules = readFileSync(join(examplesFolder, 'rules/shop.yaml'), 'utf8');
  // The window must not end while requests are sent.
  writeFileSync(join(folder, 'shop.yaml'), rules.replace('unit: minute', 'unit: year'));
  writeFileSync(join(folder, 'profiles'), JSON.stringify({ profiles: profilesOfAll() }));
  limiter = await startLimiterHere({
    env: {
      ...{ BACKEND_TYPE: 'memory', RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: '.' },
      PROFILES_FILE: join(folder, 'profiles'),
    },
  });
});
afterAll(async () => {
  await limiter?.stop();
  rmSync(folder, { recursive: true, force: true });
});

for (const [index, { name, program, speaksHttp2, start }] of publishedProxies.entries()) {
  describeWithServer(`a hostile client of ${name}`, program, (path) => {
    it(`is limited whatever the form of its requests, seed ${seed}`, async () => {
      const service = new WatchedService();
      const ports = {
        ...{ proxy: await freePort(), service: await service.listen() },
        ...{ limiterGrpc: limiter.ports.grpc, limiterHttp: limiter.ports.http },
      };
      const proxy = await start(path, ports);
      try {
        const from = `127.0.0.${10 + index}`;
        const statuses: number[] = [];
        while (statuses.length < 20 && statuses.at(-1) !== 429)
          statuses.push((await httpAsk(ports.proxy, '/', { from })).status);
        expect(statuses).toEqual([200, 200, 200, 200, 200, 429]);
        expect(service.came).toHaveLength(5);
        const requests = hostileRequests(seed, speaksHttp2);
        const came = await sendAll(requests, requestsOfEach, { port: ports.proxy, from });
        await sleep(100);
        expect(service.came.slice(5)).toEqual([]);
        expect([...came.keys()].filter((status) => !refusals.test(status))).toEqual([]);
        expect(came.get('429')).toBeGreaterThan(requestsOfEach / 10);
        if (process.env['HOSTILE_REQUESTS']) console.log(name, came);
      } finally {
        await proxy.stop();
        await service.close();
      }
    }, 60_000);
  });
}

it('the same seed makes the same requests', () => {
  const made = (from: number): unknown[] => {
    const requests = hostileRequests(from, true);
    return Array.from({ length: 200 }, () => requests.next().value);
  };
  expect(made(seed)).toEqual(made(seed));
  expect(made(seed)).not.toEqual(made(seed + 1));
});
