import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { describeWithServer } from '../support/describe-with-server.ts';
import { type EnvoyProcess, startEnvoy } from '../support/envoy.ts';
import { envoyConfig } from '../support/envoy-config.ts';
import { eventually } from '../support/eventually.ts';
import { envoyProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { type InProcessLimiter, startLimiterHere } from '../support/in-process-limiter.ts';

const rules = (limit: number): string => `
domain: edge
descriptors:
  - key: path
    value: /limited
    rate_limit: { unit: hour, requests_per_unit: ${limit}, name: limited }
  - key: path
    value: /shadow
    shadow_mode: true
    rate_limit: { unit: hour, requests_per_unit: 1 }
  - key: path
    value: /multi/*
    share_threshold: true
    descriptors:
      - key: plan
        value: gold
        rate_limit: { unit: hour, requests_per_unit: 4 }
      - key: plan
        rate_limit: { unit: hour, requests_per_unit: 2 }
  - key: path
    value: /blocked
    rate_limit: { unit: day, requests_per_unit: 0 }
  - key: path
    value: /both
    rate_limit: { unit: day, requests_per_unit: 100 }
    descriptors:
      - key: plan
        rate_limit: { unit: hour, requests_per_unit: 1 }
`;

interface Answer {
  status: number;
  headers: Headers;
  /** What the service behind Envoy received; undefined when Envoy rejected the request. */
  forwarded: IncomingHttpHeaders | undefined;
}

describeWithServer('a limiter behind a real Envoy', envoyProgram, (envoyPath) => {
  let folder: string;
  let limiter: InProcessLimiter;
  let upstream: Server;
  let envoy: EnvoyProcess;
  let envoyPort: number;

  const ask = async (path: string, headers: Record<string, string> = {}): Promise<Answer> => {
    const response = await fetch(`http://127.0.0.1:${envoyPort}${path}`, { headers });
    const body = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      forwarded: response.status === 200 ? (JSON.parse(body) as IncomingHttpHeaders) : undefined,
    };
  };
  const statuses = async (
    count: number,
    path: string,
    headers: Record<string, string> = {},
  ): Promise<number[]> => {
    const seen: number[] = [];
    for (let i = 0; i < count; i++) seen.push((await ask(path, headers)).status);
    return seen;
  };
  const stat = async (name: string): Promise<number> => {
    const text = await (await fetch(`http://127.0.0.1:${limiter.ports.debug}/stats`)).text();
    const line = text.split('\n').find((candidate) => candidate.startsWith(`${name}: `));
    return line === undefined ? 0 : Number(line.slice(name.length + 2));
  };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'weir-e2e-'));
    writeFileSync(join(folder, 'edge.yaml'), rules(3));
    limiter = await startLimiterHere({
      env: {
        BACKEND_TYPE: 'memory',
        RUNTIME_ROOT: folder,
        RUNTIME_APPDIRECTORY: '.',
        LIMIT_RESPONSE_HEADERS_ENABLED: 'true',
        LIMIT_REQUEST_HEADERS_ENABLED: 'true',
        LIMIT_REQUEST_REMAINING_HEADER: 'x-left',
        LIMIT_PER_UNIT_HEADERS_ENABLED: 'true',
      },
    });
    upstream = createServer((request, response) => {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(request.headers));
    });
    await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
    envoyPort = await freePort();
    const config = envoyConfig({
      listenPort: envoyPort,
      limiterPort: limiter.ports.grpc,
      upstreamPort: (upstream.address() as AddressInfo).port,
      domain: 'edge',
    });
    envoy = await startEnvoy(envoyPath, config);
  });

  afterAll(async () => {
    await envoy?.stop();
    await limiter?.stop();
    upstream?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it('lets requests pass up to the limit and answers 429 beyond it', async () => {
    expect(await statuses(5, '/limited')).toEqual([200, 200, 200, 429, 429]);
    expect(await stat('ratelimit.service.rate_limit.edge.path_/limited.over_limit')).toBe(2);
  });

  it('leaves requests alone that no rule limits', async () => {
    expect(await statuses(5, '/free')).toEqual([200, 200, 200, 200, 200]);
  });

  it('blocks what a limit of zero names', async () => {
    expect(await statuses(1, '/blocked')).toEqual([429]);
  });

  it('reports the client the limit, what is left and when it resets', async () => {
    const { headers } = await ask('/both');
    expect(headers.get('ratelimit-limit')).toBe('100');
    expect(headers.get('ratelimit-remaining')).toBe('99');
    const reset = Number(headers.get('ratelimit-reset'));
    expect(reset).toBeGreaterThanOrEqual(1);
    expect(reset).toBeLessThanOrEqual(86_400);
    expect(headers.get('ratelimit-limit-days')).toBe('100');
    expect(headers.get('ratelimit-remaining-days')).toBe('99');
  });

  it('reports the service behind Envoy the same, under the configured names', async () => {
    const { forwarded } = await ask('/both');
    expect(forwarded?.['ratelimit-limit']).toBe('100');
    expect(forwarded?.['x-left']).toBe('98');
  });

  it('counts a descriptor of two entries by the rule at that depth', async () => {
    expect(await statuses(3, '/multi/a', { 'x-plan': 'free' })).toEqual([200, 200, 429]);
    // The pattern's values share one counter, the plan's do not.
    expect(await statuses(2, '/multi/b', { 'x-plan': 'free' })).toEqual([429, 429]);
    expect(await statuses(5, '/multi/b', { 'x-plan': 'gold' })).toEqual([200, 200, 200, 200, 429]);
  });

  it('limits a request if one of several descriptors is over its limit', async () => {
    expect(await statuses(2, '/both', { 'x-plan': 'free' })).toEqual([200, 429]);
  });

  it('never limits by a rule in shadow mode, and counts what it would have limited', async () => {
    expect(await statuses(3, '/shadow')).toEqual([200, 200, 200]);
    expect(await stat('ratelimit.service.rate_limit.edge.path_/shadow.shadow_mode')).toBe(2);
  });

  it('takes over a changed rule file and keeps the counts', async () => {
    expect((await ask('/limited')).status).toBe(429);
    writeFileSync(join(folder, 'edge.yaml'), rules(1000));
    await eventually(async () => expect((await ask('/limited')).status).toBe(200));
  });

  it('keeps the last good rules when a file breaks', async () => {
    const failedBefore = await stat('ratelimit.service.config_load_error');
    writeFileSync(
      join(folder, 'edge.yaml'),
      'domain: edge\ndescriptors:\n  - key: path\n    rate_limit: {}\n',
    );
    await eventually(async () =>
      expect(await stat('ratelimit.service.config_load_error')).toBeGreaterThan(failedBefore),
    );
    expect((await ask('/limited')).status).toBe(200);
    expect(limiter.program.output).toContain(
      "Error loading new configuration: edge.yaml: invalid rate limit unit ''\" line=4 column=17",
    );
  });
});
