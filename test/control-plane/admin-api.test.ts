/** /v1 at the control plane's port for operators: DEBUG_TOKEN_FILE, DEBUG_ALLOWED_HOSTS, and what it shows. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { packageVersion } from '../../process/files/package-file.ts';
import { eventually } from '../support/eventually.ts';
import { type HttpAnswer, httpAsk } from '../support/http-ask.ts';
import { InProcessControlPlane } from '../support/in-process-control-plane.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { ScriptedXdsClient } from '../support/xds-client.ts';

const running: InProcessControlPlane[] = [];
afterEach(() => Promise.all(running.splice(0).map((controlPlane) => controlPlane.stop())));

async function start(env: Record<string, string> = {}): Promise<InProcessControlPlane> {
  const folder = temporaryFolder();
  for (const domain of ['shop', 'toys']) {
    const text = rateLimitConfigText({ name: domain, domain, fleet: 'default', requests: 5 });
    writeFileSync(join(folder, `${domain}.json`), text);
  }
  const controlPlane = await InProcessControlPlane.start({
    env: {
      SOURCE: 'DIRECTORY',
      MANIFESTS_DIRECTORY: folder,
      XDS_ALLOW_ANONYMOUS: 'true',
      POD_NAME: 'cp-0',
      ...env,
    },
  });
  running.push(controlPlane);
  return controlPlane;
}

// biome-ignore lint/suspicious/noExplicitAny: tests look at any part of it
type Answer = HttpAnswer & { json: any };

async function get(
  controlPlane: InProcessControlPlane,
  path: string,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const answer = await httpAsk(controlPlane.ports.http, path, { headers });
  return {
    ...answer,
    json: answer.headers['content-type']?.includes('json') ? JSON.parse(answer.body) : undefined,
  };
}

describe('/v1 of the control plane', () => {
  it('shows fleets with their limiters, objects, and what limiters reject in their words', async () => {
    const controlPlane = await start();
    const refusing = new ScriptedXdsClient({
      port: controlPlane.ports.xds,
      metadata: { pod: 'limiter-0', instance: 'i-0', capabilities: ['windows'] },
      refuses: 'no such algorithm',
    });
    onTestFinished(() => refusing.close());
    await eventually(async () => {
      const { json } = await get(controlPlane, '/v1/status');
      expect(json).toMatchObject({
        ...{
          replica: 'cp-0',
          version: packageVersion(),
          className: 'weir',
          listed: true,
          ready: true,
          missing: [],
        },
        fleets: [
          {
            ...{ fleet: 'default', resources: 2 },
            limiters: [
              {
                name: 'limiter-0',
                replica: 'cp-0',
                isCurrent: false,
                refusal: { message: 'no such algorithm' },
              },
            ],
          },
        ],
      });
    });
    const refusals = (await get(controlPlane, '/v1/refusals')).json.refusals;
    expect(refusals).toMatchObject([
      { limiter: 'limiter-0', fleet: 'default', message: 'no such algorithm' },
    ]);
    expect((await get(controlPlane, '/v1/refusals?fleet=other')).json).toEqual({ refusals: [] });
    const { objects } = (await get(controlPlane, '/v1/rules')).json;
    expect(objects).toMatchObject([
      {
        kind: 'RateLimitConfig',
        name: 'shop',
        domain: 'shop',
        fleet: 'default',
        rules: 1,
        accepted: { status: true },
      },
      { name: 'toys' },
    ]);
    expect((await get(controlPlane, '/v1/rules?domain=toys')).json.objects).toHaveLength(1);
    expect((await get(controlPlane, '/v1/status?x=1')).json.detail).toBe(
      'unknown parameter "x": this path has no parameters',
    );
  });

  it('wants the token of DEBUG_TOKEN_FILE, and so does /snapshot; probes and metrics want none', async () => {
    const file = join(temporaryFolder(), 'token');
    const token = 'a-token-for-operators';
    writeFileSync(file, `${token}\n`);
    const controlPlane = await start({ DEBUG_TOKEN_FILE: file });
    const shown = { authorization: `Bearer ${token}` };
    for (const path of ['/v1/status', '/v1/nothing', '/snapshot']) {
      const answer = await get(controlPlane, path);
      expect([answer.status, answer.headers['www-authenticate']]).toEqual([401, 'Bearer']);
      expect((await get(controlPlane, path, { authorization: 'Bearer wrong' })).status).toBe(401);
    }
    for (const path of ['/healthz', '/metrics', '/'])
      expect((await get(controlPlane, path)).status).toBe(200);
    expect((await get(controlPlane, '/v1/status', shown)).status).toBe(200);
    expect((await get(controlPlane, '/snapshot', shown)).status).toBe(200);
    expect(await controlPlane.metric('api_refused_total{reason="unauthenticated"}')).toBe(4);
    const next = 'another-token-for-operators';
    writeFileSync(file, next);
    await eventually(async () => {
      expect((await get(controlPlane, '/v1/status', { authorization: `Bearer ${next}` })).status).toBe(200);
    });
    // Wrong ones before may have slowed this address.
    expect([401, 429]).toContain((await get(controlPlane, '/v1/status', shown)).status);
    expect(controlPlane.lines.join()).not.toContain(token);
  });

  it('is not for pages of other places, nor by names that are not in DEBUG_ALLOWED_HOSTS', async () => {
    const controlPlane = await start({ DEBUG_ALLOWED_HOSTS: 'weir.example' });
    const status = async (headers: Record<string, string>): Promise<number> =>
      (await get(controlPlane, '/v1/status', headers)).status;
    expect(await status({ host: 'weir.example' })).toBe(200);
    expect(await status({ host: 'rebound.example' })).toBe(403);
    expect(await status({ origin: 'http://rebound.example' })).toBe(403);
    expect(await controlPlane.metric('api_refused_total{reason="foreign"}')).toBe(2);
    const lines = controlPlane.lines.filter((line) =>
      line.includes('Rejected a request to the listener for operators'),
    );
    expect(lines).toHaveLength(1);
  });

  it('changes nothing', async () => {
    const controlPlane = await start();
    for (const method of ['POST', 'PUT', 'DELETE']) {
      const answer = await httpAsk(controlPlane.ports.http, '/v1/rules', { method });
      expect([answer.status, answer.headers.allow]).toEqual([405, 'GET, HEAD']);
    }
  });

  it('keeps the control plane from starting with a token that is too short', async () => {
    const file = join(temporaryFolder(), 'token');
    writeFileSync(file, 'hunter2');
    const controlPlane = await start({ DEBUG_TOKEN_FILE: file });
    expect(await controlPlane.ended).toBe(1);
    expect(controlPlane.lines.join()).toContain(
      `DEBUG_TOKEN_FILE: ${file}: the token must have at least 16 characters`,
    );
    expect(controlPlane.lines.join()).not.toContain('hunter2');
  });
});
