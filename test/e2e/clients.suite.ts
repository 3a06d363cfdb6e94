/** A program in examples/clients limits by a real limiter. When that cannot decide, pages are served and logins are not. */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, request as httpRequest, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ChildProgram } from '../support/child-program.ts';
import { eventually } from '../support/eventually.ts';
import { exampleRules, examplesFolder } from '../support/example-cases.ts';
import { type HttpAnswer, httpAsk } from '../support/http-ask.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { suiteFolder } from '../support/suite-folder.ts';

export const clients = join(examplesFolder, 'clients');
/** More than a client on a busy machine misses. */
const limit = 12;

/** Stands between a client and the limiter. */
class Front {
  /** A number is the status of every answer. */
  mode: 'passes on' | 'says nothing' | number = 'passes on';
  /** The body of the last question. */
  question = '';
  connections = 0;
  /** How many the limiter let pass, also where the client waited no longer. */
  allowed = 0;
  readonly #server: Server;

  constructor(limiterPort: number) {
    this.#server = createServer((request, response) => {
      if (this.mode === 'says nothing') return;
      if (typeof this.mode === 'number') {
        const headers = { 'retry-after': '1', 'content-type': 'application/problem+json' };
        response.writeHead(this.mode, headers).end('{}');
        void text(request).then((body) => {
          this.question = body;
        });
        return;
      }
      const { method, url, headers } = request;
      const asked = httpRequest(
        { port: limiterPort, host: '127.0.0.1', method, path: url, headers },
        (answer) => {
          if (answer.statusCode === 200) this.allowed += 1;
          response.writeHead(answer.statusCode ?? 0, answer.headers);
          answer.pipe(response);
        },
      );
      asked.on('error', () => response.destroy());
      request.pipe(asked);
    }).on('connection', () => {
      this.connections += 1;
    });
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

interface Started {
  command: string;
  args: string[];
  /** What it prints, with its port. */
  listens: RegExp;
}

export function compile(command: string, args: string[], name: string): void {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: join(clients, name), encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stdout}${stderr}`);
}

/** Tests of the client in this folder of examples/clients. `prepare` compiles it into a folder of its own. */
export function limits(name: string, prepare: (compiled: string) => Started): void {
  const folder = suiteFolder();
  let limiter: InProcessLimiter;
  let front: Front;
  let client: ChildProgram;
  let port: number;
  const ask = (): Promise<HttpAnswer> => httpAsk(port, '/');
  const logIn = (user: unknown): Promise<HttpAnswer> => {
    const isForm = name === 'spring';
    const type = isForm ? 'application/x-www-form-urlencoded' : 'application/json';
    const body = isForm ? `user=${encodeURIComponent(String(user))}` : JSON.stringify({ user });
    return httpAsk(port, '/login', { method: 'POST', headers: { 'content-type': type }, body });
  };

  beforeAll(async () => {
    const rule = `{ key: remote_address, rate_limit: { unit: year, requests_per_unit: ${limit} } }`;
    writeFileSync(join(folder, 'shop.yaml'), `domain: shop\ndescriptors: [${rule}]\n`);
    writeFileSync(join(folder, 'logins.yaml'), exampleRules('login-throttling'));
    const compiled = mkdtempSync(join(folder, 'compiled-'));
    const { command, args, listens } = prepare(compiled);
    limiter = await InProcessLimiter.start({ env: { RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: '.' } });
    front = new Front(limiter.ports.http);
    // Where Java looks for what was compiled.
    const java = { CLASSPATH: compiled, SERVER_PORT: '0' };
    const env = { ...process.env, ...java, WEIR_URL: await front.listen(), PORT: '0' };
    client = new ChildProgram({ command, args, cwd: join(clients, name), env });
    const [, printed] = await client.printed(listens, 100_000);
    port = Number(printed);
  }, 240_000);

  afterAll(async () => {
    front?.close();
    await Promise.all([client?.stop(), limiter?.stop()]);
  });

  it('lets requests pass up to the limit, passes on what is left, and limits', async () => {
    const answers: HttpAnswer[] = [];
    // Some may pass uncounted, or counted without a word, as a program that has just started takes longer than it waits for.
    while (answers.length < 60 && answers.at(-1)?.status !== 429) answers.push(await ask());
    const passed = answers.slice(0, -1);
    const reported = passed.filter(({ headers }) => headers['ratelimit-limit'] === String(limit));
    expect(passed.map(({ status }) => status)).toEqual(passed.map(() => 200));
    expect(reported.length).toBeGreaterThan(0);
    await eventually(() => expect(front.allowed).toBe(limit));
    const { status, headers } = answers.at(-1)!;
    expect([status, headers['ratelimit-remaining']]).toEqual([429, '0']);
    expect(Number(headers['retry-after'])).toBeGreaterThan(0);
  });

  // The filter for Spring stands before logins, too, and its address has used up the limit above.
  it.skipIf(name === 'spring')('lets five logins of an account pass, and eight of an address', async () => {
    /** As many as it lets pass before it rejects; a 503 is a busy program that did not wait. */
    const passed = async (user: string): Promise<number> => {
      const before = front.allowed;
      let status = 0;
      for (let n = 0; n < 20 && status !== 429; n++) ({ status } = await logIn(user));
      expect(status).toBe(429);
      return front.allowed - before;
    };
    expect(await passed('ann')).toBe(5);
    // The rejected one of ann counts for the address.
    expect(await passed('bob')).toBe(2);
    expect(await passed('cleo')).toBe(0);
  });

  it('keeps its connection', async () => {
    let kept = false;
    for (let tries = 0; !kept && tries < 20; tries++) {
      const before = front.connections;
      for (let n = 0; n < 3; n++) await ask();
      kept = front.connections === before;
    }
    expect(kept).toBe(true);
  });

  it.each([
    ...['7', 'a'.repeat(100_000), ' \u0000\u202e"'],
    // A form has strings only.
    ...(name === 'spring' ? [] : [7, true, null, undefined, ['a'], { toString: 1 }, '\ud800']),
  ])('asks with strings when a client sends %.20j', async (user) => {
    front.mode = 200;
    expect((await logIn(user)).status).toBe(200);
    await eventually(() => {
      const { descriptors } = JSON.parse(front.question);
      const wanted = typeof user === 'string' ? user.replace('\ud800', '') : JSON.stringify(user ?? null);
      const value = String(descriptors[0][0].login_name).replace(/[?\ud800\ufffd]/g, '');
      expect([typeof descriptors[0][0].login_name, value]).toEqual(['string', wanted]);
      expect(descriptors[1]).toEqual([{ page: 'login' }, { remote_address: '127.0.0.1' }]);
    });
    front.mode = 'passes on';
  });

  it.each([400, 413, 429])('limits when Weir answers %i', async (mode) => {
    front.mode = mode;
    expect([(await ask()).status, (await logIn('a')).status]).toEqual([429, 429]);
    front.mode = 'passes on';
  });

  it.each(['says nothing', 401, 404, 500, 503] as const)(
    'serves pages and no logins when Weir answers %s',
    async (mode) => {
      front.mode = mode;
      expect((await logIn('a')).status).toBe(503);
      const { status, headers, body } = await ask();
      expect([status, headers['retry-after'], body]).toEqual([
        200,
        undefined,
        expect.stringContaining('hello'),
      ]);
      front.mode = 'passes on';
    },
  );

  it('serves pages and no logins when Weir is away', async () => {
    front.close();
    expect([(await ask()).status, (await logIn('a')).status]).toEqual([200, 503]);
  });
}
