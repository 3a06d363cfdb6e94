import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseList } from 'structured-headers';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { type EnvoyProcess, startEnvoy } from '../support/envoy.ts';
import { envoyConfig } from '../support/envoy-config.ts';
import { eventually } from '../support/eventually.ts';
import { envoyProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { type InProcessLimiter, startLimiterHere } from '../support/in-process-limiter.ts';

const rules = `
domain: edge
descriptors:
  - key: path
    value: /limited
    rate_limit: { unit: hour, requests_per_unit: 2, name: few }
  - key: path
    value: /hidden
    hide_identity: true
    rate_limit: { unit: hour, requests_per_unit: 0 }
`;

const page = readFileSync(join(import.meta.dirname, '../../docs/over-limit.md'), 'utf8');

/** As docs/over-limit.md has it. */
const callMetadata = (): { key: string; value: string }[] =>
  [...page.matchAll(/- \{ key: (\S+), value: '(.*)' \}/g)].map(([, key, value]) => ({
    key: key!,
    value: value!,
  }));

/** The line of docs/over-limit.md. */
const accessLogFormat = (): string => {
  const line = /^ *text_format: '(.*)'$/m.exec(page)?.[1];
  if (line === undefined) throw new Error('docs/over-limit.md has no text_format');
  return `${line.replace(/\\n$/, '')}\n`;
};

describeWithServer('requests over limit seen by a real Envoy', envoyProgram, (envoyPath) => {
  let folder: string;
  let limiter: InProcessLimiter;
  let upstream: Server;
  let envoy: EnvoyProcess;
  let envoyPort: number;

  const ask = async (path: string, headers: Record<string, string> = {}): Promise<Response> => {
    const response = await fetch(`http://127.0.0.1:${envoyPort}${path}`, { headers });
    await response.text();
    return response;
  };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'weir-refusals-'));
    writeFileSync(join(folder, 'edge.yaml'), rules);
    limiter = await startLimiterHere({
      env: {
        BACKEND_TYPE: 'memory',
        RUNTIME_ROOT: folder,
        RUNTIME_APPDIRECTORY: '.',
        RESPONSE_RULE_IDENTITY: 'both',
        LIMIT_RESPONSE_HEADERS_ENABLED: 'true',
        LIMIT_RESPONSE_HEADERS_STYLE: 'ietf',
        LIMIT_RETRY_AFTER_HEADER_ENABLED: 'true',
      },
    });
    upstream = createServer((_, response) => response.end());
    await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
    envoyPort = await freePort();
    const config = envoyConfig({
      listenPort: envoyPort,
      limiterPort: limiter.ports.grpc,
      upstreamPort: (upstream.address() as AddressInfo).port,
      domain: 'edge',
      callMetadata: callMetadata(),
      accessLog: { path: join(folder, 'access.log'), format: accessLogFormat() },
    });
    envoy = await startEnvoy(envoyPath, config);
  });

  afterAll(async () => {
    await envoy?.stop();
    await limiter?.stop();
    upstream?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it('carry the fields of the IETF draft, the rule and Retry-After', async () => {
    const passed = await ask('/limited');
    expect(passed.status).toBe(200);
    expect(passed.headers.get('retry-after')).toBeNull();
    await ask('/limited');
    const { status, headers } = await ask('/limited');
    expect(status).toBe(429);
    expect(headers.get('ratelimit-policy')).toBe('"few";q=2;w=3600');
    const [[name, traits]] = parseList(headers.get('ratelimit')!) as [[string, Map<string, number>]];
    expect([name, traits.get('r')]).toEqual(['few', 0]);
    expect(Number(headers.get('retry-after'))).toBe(traits.get('t'));
    expect(headers.get('x-ratelimit-rule')).toBe(
      '"edge";rule="edge.path_/limited";name="few";limit=2;window="1h";algorithm=fixed_window;used=3',
    );
  });

  it('are remembered with the ids of their requests', async () => {
    const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
    for (let n = 0; n < 3; n++)
      await ask('/limited', { 'x-request-id': 'reported-1', traceparent: `00-${trace}-00f067aa0ba902b7-01` });
    const url = `http://127.0.0.1:${limiter.ports.debug}/v1/refusals`;
    const found = async (query: string) =>
      (await (await fetch(`${url}?${query}`)).json()) as { refusals: object[] };
    const row = {
      domain: 'edge',
      rule: 'edge.path_/limited',
      limitName: 'few',
      entries: [{ key: 'path', value: '/limited' }],
      limit: 2,
      requestId: 'reported-1',
      traceId: trace,
    };
    expect((await found('requestId=reported-1')).refusals[0]).toMatchObject(row);
    expect((await found(`requestId=${trace}&domain=edge`)).refusals[0]).toMatchObject(row);
    expect(await found('requestId=nobody')).toMatchObject({ refusals: [] });
    expect((await fetch(`${url}?since=soon`)).status).toBe(400);
  });

  it('of /json are remembered with the ids of their headers', async () => {
    const body = JSON.stringify({
      domain: 'edge',
      descriptors: [{ entries: [{ key: 'path', value: '/hidden' }] }],
    });
    const headers = { 'content-type': 'application/json', 'X-Request-Id': 'json-1' };
    const json = `http://127.0.0.1:${limiter.ports.http}/json`;
    expect((await fetch(json, { method: 'POST', headers, body })).status).toBe(429);
    const url = `http://127.0.0.1:${limiter.ports.debug}/v1/refusals?requestId=json-1`;
    expect(await (await fetch(url)).json()).toMatchObject({
      refusals: [{ rule: 'edge.path_/hidden', used: 1, limit: 0, count: 1 }],
    });
  });

  it('are named in the access log by the line that the documents give, hidden ones are not', async () => {
    await ask('/hidden');
    await eventually(() => {
      const log = readFileSync(join(folder, 'access.log'), 'utf8');
      expect(log).toMatch(/ \/limited 429 rule=edge\.path_\/limited name=few used=3 limit=2 window=1h$/m);
      expect(log).toMatch(/ \/hidden 429 rule=- name=- used=- limit=- window=-$/m);
    });
  });
});
