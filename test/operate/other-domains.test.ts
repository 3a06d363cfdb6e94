/** What a caller with the right to one domain learns and changes of another one: nothing. */
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { InProcessLimiter } from '../support/in-process-limiter.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const folder = suiteFolder();
mkdirSync(join(folder, 'config'));
for (const domain of ['shop', 'shop_eu'])
  writeFileSync(
    join(folder, `config/${domain}.yaml`),
    `domain: ${domain}\ndescriptors: [{ key: path, rate_limit: { unit: year, requests_per_unit: 5 } }]\n`,
  );
const names = ['shop', 'shop_eu'];
const entries = names.map((name) => {
  const hash = createHash('sha256').update(`of-${name}`).digest('hex');
  return `  - { name: ${name}, token_sha256: ${hash}, domains: [${name}], rights: [ask, read, admin] }\n`;
});
writeFileSync(
  join(folder, 'callers.yaml'),
  `callers:\n${entries.join('')}  - { name: gates, anonymous: true, domains: ['*'] }\n`,
);
/** So long that it takes too many steps to distinguish its compatible key from those of another domain. */
const long = 'a_'.repeat(300);

describe('a caller of the domain shop', () => {
  const start = limitersOfSuite(() => ({
    env: {
      ...{ RUNTIME_ROOT: folder, RUNTIME_SUBDIRECTORY: '', BACKEND_TYPE: 'memory' },
      CALLERS_FILE: join(folder, 'callers.yaml'),
    },
  }));
  let limiter: InProcessLimiter;
  beforeEach(async () => {
    limiter = await start();
    await limiter.ask('shop_eu', [{ path: long }]);
    await limiter.ask('shop', [{ path: '/' }]);
  });

  const call = async (caller: string, method: string, path: string, body?: object) => {
    const response = await fetch(`http://127.0.0.1:${limiter.ports.debug}/v1/${path}`, {
      method,
      headers: { 'content-type': 'application/json', authorization: `Bearer ${caller}.of-${caller}` },
      body: body === undefined ? null : JSON.stringify(body),
    });
    // biome-ignore lint/suspicious/noExplicitAny: tests look at any part of it
    return { status: response.status, body: (await response.json()) as any };
  };

  it('is not shown a compatible key that may be of shop_eu, nor does it reset that', async () => {
    const leftOut = [
      '1 keys are omitted because they may belong to another domain (COUNTER_KEYS=compatible)',
    ];
    for (const [method, query] of [
      ['GET', ''],
      ['DELETE', '&all=true'],
    ] as const) {
      const { body } = await call('shop', method, `counters?domain=shop${query}`);
      expect([body.counters.map(({ rule }: { rule: string }) => rule), body.notes]).toEqual([
        ['shop.path'],
        leftOut,
      ]);
    }
    const own = await call('shop_eu', 'GET', `counters?domain=shop_eu&entry=path=${long}`);
    expect(own.body.counters).toMatchObject([{ used: 1 }]);
  });

  it('learns by an id nothing of the override that shop_eu has', async () => {
    const one = (domain: string) => ({
      ...{ id: 'INC-1', domain, match: [{ key: 'path', value: '/' }] },
      ...{ block: true, for: '1h', reason: 'a secret' },
    });
    expect((await call('shop_eu', 'POST', 'overrides', one('shop_eu'))).status).toBe(201);
    const taken = await call('shop', 'POST', 'overrides', one('shop'));
    expect(taken.status).toBe(409);
    expect(JSON.stringify(taken.body)).not.toMatch(/shop_eu|secret/);
    expect(await call('shop', 'DELETE', 'overrides?id=INC-1')).toMatchObject({
      status: 404,
      body: { detail: 'there is no such override: "weir override list" shows all overrides' },
    });
    expect((await call('shop_eu', 'DELETE', 'overrides?id=INC-1')).status).toBe(200);
  });
});
