import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { chromiumProgram, findServer } from './find-server.ts';
import { machineLoad } from './machine-load.ts';

export interface PageLook {
  width?: number;
  height?: number;
  scheme?: 'light' | 'dark';
}

/** A headless Chromium, and what its pages complained of: errors of scripts, rejections of the policy, what was asked elsewhere. */
export class TestBrowser {
  readonly complaints: string[] = [];
  readonly #browser: Browser;

  constructor(browser: Browser) {
    this.#browser = browser;
  }

  /** `hosts` are names that it finds on this machine, whatever the DNS says. */
  static async start({ hosts = [] }: { hosts?: readonly string[] } = {}): Promise<TestBrowser> {
    const found = findServer(chromiumProgram);
    if ('missing' in found) throw new Error(found.missing);
    // As root it has no sandbox of its own; pages are ours alone.
    const args = [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--force-device-scale-factor=1',
      `--host-resolver-rules=${hosts.map((host) => `MAP ${host} 127.0.0.1`).join(',')}`,
    ];
    return new TestBrowser(await chromium.launch({ executablePath: found.path, args, timeout: 60_000 }));
  }

  /** A page with nothing remembered, neither token nor theme. */
  async open(url: string, { width = 1_200, height = 800, scheme = 'light' }: PageLook = {}): Promise<Page> {
    const page = await this.#browser.newPage({
      viewport: { width, height },
      colorScheme: scheme,
      timezoneId: 'UTC',
      locale: 'en-GB',
    });
    page.setDefaultTimeout(30_000 * machineLoad());
    const { host } = new URL(url);
    page.on('console', (message) => {
      // Chromium's own line for every answer that is no success, and for none at all.
      if (/^Failed to load resource/.test(message.text())) return;
      if (/error|warning/.test(message.type())) this.complaints.push(message.text());
    });
    page.on('pageerror', (error) => this.complaints.push(String(error.stack)));
    page.on('request', (request) => {
      if (new URL(request.url()).host !== host) this.complaints.push(`asked elsewhere: ${request.url()}`);
    });
    await page.goto(url);
    return page;
  }

  async close(): Promise<void> {
    await this.#browser.close();
  }
}

/** Where `npm run screenshots` wants pictures; undefined in a usual run. */
export const picturesFolder = process.env['SCREENSHOTS_FOLDER'];

/** Keeps what the page looks like, where somebody wants that. */
export async function picture(page: Page, name: string): Promise<void> {
  if (picturesFolder === undefined) return;
  mkdirSync(picturesFolder, { recursive: true });
  await page.screenshot({ path: join(picturesFolder, `${name}.png`) });
}
