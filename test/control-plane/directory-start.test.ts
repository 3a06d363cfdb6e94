/** What a control plane on a folder serves while files of it are wrong: after a start nothing, so that no limiter loses rules; later the last good. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { InProcessControlPlane } from '../support/in-process-control-plane.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { ScriptedXdsClient } from '../support/xds-client.ts';

let folder: string;
const ended: (() => unknown)[] = [];

beforeEach(() => {
  folder = join(temporaryFolder(), 'rules');
  mkdirSync(folder);
});
afterEach(async () => {
  for (const end of ended.splice(0)) await end();
});

const write = (file: string, text: string) => writeFileSync(join(folder, file), text);
const rules = (domain: string, unit = 'minute') =>
  `domain: ${domain}\ndescriptors:\n  - key: path\n    rate_limit: { unit: ${unit}, requests_per_unit: 3 }\n`;
const wrongManifest = `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata: { name: mine }
spec: { domain: mine, descriptors: [{ key: path, rateLimit: { unit: minut, requestsPerUnit: 3 } }] }
`;

async function start(): Promise<{ plane: InProcessControlPlane; limiter: ScriptedXdsClient }> {
  const env = { SOURCE: 'DIRECTORY', MANIFESTS_DIRECTORY: folder };
  const plane = await InProcessControlPlane.start({ env });
  const limiter = new ScriptedXdsClient({ port: plane.ports.xds, reconnects: false });
  ended.push(
    () => limiter.close(),
    () => plane.stop(),
  );
  return { plane, limiter };
}

it.each([
  ['a rule file', 'mine.yaml', rules('mine', 'minut'), /mine\.yaml:4:\d+: .*minut/],
  ['a manifest', 'mine.yaml', wrongManifest, /mine\.yaml:1: default\/mine: .*minut/],
  ['a file that is no YAML', 'mine.yaml', 'domain: [', /mine\.yaml:1:\d+: /],
])('serves nothing after a start while %s is wrong, and says why', async (_, file, wrong, place) => {
  write('shop.yaml', rules('shop'));
  write(file, wrong);
  const { plane, limiter } = await start();
  const held = 'limiters get no new rules until you correct these files or move them out of the folder: ';
  await eventually(async () => expect((await plane.get('/readyz')).body).toContain(held));
  const { status, body } = await plane.get('/readyz');
  expect([status, body]).toEqual([503, expect.stringMatching(place)]);
  expect(body).not.toMatch(/stays? in force|nothing is in force/);
  expect((await plane.get('/snapshot')).body).toMatch(place);
  expect(plane.lines.filter((line) => line.includes('Limiters get no new rules until'))).toEqual([
    expect.stringMatching(place),
  ]);
  await sleep(50);
  expect(limiter.received).toEqual([]);
  write(file, rules('mine'));
  await eventually(() => expect(limiter.last?.domains).toEqual(['mine', 'shop']));
  expect((await plane.get('/readyz')).status).toBe(200);
});

it('starts without a wrong file once it is gone, and with files of others', async () => {
  write('shop.yaml', rules('shop'));
  write('mine.yaml', rules('mine', 'minut'));
  write('values.yaml', 'replicas: 3\n');
  const { limiter } = await start();
  rmSync(join(folder, 'mine.yaml'));
  await eventually(() => expect(limiter.last?.domains).toEqual(['shop']));
});

it('shows a file that becomes wrong as not accepted, and keeps its last good rules in force', async () => {
  write('shop.yaml', rules('shop'));
  const { plane, limiter } = await start();
  await eventually(() => expect(limiter.last?.domains).toEqual(['shop']));
  write('shop.yaml', rules('shop', 'minut'));
  write('new.yaml', rules('new', 'minut'));
  const page = async () => (await plane.get('/snapshot')).body;
  const stays =
    /object default\/shop: generation 2, not accepted \(Invalid: shop\.yaml:4:\d+: .*; generation 1 stays in force\), served as generation 1/;
  await eventually(async () => expect(await page()).toMatch(stays));
  await eventually(async () =>
    expect(await page()).toMatch(
      /object default\/new\.yaml: .*not accepted \(Invalid: new\.yaml:4.*nothing is in force\), not served/,
    ),
  );
  expect(limiter.received).toHaveLength(1);
  expect((await plane.get('/readyz')).status).toBe(200);
  write('shop.yaml', rules('shop'));
  await eventually(async () => expect(await page()).toMatch(/object default\/shop: generation 3, accepted/));
  expect(plane.lines.filter((line) => line.includes('its errors are corrected'))).toHaveLength(1);
});
