/** What every recipe for a proxy promises, with the proxy itself, its files in examples/ and a limiter that they ask. */
import { connect } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import type { ChildProgram } from '../support/child-program.ts';
import { startDocumentedLimiter } from '../support/document-limiter.ts';
import { freePort } from '../support/free-port.ts';
import { type HttpAnswer, httpAsk } from '../support/http-ask.ts';
import { HttpSpy, relay } from '../support/http-spy.ts';
import type { LimiterProcess } from '../support/limiter-process.ts';

export interface RecipePorts {
  proxy: number;
  limiter: number;
  service: number;
}

/** Of the example's files: as they stand; waiting long for the limiter of a busy machine; with the lines that fail closed, too. */
export type RecipeVariant = 'as it stands' | 'patient' | 'fail closed';

export interface ProxyRecipe {
  /** Of the README, as `commandsToRun` reads them. */
  commands: readonly string[];
  /** Starts the proxy with the files of the example, at these ports, and waits until it listens. */
  start(ports: RecipePorts, variant: RecipeVariant): Promise<ChildProgram>;
  /** To a request without a decision, by the variant that fails closed. */
  closedStatus: number;
}

/** What becomes of a question: the limiter's answer, none at all, or this status. */
type Fate = 'relay' | 'silent' | number;

export class RecipeStage {
  readonly limiterSpy: HttpSpy;
  readonly serviceSpy: HttpSpy;
  fate: Fate = 'relay';
  ports: RecipePorts = { proxy: 0, limiter: 0, service: 0 };
  #limiter: LimiterProcess | undefined;
  #lastClient = 0;

  constructor() {
    this.limiterSpy = new HttpSpy((asked, response) => {
      if (this.fate === 'silent') return;
      if (this.fate === 'relay') relay(asked, response, this.#limiter!.ports.http);
      else response.writeHead(this.fate, { 'Content-Type': 'application/problem+json' }).end('{}');
    });
    this.serviceSpy = new HttpSpy(({ url }, response) => {
      const status = Number(/^\/status\/(\d+)/.exec(url)?.[1] ?? 200);
      // Only the limiter's own word counts.
      response.writeHead(status, { 'X-Service': 'spy', 'X-Weir-Refused': 'no' }).end(`service ${status}\n`);
    });
  }

  async open(commands: readonly string[]): Promise<void> {
    this.#limiter = await startDocumentedLimiter(commands);
    this.ports = { proxy: await freePort(), limiter: await freePort(), service: await freePort() };
    await this.limiterSpy.listen(this.ports.limiter);
    await this.serviceSpy.listen(this.ports.service);
  }

  async close(): Promise<void> {
    await this.limiterSpy.close();
    await this.serviceSpy.close();
    await this.#limiter?.stop();
  }

  /** An address of this machine that has not asked yet: it has a counter of its own. */
  newClient(): string {
    this.#lastClient++;
    return `127.0.0.${this.#lastClient + 1}`;
  }

  ask(path: string, options: Parameters<typeof httpAsk>[2] = {}): Promise<HttpAnswer> {
    return httpAsk(this.ports.proxy, path, { from: this.newClient(), ...options });
  }

  /** What happens at limiter and service meanwhile. */
  async counted<Result>(
    act: () => Promise<Result>,
  ): Promise<{ result: Result; questions: number; served: number }> {
    const [questions, served] = [this.limiterSpy.received.length, this.serviceSpy.received.length];
    const result = await act();
    return {
      result,
      questions: this.limiterSpy.received.length - questions,
      served: this.serviceSpy.received.length - served,
    };
  }
}

/** `more` adds the tests of one proxy. */
export function proxyRecipeSuite(recipe: ProxyRecipe, more?: (stage: RecipeStage) => void): void {
  const stage = new RecipeStage();
  let proxy: ChildProgram | undefined;

  beforeAll(async () => {
    await stage.open(recipe.commands);
    proxy = await recipe.start(stage.ports, 'patient');
  }, 60_000);

  afterEach(() => {
    stage.fate = 'relay';
  });

  afterAll(async () => {
    await proxy?.stop();
    await stage.close();
  });

  it('lets requests pass, then limits them with a 429 that says when to retry', async () => {
    const from = stage.newClient();
    const answers: HttpAnswer[] = [];
    const { questions, served } = await stage.counted(async () => {
      // As many as the limit of an address, and as many again: a window may end between.
      for (let i = 0; i < 11; i++) answers.push(await stage.ask('/', { from }));
    });
    expect(answers.slice(0, 5).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(answers[0]?.headers).toMatchObject({ 'ratelimit-limit': '5', 'ratelimit-remaining': '4' });
    expect(answers[0]?.headers).not.toHaveProperty('retry-after');
    const refused = answers.filter(({ status }) => status !== 200);
    expect(refused.length).toBeGreaterThan(0);
    for (const { status, headers } of refused) {
      expect(status).toBe(429);
      expect(headers).toMatchObject({ 'ratelimit-limit': '5', 'ratelimit-remaining': '0' });
      expect(headers).not.toHaveProperty('x-weir-refused');
      for (const name of ['retry-after', 'ratelimit-reset'])
        expect(Number(headers[name])).toSatisfy((seconds) => seconds >= 1 && seconds <= 61);
      expect(headers).not.toHaveProperty('x-service');
    }
    expect({ questions, served }).toEqual({ questions: 11, served: 11 - refused.length });
  }, 60_000);

  it('asks without body and secrets, and what a client says of itself counts for nothing', async () => {
    const from = stage.newClient();
    const headers = {
      ...{ 'X-Forwarded-For': '203.0.113.9', 'X-Real-IP': '203.0.113.9', Forwarded: 'for=203.0.113.9' },
      ...{
        'X-Forwarded-Method': 'OPTIONS',
        'X-Forwarded-Uri': '/forged',
        'X-Forwarded-Host': 'forged.example',
      },
      ...{ 'X-Original-Method': 'OPTIONS', 'X-Original-URI': '/forged', 'X-Original-URL': 'http://forged/' },
      ...{ 'X-Weir-Refused': 'shop', 'Retry-After': '9', 'RateLimit-Limit': '999' },
      ...{ Cookie: 'session=secret', Authorization: 'Bearer secret', 'X-Plan': 'gold', Host: 'shop.example' },
    };
    const options = { method: 'POST', body: 'a body', headers, from };
    const { result, questions, served } = await stage.counted(() => stage.ask('/search?q=a%20b', options));
    expect(result.status).toBe(200);
    // Of the address; the plan's limit is higher.
    expect(result.headers).toMatchObject({ 'ratelimit-limit': '5', 'ratelimit-remaining': '4' });
    expect({ questions, served }).toEqual({ questions: 1, served: 1 });
    const asked = stage.limiterSpy.last;
    expect(asked).toMatchObject({ method: 'GET', body: '' });
    expect(asked?.url).toBe('/v1/forward-auth/shop');
    expect(asked?.headers).toMatchObject({
      'x-forwarded-for': from,
      'x-forwarded-method': 'POST',
      'x-forwarded-uri': '/search?q=a%20b',
      'x-forwarded-host': 'shop.example',
      'x-plan': 'gold',
    });
    for (const name of ['cookie', 'authorization']) expect(asked?.headers).not.toHaveProperty(name);
    expect(stage.serviceSpy.last).toMatchObject({ method: 'POST', url: '/search?q=a%20b', body: 'a body' });
  });

  it('counts the plan of a request', async () => {
    const { headers } = await stage.ask('/search', { headers: { 'X-Plan': 'free' } });
    expect(headers).toMatchObject({ 'ratelimit-limit': '2' });
  });

  it('forwards a body that comes in chunks, and a HEAD', async () => {
    const chunked = { method: 'PUT', body: 'x'.repeat(70_000), headers: { 'Transfer-Encoding': 'chunked' } };
    expect((await stage.ask('/upload', chunked)).status).toBe(200);
    expect(stage.serviceSpy.last?.body.length).toBe(70_000);
    expect(stage.limiterSpy.last).toMatchObject({ body: '' });
    const head = await stage.ask('/', { method: 'HEAD' });
    expect(head).toMatchObject({ status: 200, body: '' });
    expect(stage.limiterSpy.last?.headers['x-forwarded-method']).toBe('HEAD');
    expect(stage.serviceSpy.last?.method).toBe('HEAD');
  });

  it.each([401, 403, 404, 429, 500, 503])("leaves the service's own %i alone", async (status) => {
    const { result, questions, served } = await stage.counted(() => stage.ask(`/status/${status}`));
    expect(result).toMatchObject({ status, body: `service ${status}\n`, headers: { 'x-service': 'spy' } });
    expect({ questions, served }).toEqual({ questions: 1, served: 1 });
  });

  const body = { method: 'POST', body: 'a body' };

  it.each([401, 404, 500, 503])(
    'lets pass what the limiter has not decided: %s',
    async (fate) => {
      stage.fate = fate;
      const { result, questions, served } = await stage.counted(() => stage.ask('/', body));
      expect(result).toMatchObject({ status: 200, body: 'service 200\n' });
      expect({ questions, served }).toEqual({ questions: 1, served: 1 });
      expect(stage.serviceSpy.last?.body).toBe('a body');
    },
    30_000,
  );

  it('lets pass what the limiter does not answer in time', async () => {
    const ports = { ...stage.ports, proxy: await freePort() };
    const hasty = await recipe.start(ports, 'as it stands');
    try {
      stage.fate = 'silent';
      const ask = () => httpAsk(ports.proxy, '/', { ...body, from: stage.newClient() });
      const { result, questions, served } = await stage.counted(ask);
      expect(result).toMatchObject({ status: 200, body: 'service 200\n' });
      expect({ questions, served }).toEqual({ questions: 1, served: 1 });
      expect(stage.serviceSpy.last?.body).toBe('a body');
    } finally {
      await hasty.stop();
    }
  }, 60_000);

  it.each([400, 403, 413, 431])('rejects what the limiter rejects: %i', async (status) => {
    stage.fate = status;
    const { result, served } = await stage.counted(() => stage.ask('/'));
    expect(result.status).toBe(403);
    expect(result.headers).not.toHaveProperty('retry-after');
    expect(served).toBe(0);
  });

  it('lets nothing pass uncounted because it is long or odd', async () => {
    const long = (host: number, others: number): string =>
      `GET /?${'a'.repeat(others)} HTTP/1.1\r\nHost: ${'h'.repeat(host)}\r\nX-Plan: ${'p'.repeat(others)}\r\n`;
    const forms = [
      long(700, 7_000),
      long(100, 7_900),
      long(3_000, 7_900),
      `GET / HTTP/1.1\r\nHost: localhost\r\nX-Plan: a\x01b\r\n`,
      `GET / HTTP/1.1\r\nHost: localhost\r\nX-Plan: \xff\xfe\r\n`,
      `GET /\x7f HTTP/1.1\r\nHost: localhost\r\n`,
      `GET /%00 HTTP/1.1\r\nHost: localhost\r\n`,
      `GET //host/../a HTTP/1.1\r\nHost: localhost\r\n`,
    ];
    for (const form of forms) {
      const from = stage.newClient();
      const seen: (number | undefined)[] = [];
      for (let i = 0; i < 11; i++) seen.push(await rawStatus(stage.ports.proxy, form, from));
      expect(seen.filter((status) => status !== 200).length, form.slice(0, 60)).toBeGreaterThan(0);
    }
  }, 60_000);

  more?.(stage);

  describe('without a limiter', () => {
    beforeAll(() => stage.limiterSpy.close());

    it('lets pass', async () => {
      const { result, served } = await stage.counted(() => stage.ask('/', body));
      expect(result).toMatchObject({ status: 200, body: 'service 200\n' });
      expect(served).toBe(1);
      expect(stage.serviceSpy.last?.body).toBe('a body');
    });

    it('says that the service is away as well', async () => {
      await stage.serviceSpy.close();
      try {
        expect((await stage.ask('/')).status).toSatisfy((status) => status === 502 || status === 503);
      } finally {
        await stage.serviceSpy.listen(stage.ports.service);
      }
    }, 30_000);

    it('lets nothing pass with the lines for that', async () => {
      const ports = { ...stage.ports, proxy: await freePort() };
      const closed = await recipe.start(ports, 'fail closed');
      try {
        const ask = () => httpAsk(ports.proxy, '/', { from: stage.newClient() });
        const away = await stage.counted(ask);
        expect(away).toMatchObject({ served: 0, result: { status: recipe.closedStatus } });
        await stage.limiterSpy.listen(ports.limiter);
        for (const fate of [401, 404, 500, 503]) {
          stage.fate = fate;
          const undecided = await stage.counted(ask);
          expect(undecided, `${fate}`).toMatchObject({ served: 0, result: { status: recipe.closedStatus } });
        }
        stage.fate = 'relay';
        expect((await ask()).status).toBe(200);
        expect((await ask()).status).toBe(200);
      } finally {
        await closed.stop();
      }
    }, 60_000);
  });
}

/** Of the answer to a request as it stands, of whatever bytes; undefined when the connection ends without one. */
export function rawStatus(port: number, head: string, from: string): Promise<number | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress: from });
    let text = '';
    socket.setEncoding('latin1');
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(Number(/^HTTP\/1\.[01] (\d{3})/.exec(text)?.[1]) || undefined));
    socket.write(`${head}Connection: close\r\n\r\n`, 'latin1');
  });
}
