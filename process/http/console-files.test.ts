import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { httpAsk } from '../../test/support/http-ask.ts';
import { ConsoleFiles } from './console-files.ts';
import { HttpServer } from './http-server.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function start(page: ConstructorParameters<typeof ConsoleFiles>[0] = 'limiter.html'): Promise<number> {
  const files = new ConsoleFiles(page);
  const server = new HttpServer({
    serve: (call) => files.answer(call),
    closeGraceMs: 1_000,
    onFault: (error) => {
      throw error;
    },
  });
  cleanups.push(() => server.close());
  return (await server.listen({ host: '127.0.0.1', port: 0 })).port;
}

/** The files that a page or a module includes, as paths of the listener. Markup counts for the page, in whichever file it is. */
function namedBy(path: string, text: string): string[] {
  const markup = text.matchAll(/(?:src|href)="(console\/[^"]+)"/g);
  const imports = text.matchAll(/(?:from|^import) '(\.[^']+)'/gm);
  return [
    ...Array.from(markup, ([, name]) => `/${name}`),
    ...Array.from(imports, ([, name = '']) => new URL(name, `http://console${path}`).pathname),
  ];
}

describe('the files of the console', () => {
  it.each(['limiter.html', 'control-plane.html'] as const)('are all there that %s takes in', async (page) => {
    const port = await start(page);
    const seen = new Set(['/console']);
    for (const path of seen) {
      const answer = await httpAsk(port, path);
      expect([path, answer.status]).toEqual([path, 200]);
      for (const named of path.includes('node_modules') ? [] : namedBy(path, answer.body)) seen.add(named);
    }
    expect([...seen]).toContain('/console/node_modules/lit-html/lit-html.js');
    expect(seen.size).toBeGreaterThan(8);
  });

  it('let a page take nothing from elsewhere, run nothing inline and stand in no frame', async () => {
    const port = await start();
    for (const path of ['/console', '/console/files/limiter.js', '/console/files/frame.css']) {
      const { headers } = await httpAsk(port, path);
      expect(headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cache-control': 'no-cache',
      });
      const policy = String(headers['content-security-policy']).split('; ');
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("script-src 'self'");
      expect(policy).toContain("style-src 'self'");
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy.join()).not.toMatch(/unsafe|http|data:|\*/);
    }
    const page = readFileSync(new URL('../../console/limiter.html', import.meta.url), 'utf8');
    expect((await httpAsk(port, '/console')).body).toBe(page);
  });

  it('are requested again at each visit, and sent if they changed', async () => {
    const port = await start();
    const { headers } = await httpAsk(port, '/console/files/shell.js');
    const again = { headers: { 'if-none-match': String(headers['etag']) } };
    expect(await httpAsk(port, '/console/files/shell.js', again)).toMatchObject({ status: 304, body: '' });
    expect(await httpAsk(port, '/console/files/parts.js', again)).toMatchObject({ status: 200 });
  });

  it.each([
    '/console/',
    '/console/package.json',
    '/console/files/limiter.html',
    '/console/files/nothing.js',
    '/console/files/..%5cpackage.js',
    '/console/node_modules/lit-html/package.json',
    '/console/node_modules/pino/pino.js',
  ])('are nothing else of the package: %s', async (path) => {
    expect(await httpAsk(await start(), path)).toMatchObject({ status: 404 });
  });

  it('are for reading alone', async () => {
    const port = await start();
    const answer = await httpAsk(port, '/console', { method: 'POST' });
    expect(answer).toMatchObject({ status: 405, headers: { allow: 'GET, HEAD' } });
    expect(await httpAsk(port, '/console', { method: 'HEAD' })).toMatchObject({ status: 200, body: '' });
  });
});
