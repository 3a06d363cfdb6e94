/** A limiter with Redis, some traffic, and its console in a browser. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Locator, Page } from 'playwright-core';
import { picturesFolder, TestBrowser } from '../support/browser.ts';
import { freePort } from '../support/free-port.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { QuotaClient } from '../support/quota-client.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';

const shop = `
domain: shop
descriptors:
  - key: remote_address
    rate_limit: { unit: year, requests_per_unit: 5, warn_at: [80] }
  - key: tenant
    descriptors:
      - key: path
        value: /checkout
        rate_limit: { unit: year, requests_per_unit: 10 }
      - key: path
        rate_limit: { unit: hour, requests_per_unit: 1000 }
        shadow_mode: true
`;
const api = `
domain: api
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 600, algorithm: token_bucket }
  - key: team
    rate_limit:
      calendar: { unit: month, timezone: Europe/Zurich, starts_on: 15 }
      requests_per_unit: 5000000000
      hits_unit: micro-dollars
`;
/** Of a caller who would like to be more than text. */
export const hostile = '<img src=x onerror=alert(1)>\u202egpj';
export const patience = { timeoutMs: 15_000 };

export class LimiterConsole {
  readonly folder: string;
  readonly browser: TestBrowser;
  readonly #redis: RedisServer;
  readonly #port: number;
  limiter!: InProcessLimiter;
  page!: Page;

  constructor(folder: string, browser: TestBrowser, redis: RedisServer, port: number) {
    this.folder = folder;
    this.browser = browser;
    this.#redis = redis;
    this.#port = port;
  }

  static async open(folder: string, redisPath: string): Promise<LimiterConsole> {
    mkdirSync(join(folder, 'config'));
    writeFileSync(join(folder, 'config', 'shop.yaml'), shop);
    writeFileSync(join(folder, 'config', 'api.yaml'), api);
    const [browser, redis] = await Promise.all([TestBrowser.start(), startRedis({ path: redisPath })]);
    const at = new LimiterConsole(folder, browser, redis, await freePort());
    await at.start();
    await at.codes({ remote_address: '203.0.113.7' }, 9);
    await at.codes({ remote_address: hostile }, 7);
    await at.codes({ tenant: 'acme', path: '/checkout' }, 12);
    await at.codes({ tenant: 'acme', path: '/search' }, 4);
    await at.codes({ user: 'alice' }, 6, 'api');
    if (picturesFolder !== undefined) await at.playTraffic(120_000);
    at.page = await browser.open(at.address);
    return at;
  }

  get address(): string {
    return `http://127.0.0.1:${this.#port}/console`;
  }

  async start(env: Record<string, string> = {}): Promise<void> {
    this.limiter = await InProcessLimiter.start({
      env: {
        BACKEND_TYPE: 'redis',
        REDIS_SOCKET_TYPE: 'tcp',
        REDIS_URL: `127.0.0.1:${this.#redis.port}`,
        RUNTIME_ROOT: this.folder,
        RUNTIME_APPDIRECTORY: 'config',
        DEBUG_PORT: `${this.#port}`,
        RLQS: 'true',
        ...env,
      },
    });
  }

  async close(): Promise<void> {
    await this.browser.close();
    await this.limiter.stop();
    await this.#redis.stop();
  }

  /** Of answers, one after the other. */
  async codes(descriptor: Record<string, string>, times: number, domain = 'shop'): Promise<number[]> {
    const all: number[] = [];
    for (let i = 0; i < times; i++) all.push((await this.limiter.ask(domain, [descriptor])).status);
    return all;
  }

  /** Holds a share of two buckets, and used and rejected something of one. Of the first row what it may use. */
  quotaClient(): QuotaClient {
    const client = new QuotaClient(this.limiter.ports.grpc);
    client.report('api', { 'user=robot': { denied: 3 }, 'user=\u202eodd': { denied: 1 } });
    client.report('api', { 'user=robot': { allowed: 12, denied: 34 } });
    return client;
  }

  /** So that a chart has something to show: ups and downs, and a tenant that hammers. */
  async playTraffic(forMs: number): Promise<void> {
    const startMs = Date.now();
    for (let i = 0; Date.now() - startMs < forMs; i++) {
      const calls = Math.round(12 + 8 * Math.sin(i / 40));
      const hammers = Math.floor(i / 150) % 2 === 1;
      await Promise.all([
        this.codes({ user: `user-${i % 5}` }, calls, 'api'),
        this.codes({ tenant: 'beta', path: '/items' }, 3),
        ...(hammers ? [this.codes({ remote_address: '198.51.100.23' }, 8)] : []),
      ]);
      await sleep(100);
    }
  }

  async view(name: string): Promise<void> {
    await this.page.getByRole('navigation').getByRole('link', { name, exact: true }).click();
    await this.page.getByRole('heading', { name, level: 1, exact: true }).waitFor();
  }

  /** Of a table. */
  row(text: string): Locator {
    return this.page.locator('tbody tr').filter({ hasText: text });
  }

  async find(domain: string, entries: string): Promise<void> {
    await this.page.getByRole('combobox', { name: 'Domain', exact: true }).selectOption(domain);
    await this.page.getByLabel('Entries').fill(entries);
  }
}
