import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { chromiumProgram, redisProgram } from '../support/find-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { LimiterConsole, patience } from './limiter-console.ts';

vi.setConfig({ testTimeout: 120_000 });

describeWithServer('changes by the console of a limiter', chromiumProgram, () => {
  describeWithServer('with Redis', redisProgram, (redisPath) => {
    let at: LimiterConsole;
    const folder = suiteFolder();

    beforeAll(async () => {
      at = await LimiterConsole.open(folder, redisPath);
    }, 300_000);

    afterAll(() => at?.close());

    it('resets a counter, once asked, and says which limiters confirmed it', async () => {
      await at.view('Counters');
      await at.find('shop', 'remote_address=203.0.113.7');
      await at.page.getByRole('button', { name: 'Find' }).click();
      await at
        .row('203.0.113.7')
        .filter({ hasText: /9\s*of 5/ })
        .waitFor();
      await at.row('203.0.113.7').getByRole('button', { name: 'Reset' }).click();
      const dialog = at.page.getByRole('dialog', { name: 'Reset this counter?' });
      await dialog.waitFor();
      // Going to another view takes the question away.
      const place = new URL(at.page.url()).hash;
      await at.page.evaluate("location.hash = '#overrides'");
      await dialog.waitFor({ state: 'detached' });
      await at.page.evaluate(`location.hash = ${JSON.stringify(place)}`);
      await at.row('203.0.113.7').getByRole('button', { name: 'Reset' }).click();
      await dialog.getByRole('button', { name: 'Cancel' }).click();
      expect(await at.codes({ remote_address: '203.0.113.7' }, 1)).toEqual([429]);
      await at.row('203.0.113.7').getByRole('button', { name: 'Reset' }).click();
      await dialog.getByRole('button', { name: 'Reset' }).click();
      await at.page.getByText('Reset 1 counter; 1 of 1 limiters confirmed it.').waitFor();
      await at
        .row('203.0.113.7')
        .filter({ hasText: /0\s*of 5/ })
        .waitFor();
      expect(await at.codes({ remote_address: '203.0.113.7' }, 6)).toEqual([200, 200, 200, 200, 200, 429]);
    });

    it('grants some more', async () => {
      await at.row('203.0.113.7').getByRole('button', { name: 'Grant' }).click();
      const dialog = at.page.getByRole('dialog', { name: 'Grant more hits to this key?' });
      await dialog.getByLabel('Additional hits').fill('3');
      await dialog.getByLabel('Reason').fill('night shift');
      await dialog.getByRole('button', { name: 'Grant' }).click();
      await at.page.getByText(/Granted 3 more/).waitFor();
      await eventually(
        async () => expect(await at.codes({ remote_address: '203.0.113.7' }, 1)).toEqual([200]),
        patience,
      );
    });

    it('sets an override, shows how long it has left, and removes it', async () => {
      await at.view('Overrides');
      await at.find('shop', 'remote_address=203.0.113.9');
      await at.page.getByLabel('Effect').selectOption('block');
      await at.page.getByLabel('Reason').fill('scraper');
      await at.page.getByRole('button', { name: 'Create …' }).click();
      const dialog = at.page.getByRole('dialog', { name: 'Create this override?' });
      await dialog.getByText('blocked instead of 5 per year').waitFor();
      await dialog.getByRole('button', { name: 'Create', exact: true }).click();
      await at
        .row('203.0.113.9')
        .filter({ hasText: 'InForce' })
        .filter({ hasText: /1\sh 59\smin/ })
        .waitFor();
      await eventually(
        async () => expect(await at.codes({ remote_address: '203.0.113.9' }, 1)).toEqual([429]),
        patience,
      );
      await at.row('203.0.113.9').getByRole('button', { name: 'Remove' }).click();
      await at.page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
      await at.page.getByText(/Removed the override/).waitFor();
      await eventually(
        async () => expect(await at.codes({ remote_address: '203.0.113.9' }, 1)).toEqual([200]),
        patience,
      );
    });

    it('replaces the override that is there, once asked again', async () => {
      for (const limit of ['50', '60']) {
        await at.find('shop', 'remote_address=203.0.113.10');
        await at.page.getByLabel('Effect').selectOption('requestsPerUnit');
        await at.page.getByLabel('Requests per year').fill(limit);
        await at.page.getByText('In force: 5 per year').waitFor();
        await at.page.getByLabel('Reason').fill('import');
        await at.page.getByRole('button', { name: 'Create …' }).click();
        await at.page.getByRole('dialog').getByText(`${limit} per year instead of 5 per year`).waitFor();
        await at.page.getByRole('dialog').getByRole('button', { name: 'Create', exact: true }).click();
        if (limit === '60')
          await at.page.getByRole('dialog').getByRole('button', { name: 'Replace' }).click();
        await at
          .row('203.0.113.10')
          .filter({ hasText: `${limit} per year instead of 5 per year` })
          .waitFor();
      }
      expect(await at.row('203.0.113.10').count()).toBe(1);
    });

    it('labels the number with the unit that it is for', async () => {
      await at.page.getByLabel('Effect').selectOption('requestsPerUnit');
      await at.find('api', 'nobody=1');
      await at.page.getByText('No limit is in force.').waitFor();
      for (const unit of ['hour', 'minute']) {
        await at.page.locator('select[name=unit]').selectOption(unit);
        await at.page.getByLabel(`Requests per ${unit}`).waitFor();
      }
      await at.page.getByLabel('Entries').fill('team=a');
      await at.page.getByLabel('Micro-dollars per calendar month').waitFor();
      expect(await at.page.locator('select[name=unit]').count()).toBe(0);
      await at.page.getByLabel('Entries').fill('team=*');
      await at.page.getByLabel('Requests per minute').waitFor();
    });

    it('warns of a key that no rule has, whatever is to be done with it', async () => {
      await at.page.getByLabel('Effect').selectOption('block');
      await at.find('shop', 'remote_adress=203.0.113.*');
      await at.page
        .getByText('no rule of "shop" has the key "remote_adress"; did you mean "remote_address"?')
        .waitFor();
    });

    it('says what is wrong with a change before it asks', async () => {
      await at.find('shop', 'remote_address=203.0.113.11');
      await at.page.getByLabel('Effect').selectOption('unlimited');
      await at.page.getByLabel('Time').fill('40d');
      await at.page.getByLabel('Reason').fill('too long');
      await at.page.getByRole('button', { name: 'Create …' }).click();
      await at.page
        .getByRole('alert')
        .filter({ hasText: /30|2592000|OVERRIDES_MAX_SECONDS/ })
        .waitFor();
      expect(await at.page.getByRole('dialog').count()).toBe(0);
    });

    it('finds requests over limit by their key', async () => {
      await at.view('Over limit');
      await at.row('/checkout').first().waitFor();
      await at.find('shop', 'remote_address=203.0.113.7');
      await at.page.getByRole('button', { name: 'Find' }).click();
      await at.row('/checkout').first().waitFor({ state: 'detached' });
      await at.row('203.0.113.7').filter({ hasText: 'of 5' }).first().waitFor();
      await at.row('203.0.113.7').first().getByRole('link').click();
      await at.page.getByRole('heading', { name: 'Counters', level: 1 }).waitFor();
      await at.row('203.0.113.7').getByRole('button', { name: 'Reset' }).waitFor();
    });
  });
});
