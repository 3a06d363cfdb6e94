/** examples/llm-tokens with a real Envoy, before a model that streams: what answers may cost is reserved, what they did is charged. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { parse } from 'yaml';
import { describeWithServer } from '../support/describe-with-server.ts';
import { type EnvoyProcess, startEnvoy } from '../support/envoy.ts';
import { eventually } from '../support/eventually.ts';
import { examplesFolder, readExample } from '../support/example-cases.ts';
import { exampleEnvoyAt } from '../support/example-envoy.ts';
import { envoyProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { httpAsk } from '../support/http-ask.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { ManualClock } from '../support/manual-clock.ts';

const usage = { prompt_tokens: 100, completion_tokens: 50, prompt_tokens_details: { cached_tokens: 40 } };
/** As the example weighs it: tokens, and micro-dollars. */
const cost = { user: 150, team: 2.5 * 100 + 10 * 50 - 1.25 * 40 };
/** Of a question without a body. */
const maxCost = { user: 4096, team: 40_960 };

interface Budget {
  used: number;
  reserved: number;
  open: number;
}

describeWithServer('a model behind Envoy', envoyProgram, (envoyPath) => {
  const clock = new ManualClock(Date.UTC(2026, 2, 4, 12));
  let limiter: InProcessLimiter;
  let model: Server;
  let envoy: EnvoyProcess;
  let port: number;
  /** Answers of the model that are not at their end. */
  const open: ServerResponse[] = [];
  let tests = 0;
  let [user, team] = ['', ''];

  beforeAll(async () => {
    limiter = await InProcessLimiter.start({
      clock,
      env: {
        RUNTIME_ROOT: join(examplesFolder, 'llm-tokens'),
        RUNTIME_APPDIRECTORY: 'rules',
        RUNTIME_WATCH_ROOT: 'false',
      },
    });
    model = createServer((request, response) => answer(request, response));
    model.listen(0, '127.0.0.1');
    await once(model, 'listening');
    port = await freePort();
    const { port: service } = model.address() as AddressInfo;
    const config = exampleEnvoyAt('llm-tokens', { listener: port, limiter: limiter.ports.grpc, service });
    envoy = await startEnvoy(envoyPath, config);
  }, 60_000);

  afterAll(async () => {
    await envoy?.stop();
    await limiter?.stop();
    model?.closeAllConnections();
    model?.close();
  });

  beforeEach(() => {
    tests += 1;
    [user, team] = [`user-${tests}`, `team-${tests}`];
  });

  afterEach(() => {
    for (const response of open.splice(0)) response.destroy();
  });

  function answer(request: IncomingMessage, response: ServerResponse): void {
    request.resume();
    const { pathname } = new URL(request.url ?? '/', 'http://model');
    if (pathname === '/whole') {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ choices: [], usage }));
    } else if (pathname === '/refused') {
      response.writeHead(503, { 'content-type': 'application/json' }).end('{"error":"overloaded"}');
    } else {
      const isEvents = pathname === '/events';
      response.writeHead(200, {
        'content-type': isEvents ? 'text/event-stream' : 'application/grpc-like',
        ...(!isEvents && { trailer: 'x-usage-prompt-tokens, x-usage-completion-tokens' }),
      });
      response.write(isEvents ? event({ choices: [{ delta: { content: 'One' } }], usage: null }) : 'One');
      open.push(response);
    }
  }

  const ask = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(`http://127.0.0.1:${port}${path}`, {
      ...init,
      headers: { 'x-user': user, 'x-team': team, ...init.headers },
    });
  const budget = async (key: 'user' | 'team'): Promise<Budget> => {
    const entry = `${key}=${key === 'user' ? user : team}`;
    const { body } = await httpAsk(limiter.ports.http, `/v1/budgets?domain=llm-tokens&entry=${entry}`);
    return JSON.parse(body).budgets[0];
  };
  const charged = (expected: { user: number; team: number }): Promise<void> =>
    eventually(async () => {
      expect(await budget('user')).toMatchObject({ used: expected.user, reserved: 0, open: 0 });
      expect(await budget('team')).toMatchObject({ used: expected.team, reserved: 0, open: 0 });
    });
  const reserved = async (expected: { user: number; team: number }): Promise<void> => {
    expect(await budget('user')).toMatchObject({ used: expected.user, reserved: expected.user, open: 1 });
    expect(await budget('team')).toMatchObject({ used: expected.team, reserved: expected.team, open: 1 });
  };
  /** Begins a stream, and reads what the model says first. */
  const begin = async (path: string, init?: RequestInit) => {
    const response = await ask(path, init);
    expect(response.status).toBe(200);
    const reader = response.body!.getReader();
    const { value } = await reader.read();
    expect(new TextDecoder().decode(value)).toContain('One');
    return { reader, upstream: open.at(-1)! };
  };
  const atEnd = async (reader: { read(): Promise<{ done: boolean }> }): Promise<void> => {
    while (!(await reader.read()).done);
  };

  it('is the model of the file itself if nothing but ports is changed', async () => {
    const [listener, service] = [await freePort(), await freePort()];
    const text = readExample('llm-tokens', 'envoy.yaml')
      .replace('port_value: 10000 ', `port_value: ${listener} `)
      .replaceAll('port_value: 10001 ', `port_value: ${service} `)
      .replace('port_value: 8081 ', `port_value: ${limiter.ports.grpc} `);
    const whole = await startEnvoy(envoyPath, parse(text));
    try {
      const headers = { 'x-user': user, 'x-team': team };
      const response = await fetch(`http://127.0.0.1:${listener}/`, { headers });
      expect(await response.json()).toMatchObject({ usage: { prompt_tokens: 500 } });
      await charged({ user: 600, team: 2.5 * 500 + 10 * 100 });
    } finally {
      await whole.stop();
    }
  });

  it('is charged what a whole answer says', async () => {
    expect((await ask('/whole')).status).toBe(200);
    await charged(cost);
  });

  it('is charged what the last event of a stream says, and holds the most until then', async () => {
    const { reader, upstream } = await begin('/events');
    await reserved(maxCost);
    upstream.end(`${event({ choices: [], usage })}data: [DONE]\n\n`);
    await atEnd(reader);
    await charged(cost);
  });

  it('is charged what trailers say, and streams until they come', async () => {
    const { reader, upstream } = await begin('/trailers');
    await reserved(maxCost);
    upstream.addTrailers({ 'x-usage-prompt-tokens': '100', 'x-usage-completion-tokens': '50' });
    upstream.end('Two');
    await atEnd(reader);
    await charged({ user: 150, team: 750 });
  });

  it('is charged nothing for an answer that is an error', async () => {
    expect((await ask('/refused')).status).toBe(503);
    await charged({ user: 0, team: 0 });
  });

  it('lets as many begin at once as the budget covers, and others when those are committed', async () => {
    const first = await begin('/events');
    const second = await begin('/events');
    const refused = await ask('/events');
    expect(refused.status).toBe(429);
    await refused.text();
    expect(await budget('user')).toMatchObject({ used: 8192, reserved: 8192, open: 2 });
    // The team's budget had room, and is as it was.
    expect(await budget('team')).toMatchObject({ used: 81_920, open: 2 });
    first.upstream.end(event({ choices: [], usage }));
    await atEnd(first.reader);
    await eventually(async () => expect(await budget('user')).toMatchObject({ used: 4246, open: 1 }));
    const third = await begin('/events');
    for (const { upstream, reader } of [second, third]) {
      upstream.end(event({ choices: [], usage }));
      await atEnd(reader);
    }
    await charged({ user: 3 * cost.user, team: 3 * cost.team });
  });

  it('is charged what was reserved if a client goes away in the middle, once its time is up', async () => {
    const leaving = new AbortController();
    await begin('/events', { signal: leaving.signal });
    leaving.abort();
    await eventually(() => expect(open.at(-1)?.destroyed).toBe(true));
    await reserved(maxCost);
    clock.ms += 10 * 60_000 + 1000;
    await charged(maxCost);
  });

  it.each([
    ['{"max_completion_tokens":100}', { user: 107, team: 1029 }],
    ['{"max_completion_tokens":-1000}', undefined],
    ['{"max_completion_tokens":1e300}', undefined],
    ['{"max_completion_tokens":"all"}', undefined],
    ['{"max_completion_tokens":null}', undefined],
    ['{"max_completion_tokens":[]}', undefined],
    ['no JSON', undefined],
  ])(
    'reserves the amount of the request, and the maximum if the request has no valid one: %s',
    async (body, reported) => {
      const headers = { 'content-type': 'application/json' };
      const { reader, upstream } = await begin('/events', { method: 'POST', headers, body });
      const tokens = Math.floor(body.length / 4);
      await reserved(reported ?? { user: maxCost.user + tokens, team: maxCost.team + body.length });
      upstream.end(event({ choices: [], usage }));
      await atEnd(reader);
      await charged(cost);
    },
  );
});

function event(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}
