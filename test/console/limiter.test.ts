import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { picture } from '../support/browser.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { chromiumProgram, redisProgram } from '../support/find-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { LimiterConsole, patience } from './limiter-console.ts';

vi.setConfig({ testTimeout: 180_000 });

const views = [
  ...['Now', 'Rules', 'Counters', 'Overrides', 'Quota clients'],
  ...['Try a request', 'Over limit', 'Limiter'],
];

describeWithServer('the console of a limiter', chromiumProgram, () => {
  describeWithServer('with Redis', redisProgram, (redisPath) => {
    let at: LimiterConsole;
    const folder = suiteFolder();

    beforeAll(async () => {
      at = await LimiterConsole.open(folder, redisPath);
    }, 300_000);

    afterAll(() => at?.close());

    it('shows what happens now, and which callers were over limit', async () => {
      await at.row('203.0.113.7').first().waitFor();
      await at.page.locator('weir-chart canvas').waitFor();
      await eventually(async () => {
        await at.codes({ remote_address: '203.0.113.8' }, 12);
        const over = await at.page
          .locator('.tiles > div')
          .filter({ hasText: 'Limited' })
          .locator('dd')
          .textContent();
        expect(Number.parseFloat(over ?? '')).toBeGreaterThan(0);
      }, patience);
      // Of one point, a minute.
      const seconds = await at.page.evaluate(`(async () => {
        const chart = document.querySelector('weir-chart');
        chart.points = [[1_800_000_000, 3, 2, 1, 0]];
        await new Promise(requestAnimationFrame);
        return chart.dataset.seconds;
      })()`);
      expect(seconds).toBe('60');
      await at.page.getByText('As a table').click();
      await at.page.getByRole('table', { name: 'Decisions per second' }).waitFor();
      await at.page.getByText('As a table').click();
      await picture(at.page, 'limiter-now');
    });

    it('shows what callers chose as text, and what would be invisible', async () => {
      const cell = at.row('<img src=x').first();
      await cell.waitFor();
      expect(await cell.textContent()).toContain('U+202E');
      expect(await at.page.locator('main img').count()).toBe(0);
    });

    it('shows rules as a tree, with the callers most often over each limit', async () => {
      await at.view('Rules');
      const domain = at.page.getByRole('region', { name: 'Domain shop' });
      await domain.getByText('5 per year').waitFor();
      await domain.locator('.offender').filter({ hasText: '203.0.113.7' }).waitFor();
      await domain.getByText('path_/checkout', { exact: true }).waitFor();
      await domain.getByText('shadow', { exact: true }).waitFor();
      await domain.getByText('tenant', { exact: true }).click();
      await domain.getByText('path_/checkout', { exact: true }).waitFor({ state: 'hidden' });
      await at.page.getByLabel('Find').fill('user');
      await domain.getByText('5 per year').waitFor({ state: 'detached' });
      await at.page.getByText('600 per minute, token bucket').waitFor();
      await at.page.getByLabel('Find').fill('');
      await domain.getByText('tenant', { exact: true }).click();
    });

    it('says what hits are, and of which calendar', async () => {
      const window = 'calendar month (Europe/Zurich, from day 15)';
      await at.page.getByText(`micro-dollars per ${window}`).waitFor();
      await at.codes({ team: 'a' }, 2, 'api');
      await at.view('Counters');
      await at.find('api', 'team=a');
      await at.page.getByRole('button', { name: 'Find' }).click();
      const row = at.row('api.team');
      await row.getByText(window, { exact: true }).waitFor();
      await row.getByText(/^2 of 5.000.000.000 micro-dollars/).waitFor();
    });

    it('lists the counters of a domain', async () => {
      await at.view('Counters');
      await at.find('shop', '');
      await at.page.getByRole('button', { name: 'Find' }).click();
      await at.row('acme').first().waitFor();
      await at.row('U+202E').first().waitFor();
      await at.row('203.0.113.7').getByText('80%', { exact: true }).waitFor();
      await at.page.getByLabel('only over').check();
      await at.page.getByRole('button', { name: 'Find' }).click();
      await at.row('/search').first().waitFor({ state: 'detached' });
      await at.row('/checkout').first().waitFor();
    });

    it('says what reservations hold of a counter', async () => {
      const body = { domain: 'shop', descriptors: [[{ tenant: 'acme' }, { path: '/reserved' }]], amount: 7 };
      await fetch(`http://127.0.0.1:${at.limiter.ports.http}/v1/reserve`, {
        ...{ method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) },
      });
      await at.view('Counters');
      await at.find('shop', 'tenant=acme\npath=/reserved');
      await at.page.getByRole('button', { name: 'Find' }).click();
      await at.page.getByText(/^7 of it reserved, by 1 open reservation, the oldest/).waitFor();
    });

    it('shows which quota clients hold how much', async () => {
      await at.view('Quota clients');
      await at.page.getByText('Choose a domain.').waitFor();
      await at.find('api', '');
      await at.page.getByRole('button', { name: 'Find' }).click();
      await at.page.getByText('No quota client has reported a bucket of api').waitFor();
      const client = at.quotaClient();
      const row = at.row('user=robot');
      const cell = (label: string) => row.locator(`[data-label="${label}"]`);
      await cell('Denied').getByText('37', { exact: true }).waitFor();
      expect(await cell('Client').textContent()).toContain('127.0.0.1');
      expect(await cell('Rule').textContent()).toContain('api.user');
      expect(await cell('Used').textContent()).toBe('12');
      expect(Number.parseFloat((await cell('May use').textContent()) ?? '')).toBeGreaterThan(0);
      await at.row('U+202E').waitFor();
      await picture(at.page, 'limiter-quota-clients');
      await at.find('api', 'user=robot');
      await at.page.getByRole('button', { name: 'Find' }).click();
      await at.row('U+202E').waitFor({ state: 'detached' });
      client.close();
      await at.page.getByText('No quota client has an assignment for such buckets.').waitFor();
    });

    it('tries a request without counting it', async () => {
      await at.view('Try a request');
      await at.find('shop', 'tenant=acme\npath=/checkout');
      const before = (await at.limiter.stats()).get(
        'ratelimit.service.rate_limit.shop.tenant.path_/checkout.total_hits',
      );
      await at.page.getByRole('button', { name: 'Try', exact: true }).click();
      await at.page.locator('.stop').filter({ hasText: 'exact value' }).waitFor();
      await at.page.locator('.stop.end').filter({ hasText: '10 per year' }).waitFor();
      expect(
        (await at.limiter.stats()).get('ratelimit.service.rate_limit.shop.tenant.path_/checkout.total_hits'),
      ).toBe(before);
      await picture(at.page, 'limiter-try');
      await at.find('shop', 'tenat=acme');
      await at.page.getByRole('button', { name: 'Try', exact: true }).click();
      await at.page.locator('.stop.end').filter({ hasText: 'No rule' }).waitFor();
    });

    it('shows its store and its rules', async () => {
      await at.view('Limiter');
      await at.page.getByText('redis', { exact: true }).first().waitFor();
      await at.page.getByText('Breaker', { exact: true }).waitFor();
    });

    it('is used by the keyboard alone, with a focus that is seen', async () => {
      const keys = await at.browser.open(at.address);
      await keys.getByRole('heading', { name: 'Now', level: 1 }).waitFor();
      const focused = () => keys.evaluate<string>('document.activeElement?.textContent?.trim() ?? ""');
      await keys.keyboard.press('Tab');
      expect(await focused()).toBe('Skip to content');
      for (const name of views) {
        for (let i = 0; i < 20 && (await focused()) !== name; i++) await keys.keyboard.press('Tab');
        expect(await focused()).toBe(name);
        expect(await keys.evaluate('getComputedStyle(document.activeElement).outlineStyle')).toBe('solid');
      }
      for (let i = 0; i < 20 && (await focused()) !== 'Counters'; i++) await keys.keyboard.press('Shift+Tab');
      await keys.keyboard.press('Enter');
      await keys.getByRole('heading', { name: 'Counters', level: 1 }).waitFor();
      await keys.keyboard.press('Tab');
      await keys.keyboard.type('shop');
      await keys.keyboard.press('Tab');
      await keys.keyboard.type('remote_address=203.0.113.7');
      for (let i = 0; i < 5 && (await focused()) !== 'Find'; i++) await keys.keyboard.press('Tab');
      await keys.keyboard.press('Enter');
      await keys.getByRole('button', { name: 'Reset' }).focus();
      await keys.keyboard.press('Enter');
      await keys.getByRole('dialog').waitFor();
      expect(await focused()).toBe('Cancel');
      await keys.keyboard.press('Escape');
      await keys.getByRole('dialog').waitFor({ state: 'detached' });
      expect(await focused()).toMatch(/^Reset/);
      await keys.close();
    });

    it('is light or dark as the system is, or as its button says', async () => {
      const ground = (of: Page) => of.evaluate<string>('getComputedStyle(document.body).backgroundColor');
      const dark = await at.browser.open(at.address, { scheme: 'dark' });
      await dark.locator('weir-chart canvas').waitFor();
      expect(await ground(dark)).not.toBe(await ground(at.page));
      await dark.locator('tbody tr').filter({ hasText: '203.0.113.7' }).first().waitFor();
      const button = dark.locator('.theme');
      await button.click();
      expect(await ground(dark)).toBe(await ground(at.page));
      await dark.reload();
      await button.filter({ hasText: 'Light' }).waitFor();
      expect(await ground(dark)).toBe(await ground(at.page));
      await dark.close();
    });

    it('shows on a phone which number is of which key', async () => {
      await at.codes({ remote_address: '2001:db8:85a3:8d3:1319:8a2e:370:7348' }, 8);
      const phone = await at.browser.open(at.address, { width: 360, height: 740 });
      await phone.getByRole('link', { name: 'Rules', exact: true }).click();
      await phone.locator('.offender').filter({ hasText: '2001:db8' }).waitFor();
      // What wraps in the middle of a line is several boxes, with another key beside its number.
      const boxes = await phone
        .locator('.offender')
        .evaluateAll((all) => all.map((one) => one.getClientRects().length));
      expect(new Set(boxes)).toEqual(new Set([1]));
      await phone.close();
    });

    it('fits a phone, every view of it', async () => {
      const phone = await at.browser.open(at.address, { width: 360, height: 740 });
      for (const name of views) {
        await phone.getByRole('navigation').getByRole('link', { name, exact: true }).click();
        await phone.getByRole('heading', { name, level: 1, exact: true }).waitFor();
        await phone.getByText('Loading …').first().waitFor({ state: 'hidden' });
        expect([name, await phone.evaluate('document.documentElement.scrollWidth')]).toEqual([name, 360]);
      }
      await phone.getByRole('link', { name: 'Now', exact: true }).click();
      await phone.locator('weir-chart canvas').waitFor();
      await picture(phone, 'limiter-phone');
      await phone.close();
    });

    it('marks what is from before if a request is rejected, or a proxy answers for its limiter', async () => {
      await at.view('Limiter');
      await at.page.getByText('Breaker', { exact: true }).waitFor();
      const problem = { title: 'Service Unavailable', status: 503, detail: 'nothing to say now' };
      await at.page.route('**/v1/status*', (route) => route.fulfill({ status: 503, json: problem }));
      await at.page.getByText('nothing to say now – This is older data.').waitFor();
      await at.page.locator('.before').getByText('Breaker', { exact: true }).waitFor();
      await at.page.unrouteAll();
      await at.page.getByText('nothing to say now').waitFor({ state: 'detached' });
      await at.page.route('**/v1/**', (route) =>
        route.fulfill({ status: 502, body: '<h1>Bad Gateway</h1>' }),
      );
      await at.page.getByText(/The limiter has not answered since/).waitFor();
      await at.page.unrouteAll();
      await at.page.getByText(/The limiter does not answer/).waitFor({ state: 'detached' });
    });

    it('says that its limiter died, and continues when it is back, with a token if that is asked for', async () => {
      await at.view('Limiter');
      await at.limiter.stop();
      await at.page.getByText(/The limiter has not answered since/).waitFor({ timeout: 90_000 });
      writeFileSync(join(at.folder, 'token'), 'correct-horse-battery\n');
      await at.start({ DEBUG_TOKEN_FILE: join(at.folder, 'token') });
      await at.page.getByLabel('Token').fill('wrong-horse-battery');
      await at.page.getByRole('button', { name: 'Go on' }).click();
      await at.page.getByText('This token is not accepted').waitFor();
      await at.page.getByLabel('Token').fill('correct-horse-battery');
      await at.page.getByRole('button', { name: 'Go on' }).click();
      await at.page.getByText('Breaker', { exact: true }).waitFor();
      await at.page.getByText(/The limiter does not answer/).waitFor({ state: 'detached' });
      expect(
        await at.page.evaluate('[sessionStorage.length, JSON.stringify(localStorage).includes("horse")]'),
      ).toEqual([1, false]);
      await at.page.reload();
      await at.page.getByText('Breaker', { exact: true }).waitFor();
    });

    it('broke no rule of its policy, met no error, and sent no request elsewhere', () => {
      expect(at.browser.complaints).toEqual([]);
    });
  });
});
