import { get as httpGet } from 'node:http';
import { connect } from 'node:net';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { Profile } from 'pprof-format';
import { afterEach, describe, expect, it } from 'vitest';
import type { HttpListener } from '../../process/http/http-server.ts';
import { sendText } from '../../process/http/text-response.ts';
import { BindError } from '../../process/net/bind.ts';
import { systemClock } from '../../process/time/clock.ts';
import { eventually } from '../../test/support/eventually.ts';
import { type MessageCarrier, Threads } from '../capabilities/messages.ts';
import type { ProfileMessages } from '../pprof/messages.ts';
import { PprofPages } from '../pprof/pprof-pages.ts';
import { DebugListener, type DebugListenerOptions } from './debug-listener.ts';
import type { DebugPages } from './debug-pages.ts';

const unzip = promisify(gunzip);

/** A process in which this thread serves callers itself. */
const lone = {
  ...{ count: 0, ask: () => expect.fail() },
  ...{ askOne: () => expect.fail(), reach: () => expect.fail(), publish: () => expect.fail() },
} satisfies MessageCarrier;
const noWorkers = new Threads(lone, 'pprof').of<ProfileMessages>();

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

interface Fixture {
  listener: HttpListener;
  port: number;
  faults: string[];
}

async function start(options: Partial<DebugListenerOptions> = {}): Promise<Fixture> {
  const faults: string[] = [];
  const listener = new DebugListener({
    rlconfigLines: () => [],
    ruleFileLines: () => [],
    statsLines: () => [],
    pages: [new PprofPages(systemClock, noWorkers)],
    closeGraceMs: 5_000,
    onFault: (error) => faults.push(String(error)),
    ...options,
  });
  const { port } = await listener.listen({ host: '127.0.0.1', port: 0 });
  cleanups.push(() => listener.close());
  return { listener, port, faults };
}

interface Answer {
  status: number;
  type: string;
  headers: Record<string, unknown>;
  bytes: Buffer;
  body: string;
}

function get(port: number, path: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = httpGet({ port, host: '127.0.0.1', path, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const bytes = Buffer.concat(chunks);
        const type = response.headers['content-type'] ?? '';
        const { headers, statusCode: status = 0 } = response;
        resolve({ status, type, headers, bytes, body: bytes.toString() });
      });
    });
    request.on('error', reject);
  });
}

const text = 'text/plain; charset=utf-8';

async function pprofAt(port: number, path: string): Promise<Profile> {
  const answer = await get(port, path);
  expect(answer).toMatchObject({ status: 200, type: 'application/octet-stream' });
  return Profile.decode(await unzip(answer.bytes));
}

describe('pages', () => {
  it('are listed at the root and at every unknown path', async () => {
    const { port } = await start();
    for (const path of ['/', '/nothing', '/stats/']) {
      expect(await get(port, path)).toMatchObject({
        status: 200,
        type: text,
        body: `/console: a page that shows rules, counters and overrides, and changes them
/debug/pprof/: root of various pprof endpoints. hit for help.
/debug/pprof/heap: memory profiling endpoint
/debug/pprof/profile: CPU profiling endpoint
/livez: 200 while the process can answer, even if it is unhealthy
/rlconfig: print out the currently loaded configuration for debugging; parameters: format=json
/stats: print out stats
/v1: the admin API, which /v1/openapi.json describes
`,
      });
    }
  });

  it('show the rules and the statistics of the moment', async () => {
    let loaded: string[] = [];
    const { port } = await start({ rlconfigLines: () => loaded, statsLines: () => ['a.b: 1', 'a.c: 2'] });
    expect(await get(port, '/rlconfig')).toMatchObject({ status: 200, type: text, body: '' });
    loaded = ['d.k: unit=MINUTE requests_per_unit=20, shadow_mode: false, quota_mode: false'];
    expect(await get(port, '/rlconfig')).toMatchObject({ status: 200, type: text, body: `${loaded[0]}\n` });
    expect(await get(port, '/stats')).toMatchObject({ status: 200, type: text, body: 'a.b: 1\na.c: 2\n' });
  });

  it('show the rules as JSON if that is asked for', async () => {
    const { port } = await start({ rlconfigLines: () => ['a: b'], ruleFileLines: () => ['[', ']'] });
    const json = { status: 200, type: 'application/json', body: '[\n]\n' };
    expect(await get(port, '/rlconfig?format=json')).toMatchObject(json);
    expect(await get(port, '/rlconfig?format=text')).toMatchObject({ type: text, body: 'a: b\n' });
  });

  it('of others are listed and answered at their path alone', async () => {
    const pages: DebugPages = {
      root: '/more',
      described: { '/more': 'more' },
      kindOf: () => 'page',
      answer: async ({ response, target }) => sendText(response, 200, `${target.query}`),
    };
    const { port } = await start({ pages: [pages] });
    expect((await get(port, '/more?domain=a%26b&n=3')).body).toBe('domain=a%26b&n=3');
    expect((await get(port, '/more/')).body).toContain(
      '/livez: 200 while the process can answer, even if it is unhealthy\n/more: more\n/rlconfig',
    );
  });

  it('are alive', async () => {
    const { port } = await start();
    expect(await get(port, '/livez')).toMatchObject({ status: 200, type: text, body: 'OK' });
  });

  it('are redirected to their proper path', async () => {
    const { port } = await start();
    expect(await get(port, '//stats?x')).toMatchObject({ status: 301, headers: { location: '/stats?x' } });
    expect(await get(port, '/debug/pprof')).toMatchObject({
      status: 301,
      headers: { location: '/debug/pprof/' },
    });
    expect(await get(port, '/%zz')).toMatchObject({ status: 400, body: 'Bad Request\n' });
  });
});

describe('long pages', () => {
  it('leave turns of the event loop to others', async () => {
    let turn = 0;
    let running = true;
    const perTurn = new Map<number, number>();
    const spin = (): void => {
      turn++;
      if (running) setImmediate(spin);
    };
    spin();
    function* lines(): Generator<string> {
      for (let i = 0; i < 100_000; i++) {
        perTurn.set(turn, (perTurn.get(turn) ?? 0) + 1);
        yield `domain.key_value${i}: unit=MINUTE requests_per_unit=${i}, shadow_mode: false, quota_mode: false`;
      }
    }
    const { port } = await start({ rlconfigLines: lines });
    const { body } = await get(port, '/rlconfig');
    running = false;
    expect(body.split('\n')).toHaveLength(100_001);
    expect(Math.max(...perTurn.values())).toBeLessThanOrEqual(512);
  });

  it('come in slices when lines are long', async () => {
    const line = 'x'.repeat(50_000);
    const { port } = await start({ statsLines: () => Array.from({ length: 40 }, () => line) });
    expect((await get(port, '/stats')).body).toBe(`${line}\n`.repeat(40));
  });

  it('end when the reader goes away', async () => {
    let open = 0;
    function* endless(): Generator<string> {
      open++;
      try {
        for (;;) yield 'x'.repeat(1000);
      } finally {
        open--;
      }
    }
    const { port, faults } = await start({ statsLines: endless });
    const socket = connect(port, '127.0.0.1', () => socket.write('GET /stats HTTP/1.1\r\nHost: x\r\n\r\n'));
    await new Promise((resolve) => socket.once('data', resolve));
    expect(open).toBe(1);
    socket.destroy();
    await eventually(() => expect(open).toBe(0));
    expect(faults).toEqual([]);
  });

  it('are cut when a line cannot be made, and 500 when it is the first', async () => {
    let good = 0;
    function* broken(): Generator<string> {
      for (let i = 0; i < good; i++) yield 'good';
      throw new Error('cannot count');
    }
    const { port, faults } = await start({ statsLines: broken });
    expect(await get(port, '/stats')).toMatchObject({ status: 500, body: 'Internal Server Error\n' });
    good = 5_000;
    await expect(get(port, '/stats')).rejects.toThrow('aborted');
    expect(faults).toEqual(['Error: cannot count', 'Error: cannot count']);
    expect(await get(port, '/livez')).toMatchObject({ status: 200 });
  });
});

describe('/debug/pprof/', () => {
  it('has an index in HTML', async () => {
    const { port } = await start();
    const answer = await get(port, '/debug/pprof/');
    expect(answer).toMatchObject({ status: 200, type: 'text/html; charset=utf-8' });
    for (const link of ['href="heap"', 'href="profile"']) expect(answer.body).toContain(link);
  });

  it('knows no other profiles', async () => {
    const { port } = await start();
    for (const page of ['goroutine', 'cmdline', 'profile/x']) {
      expect(await get(port, `/debug/pprof/${page}`)).toMatchObject({
        status: 404,
        type: text,
        body: 'Unknown profile\n',
        headers: { 'x-go-pprof': '1' },
      });
    }
    expect(await get(port, '/debug/pprof/trace?seconds=5')).toMatchObject({
      status: 404,
      body: 'Unknown profile: traces are of the Go runtime; see /debug/pprof/profile\n',
    });
  });

  for (const seconds of ['0', '301', '-1', '1.5', 'x', '', '1e9', ' ']) {
    it(`rejects a CPU profile of "${seconds}" seconds`, async () => {
      const { port } = await start();
      expect(await get(port, `/debug/pprof/profile?seconds=${encodeURIComponent(seconds)}`)).toMatchObject({
        status: 400,
        body: `seconds must be a whole number from 1 to 300, not "${seconds}"\n`,
        headers: { 'x-go-pprof': '1' },
      });
    });
  }

  it('takes one CPU profile at a time', async () => {
    const { port } = await start();
    const answers = await Promise.all([1, 2].map(() => get(port, '/debug/pprof/profile?seconds=1')));
    const [taken, refused] = answers.sort((a, b) => a.status - b.status) as [Answer, Answer];
    expect(refused).toMatchObject({
      status: 409,
      body: 'Could not enable CPU profiling: cpu profiling already in use\n',
      headers: { 'x-go-pprof': '1' },
    });
    expect(taken).toMatchObject({ status: 200, type: 'application/octet-stream' });
    const profile = Profile.decode(await unzip(taken.bytes));
    expect(profile.sampleType.map(({ type }) => profile.stringTable.strings[Number(type)])).toEqual([
      'samples',
      'cpu',
    ]);
    await pprofAt(port, '/debug/pprof/profile?seconds=1');
  });

  it('asks a worker again whose last CPU profile failed', async () => {
    const askOne = async () => {
      throw new Error('the worker ended');
    };
    const workers = new Threads({ ...lone, count: 1, askOne }, 'pprof').of<ProfileMessages>();
    const { port, faults } = await start({ pages: [new PprofPages(systemClock, workers)] });
    const ask = async () => (await get(port, '/debug/pprof/profile?seconds=1&worker=1')).status;
    expect([await ask(), await ask()]).toEqual([500, 500]);
    expect(faults).toHaveLength(2);
  });

  it('stops a CPU profile when its reader goes away', async () => {
    const { port } = await start();
    const socket = connect(port, '127.0.0.1', () =>
      socket.write('GET /debug/pprof/profile?seconds=300 HTTP/1.1\r\nHost: x\r\n\r\n'),
    );
    const busy = async (): Promise<boolean> =>
      (await get(port, '/debug/pprof/profile?seconds=1')).status === 409;
    await eventually(async () => expect(await busy()).toBe(true), { intervalMs: 5 });
    socket.destroy();
    await eventually(async () => expect(await busy()).toBe(false));
  });

  it('answers a running CPU profile with what it has when the process ends', async () => {
    const { listener, port } = await start();
    const running = pprofAt(port, '/debug/pprof/profile?seconds=300');
    await eventually(
      async () => expect((await get(port, '/debug/pprof/profile?seconds=1')).status).toBe(409),
      { intervalMs: 5 },
    );
    await listener.close();
    expect(Number((await running).durationNanos)).toBeLessThan(30e9);
  });

  it('gives a heap profile at the first question, and rejects one over time', async () => {
    const { port } = await start();
    const kept = Array.from({ length: 200_000 }, (_, i) => ({ name: `object ${i}` }));
    const profile = await pprofAt(port, '/debug/pprof/heap');
    const bytes = profile.sample.reduce((sum, { value }) => sum + Number(value[1]), 0);
    expect(bytes).toBeGreaterThan(kept.length * 16);
    expect(await get(port, '/debug/pprof/heap?seconds=5')).toMatchObject({
      status: 400,
      body: 'the heap profile has no duration: ask without seconds\n',
    });
  });

  it('forgets dead objects when asked to collect them first', async () => {
    const { port } = await start();
    const bytesInUse = async (path: string): Promise<number> =>
      (await pprofAt(port, path)).sample.reduce((sum, { value }) => sum + Number(value[1]), 0);
    let kept: unknown[] | undefined = Array.from({ length: 400_000 }, (_, i) => ({ name: `object ${i}` }));
    const before = await bytesInUse('/debug/pprof/heap?gc=1');
    expect(before).toBeGreaterThan((kept?.length ?? 0) * 16);
    kept = undefined;
    expect(await bytesInUse('/debug/pprof/heap?gc=1')).toBeLessThan(before / 2);
  });
});

describe('listen', () => {
  it('fails with the address when the port is taken', async () => {
    const { port } = await start();
    const other = new DebugListener({
      rlconfigLines: () => [],
      ruleFileLines: () => [],
      statsLines: () => [],
      pages: [],
      closeGraceMs: 0,
      onFault: () => {},
    });
    const error = await other.listen({ host: '127.0.0.1', port }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(BindError);
    expect((error as BindError).message).toBe(
      `cannot listen on 127.0.0.1:${port}: address already in use (EADDRINUSE)`,
    );
    await other.close();
  });
});
