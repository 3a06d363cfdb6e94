import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { picture, TestBrowser } from '../support/browser.ts';
import { startXdsLimiter } from '../support/cluster.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { chromiumProgram } from '../support/find-server.ts';
import { InProcessControlPlane } from '../support/in-process-control-plane.ts';
import type { LimiterProcess } from '../support/limiter-process.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { ScriptedXdsClient } from '../support/xds-client.ts';

vi.setConfig({ testTimeout: 180_000 });

const views = ['Fleets', 'Objects', 'Rollout', 'Overrides', 'Rejections'];
const words = 'domain shop: more than I can hold <b>now</b>';

const override = `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitOverride
metadata: { name: import, namespace: default }
spec:
  domain: shop
  match: [{ key: key, value: acme }]
  requestsPerUnit: 500
  expiresAt: "${new Date(Date.now() + 2 * 3_600_000).toISOString()}"
  reason: import until noon
`;

describeWithServer('the console of a control plane', chromiumProgram, () => {
  const manifests = join(suiteFolder(), 'manifests');
  let browser: TestBrowser;
  let controlPlane: InProcessControlPlane;
  let limiters: LimiterProcess[] = [];
  let page: Page;
  let rejectingClient: ScriptedXdsClient | undefined;

  const put = (requests: number): void =>
    writeFileSync(
      join(manifests, 'shop.yaml'),
      rateLimitConfigText({ name: 'shop', domain: 'shop', requests }),
    );
  const view = async (name: string): Promise<void> => {
    await page.getByRole('navigation').getByRole('link', { name, exact: true }).click();
    await page.getByRole('heading', { name, level: 1, exact: true }).waitFor();
  };
  const row = (text: string) => page.locator('tbody tr').filter({ hasText: text });

  beforeAll(async () => {
    mkdirSync(manifests, { recursive: true });
    put(5);
    writeFileSync(
      join(manifests, 'bad.yaml'),
      rateLimitConfigText({ name: 'twin', domain: 'shop', requests: 1 }),
    );
    const env = { SOURCE: 'DIRECTORY', MANIFESTS_DIRECTORY: manifests };
    [browser, controlPlane] = await Promise.all([TestBrowser.start(), InProcessControlPlane.start({ env })]);
    const { xds } = controlPlane.ports;
    limiters = await Promise.all(['limiter-0', 'limiter-1'].map((name) => startXdsLimiter(xds, name)));
    page = await browser.open(`http://127.0.0.1:${controlPlane.ports.http}/console`);
  }, 120_000);

  afterAll(async () => {
    rejectingClient?.close();
    await browser?.close();
    await Promise.all(limiters.map((one) => one.stop()));
    await controlPlane?.stop();
  });

  it('shows fleets, their limiters, and what these have in force', async () => {
    await row('limiter-0').filter({ hasText: 'in force' }).waitFor();
    await row('limiter-1').filter({ hasText: 'in force' }).waitFor();
    await page.getByText('in force on 2 of 2').first().waitFor();
  });

  it('shows objects with their standing and its reasons, those that are not ready first', async () => {
    await view('Objects');
    await row('default/shop').filter({ hasText: 'Programmed: AllLimiters' }).waitFor();
    await page
      .locator('tbody tr')
      .first()
      .filter({ hasText: 'default/twin' })
      .filter({ hasText: /Conflict|Duplicate/ })
      .waitFor();
    await page.getByLabel('Show').selectOption('waiting');
    await page.getByRole('rowheader', { name: 'default/shop' }).waitFor({ state: 'detached' });
  });

  it('shows a change on its way, as it happens', async () => {
    await view('Rollout');
    await page.getByText('No events yet').waitFor();
    put(7);
    await page.getByRole('log').getByText('a change: version').waitFor();
    for (const name of ['limiter-0', 'limiter-1']) {
      await page
        .getByRole('listitem')
        .filter({ hasText: name })
        .filter({ hasText: 'in force' })
        .first()
        .waitFor();
    }
    await page.getByText('in force on 2 of 2').first().waitFor();
    await picture(page, 'control-plane-rollout');
  });

  it('shows overrides with the time they have left, and changes none', async () => {
    writeFileSync(join(manifests, 'override.yaml'), override);
    await view('Overrides');
    await row('acme')
      .filter({ hasText: /1\sh 5\d\smin/ })
      .filter({ hasText: 'import until noon' })
      .waitFor();
    expect(await page.getByRole('main').getByRole('button').count()).toBe(0);
  });

  it('shows what a limiter rejects, in its words', async () => {
    rejectingClient = new ScriptedXdsClient({
      port: controlPlane.ports.xds,
      nodeId: 'limiter-2',
      userAgentName: 'weir',
      refuses: words,
    });
    await view('Rejections');
    await row('limiter-2').filter({ hasText: words }).waitFor();
    await view('Fleets');
    await row('limiter-2').filter({ hasText: 'rejected' }).waitFor();
    await page.getByRole('banner').getByText('1 rejects').waitFor();
  });

  it('fits a phone, every view of it, in the dark', async () => {
    const phone = await browser.open(page.url(), { width: 360, height: 740, scheme: 'dark' });
    for (const name of views) {
      await phone.getByRole('navigation').getByRole('link', { name, exact: true }).click();
      await phone.getByRole('heading', { name, level: 1, exact: true }).waitFor();
      await phone.getByText('Loading …').first().waitFor({ state: 'hidden' });
      expect([name, await phone.evaluate('document.documentElement.scrollWidth')]).toEqual([name, 360]);
    }
    await phone.close();
  });

  it('says that it ended', async () => {
    await controlPlane.stop();
    await page.getByText(/The control plane has not answered since/).waitFor({ timeout: 90_000 });
  });

  it('broke no rule of its policy, met no error, and sent no request elsewhere', () => {
    expect(browser.complaints).toEqual([]);
  });
});
