/** What a page of another origin gets from the debug listener and from the control plane, by a real browser. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { TestBrowser } from '../support/browser.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { chromiumProgram } from '../support/find-server.ts';
import { InProcessControlPlane } from '../support/in-process-control-plane.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { suiteFolder } from '../support/suite-folder.ts';

vi.setConfig({ testTimeout: 180_000 });

/** Another address of this machine than loopback, as a colleague would ask for it. */
const outside = Object.values(networkInterfaces())
  .flatMap((addresses) => addresses ?? [])
  .find(({ family, internal }) => family === 'IPv4' && !internal)?.address;
const rebound = 'rebound.example';
const profile = '/debug/pprof/profile?seconds=1';

/** Asks for everything that it is given, in each way in which a page can. */
const evil = (targets: string[]) => `<!doctype html><title>evil</title>
<a id="link" href="${targets[0]}">a link</a>
${targets.map((url) => `<img src="${url}"><img referrerpolicy="no-referrer" src="${url}"><iframe src="${url}"></iframe>`).join('\n')}
<script>
  document.title = 'asking';
  Promise.allSettled(${JSON.stringify(targets)}.map((url) => fetch(url, { mode: 'no-cors' }))).then(() => {
    document.title = 'asked';
  });
</script>`;

describeWithServer('a page of another origin', chromiumProgram, () => {
  const folder = suiteFolder();
  let browser: TestBrowser;
  let limiter: InProcessLimiter;
  let controlPlane: InProcessControlPlane;
  let wiki: Server;
  let targets: string[] = [];

  beforeAll(async () => {
    mkdirSync(join(folder, 'config'));
    mkdirSync(join(folder, 'manifests'));
    writeFileSync(join(folder, 'config', 'shop.yaml'), 'domain: shop\ndescriptors: []\n');
    const manifest = rateLimitConfigText({ name: 'shop', domain: 'shop', requests: 5 });
    writeFileSync(join(folder, 'manifests', 'shop.yaml'), manifest);
    wiki = createServer((_, response) => {
      response.setHeader('Content-Type', 'text/html');
      response.end(evil(targets));
    });
    await new Promise<void>((resolve) => wiki.listen(0, '0.0.0.0', resolve));
    const env = { RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: 'config', DEBUG_HOST: '0.0.0.0' };
    [browser, limiter, controlPlane] = await Promise.all([
      TestBrowser.start({ hosts: [rebound] }),
      InProcessLimiter.start({ env }),
      InProcessControlPlane.start({
        env: {
          SOURCE: 'DIRECTORY',
          MANIFESTS_DIRECTORY: join(folder, 'manifests'),
          HOST: '0.0.0.0',
          XDS_ALLOW_ANONYMOUS: 'true',
        },
      }),
    ]);
  });
  afterAll(async () => {
    await Promise.all([browser.close(), limiter.stop(), controlPlane.stop()]);
    wiki.close();
  });

  /** The statuses that the page's requests got, by path; a request that the browser itself kept back has none. */
  async function attack(host: string): Promise<Map<string, Set<number>>> {
    const debug = `http://${host}:${limiter.ports.debug}`;
    targets = ['/stats', '/top', '/rlconfig', profile, '/debug/pprof/heap', '/v1/status'].map(
      (path) => debug + path,
    );
    targets.push(`http://${host}:${controlPlane.ports.http}/snapshot`);
    const page = await browser.open('about:blank');
    const statuses = new Map<string, Set<number>>();
    page.on('response', (response) => {
      const { port, pathname } = new URL(response.url());
      if (port === wikiPort()) return;
      statuses.set(pathname, (statuses.get(pathname) ?? new Set()).add(response.status()));
    });
    await page.goto(`http://${host}:${wikiPort()}/`, { waitUntil: 'load' });
    await eventually(async () => expect(await page.title()).toBe('asked'), { timeoutMs: 30_000 });
    await page.close();
    return statuses;
  }
  const wikiPort = () => `${(wiki.address() as AddressInfo).port}`;

  it('gets nothing at loopback', async () => {
    const statuses = await attack('127.0.0.1');
    for (const path of [
      '/stats',
      '/top',
      '/rlconfig',
      '/debug/pprof/profile',
      '/debug/pprof/heap',
      '/v1/status',
      '/snapshot',
    ]) {
      expect([path, [...(statuses.get(path) ?? [])]]).toEqual([path, [403]]);
    }
  });

  it.skipIf(outside === undefined)(
    'starts no profile at another address, if browsers say little',
    async () => {
      const statuses = await attack(outside as string);
      for (const path of ['/debug/pprof/profile', '/debug/pprof/heap']) {
        expect([path, [...(statuses.get(path) ?? [])]]).toEqual([path, [403]]);
      }
      // An image without a Referer is answered: the page cannot read it, and it costs nothing.
      for (const path of ['/stats', '/top', '/snapshot']) expect(statuses.get(path)).toContain(403);
    },
  );

  it('reads nothing by a name that it lets point here', async () => {
    const page = await browser.open('about:blank');
    for (const url of [
      `http://${rebound}:${limiter.ports.debug}/top`,
      `http://${rebound}:${limiter.ports.debug}${profile}`,
      `http://${rebound}:${controlPlane.ports.http}/snapshot`,
      `http://${rebound}:${controlPlane.ports.http}/`,
    ]) {
      const answer = await page.goto(url);
      expect([url, answer?.status()]).toEqual([url, 403]);
      expect(await answer?.text()).toContain('DEBUG_ALLOWED_HOSTS');
    }
    expect((await page.goto(`http://${rebound}:${controlPlane.ports.http}/healthz`))?.status()).toBe(200);
    await page.close();
  });

  describe.each([['127.0.0.1'], ...(outside === undefined ? [] : [[outside]])])('at %s', (host) => {
    const follow = async (target: string): Promise<number | undefined> => {
      targets = [target];
      const page = await browser.open('about:blank');
      await page.goto(`http://${host}:${wikiPort()}/`);
      const { pathname } = new URL(target);
      const answered = page.waitForResponse(
        (response) =>
          new URL(response.url()).pathname === pathname &&
          response.frame() === page.mainFrame() &&
          response.request().isNavigationRequest(),
      );
      await page.locator('#link').click({ noWaitAfter: true });
      const status = (await answered).status();
      await page.close();
      return status;
    };

    it('may link to a page', async () => {
      expect(await follow(`http://${host}:${limiter.ports.debug}/stats`)).toBe(200);
      expect(await follow(`http://${host}:${controlPlane.ports.http}/snapshot`)).toBe(200);
    });

    it('may not link to a profile', async () => {
      expect(await follow(`http://${host}:${limiter.ports.debug}${profile}`)).toBe(403);
    });
  });
});
