/** The Envoy snippets of examples/ are valid in a whole configuration, and make Envoy send what the rules wait for. */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { describeWithServer } from '../support/describe-with-server.ts';
import { type EnvoyProcess, startEnvoy } from '../support/envoy.ts';
import { eventually } from '../support/eventually.ts';
import { exampleCases, examplesFolder } from '../support/example-cases.ts';
import { exampleEnvoy, exampleEnvoyAt } from '../support/example-envoy.ts';
import { envoyProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** The cases that Envoy is started with below. */
const started = [
  'concurrency',
  'login-throttling',
  'per-client-address',
  'per-path-and-method',
  'per-tenant',
  'shadow-rollout',
];

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

describeWithServer('Envoy with the snippets of examples/', envoyProgram, (envoyPath) => {
  // To start is to take it, too.
  it.each(exampleCases.filter((name) => !started.includes(name)))('takes examples/%s/envoy.yaml', (name) => {
    const file = join(temporaryFolder(), 'envoy.json');
    writeFileSync(file, JSON.stringify(exampleEnvoy(name)));
    const output = execFileSync(envoyPath, ['--mode', 'validate', '-c', file, '--log-level', 'error']);
    expect(String(output)).toMatch(/OK$/m);
  });

  describe('asks the limiter', () => {
    let limiter: InProcessLimiter;
    let service: Server;
    let handler: Handler;
    let envoy: EnvoyProcess;
    let port: number;

    /** Starts limiter and Envoy of one case. */
    const start = async (name: string): Promise<void> => {
      expect(started).toContain(name);
      limiter = await InProcessLimiter.start({
        clock: new ManualClock(Date.UTC(2026, 2, 4)),
        env: {
          RUNTIME_ROOT: join(examplesFolder, name),
          RUNTIME_APPDIRECTORY: 'rules',
          RUNTIME_WATCH_ROOT: 'false',
        },
      });
      port = await freePort();
      const ports = {
        listener: port,
        limiter: limiter.ports.grpc,
        service: (service.address() as AddressInfo).port,
      };
      envoy = await startEnvoy(envoyPath, exampleEnvoyAt(name, ports));
    };
    const ask = async (path: string, init: RequestInit = {}): Promise<number> => {
      const response = await fetch(`http://127.0.0.1:${port}${path}`, init);
      await response.text();
      return response.status;
    };
    const askTimes = async (times: number, path: string, init: RequestInit = {}): Promise<number[]> => {
      const statuses: number[] = [];
      for (let i = 0; i < times; i++) statuses.push(await ask(path, init));
      return statuses;
    };
    const stat = async (name: string): Promise<number> =>
      (await limiter.stats()).get(`ratelimit.service.rate_limit.${name}`) ?? 0;

    beforeEach(async () => {
      handler = (_request, response) => response.end('passed');
      service = createServer((request, response) => handler(request, response));
      await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve));
    });

    afterEach(async () => {
      await envoy?.stop();
      await limiter?.stop();
      service.closeAllConnections();
      service.close();
    });

    it('for each client address', async () => {
      await start('per-client-address');
      expect(await askTimes(6, '/')).toEqual([200, 200, 200, 200, 200, 429]);
    });

    it('for each path and method', async () => {
      await start('per-path-and-method');
      expect(await askTimes(3, '/orders', { method: 'POST' })).toEqual([200, 200, 429]);
      expect(await askTimes(1, '//orders/7?a=b', { method: 'POST' })).toEqual([429]);
      expect(await askTimes(1, '/%6frders', { method: 'POST' })).toEqual([429]);
      expect(await askTimes(2, '/orders/7', { method: 'DELETE' })).toEqual([200, 429]);
      expect(await askTimes(1, '/orders/7')).toEqual([200]);
      expect(await askTimes(3, '/about', { method: 'POST' })).toEqual([200, 200, 200]);
    });

    it('for each tenant', async () => {
      await start('per-tenant');
      const statuses = await askTimes(11, '/', { headers: { 'x-tenant': 'umbrella' } });
      expect(statuses.filter((status) => status === 200)).toHaveLength(10);
      expect(statuses.at(-1)).toBe(429);
      expect(await askTimes(1, '/', { headers: { 'x-tenant': 'initech' } })).toEqual([429]);
      expect(await askTimes(12, '/', { headers: { 'x-tenant': 'acme' } })).toEqual(Array(12).fill(200));
    });

    it('for each account and address that logs in, and for nothing else', async () => {
      await start('login-throttling');
      const login = (user: string, path = '/login'): Promise<number> =>
        ask(path, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ user, password: 'guessed' }),
        });
      const statuses: number[] = [];
      for (let i = 0; i < 6; i++) statuses.push(await login('alice'));
      expect(statuses).toEqual([200, 200, 200, 200, 200, 429]);
      expect([await login('bob'), await login('bob'), await login('bob')]).toEqual([200, 200, 429]);
      expect(await login('bob', '/elsewhere')).toBe(200);
      expect(await stat('login-throttling.page_login.remote_address.1m.over_limit')).toBe(1);
    });

    it('and is never limited by a rule in shadow mode', async () => {
      await start('shadow-rollout');
      expect(await askTimes(5, '/export')).toEqual([200, 200, 200, 200, 200]);
      expect(await stat('shadow-rollout.path_/export.shadow_mode')).toBe(2);
    });

    it('for requests in flight, and gives them back', async () => {
      await start('concurrency');
      const open: ServerResponse[] = [];
      handler = (_request, response) => void open.push(response);
      const acme = { headers: { 'x-tenant': 'acme' } };
      const negativeHits = (): Promise<number> =>
        stat('concurrency.reports_in-flight.tenant.total_negative_hits');
      /** Also settles when a failure above ends Envoy under it. */
      const begin = (): Promise<number> => ask('/reports', acme).catch(() => 0);
      const running = [begin(), begin(), begin()];
      await eventually(() => expect(open).toHaveLength(3));
      expect(await ask('/reports', acme)).toBe(429);
      await eventually(async () => expect(await negativeHits()).toBe(1));
      expect(await ask('/reports', acme)).toBe(429);
      await eventually(async () => expect(await negativeHits()).toBe(2));
      open.shift()?.end('done');
      await eventually(async () => expect(await negativeHits()).toBe(3));
      running.push(begin());
      await eventually(() => expect(open).toHaveLength(3));
      for (const response of open) response.end('done');
      expect(await Promise.all(running)).toEqual([200, 200, 200, 200]);
    });
  });
});
