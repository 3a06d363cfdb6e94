import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { capabilities } from '../../rules/language/capabilities.ts';
import { decisionOf, limiterReport, viewOf } from '../../test/support/control-plane-view.ts';
import { httpAsk } from '../../test/support/http-ask.ts';
import type { ConfigStatus } from '../model/config-object.ts';
import {
  type ControlPlaneListenerOptions,
  type ControlPlaneView,
  createControlPlaneListener,
  Readiness,
} from './listener.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function start(options: Partial<ControlPlaneListenerOptions> = {}) {
  const faults: string[] = [];
  const readiness = new Readiness();
  const listener = createControlPlaneListener({
    readiness,
    metrics: { contentType: 'text/plain; version=0.0.4; charset=utf-8', metrics: async () => 'a 1\n' },
    view: viewOf({}),
    closeGraceMs: 5_000,
    onFault: (error) => faults.push(String(error)),
    ...options,
  });
  const { port } = await listener.listen({ host: '127.0.0.1', port: 0 });
  cleanups.push(() => listener.close());
  return { port, readiness, faults };
}

const text = 'text/plain; charset=utf-8';

describe('the listener of the control plane', () => {
  it('lists its pages', async () => {
    const { port } = await start();
    expect(await httpAsk(port, '/')).toMatchObject({
      status: 200,
      headers: { 'content-type': text },
      body: `/console: a page that shows fleets, limiters and objects
/healthz: 200 while the process answers at all
/readyz: 200 when limiters can get rules, otherwise 503 and what is missing
/metrics: metrics in the text format of Prometheus
/snapshot: the snapshot of each fleet, and which limiters have acknowledged it; ?fleet=<name>, ?format=json
/v1/status, /v1/rules, /v1/overrides, /v1/refusals: the same as JSON for programs, see docs/admin-api.md
`,
    });
  });

  it('knows no other pages', async () => {
    const { port } = await start();
    for (const path of ['/nothing', '/snapshot/', '/healthz/x', '/__proto__']) {
      expect(await httpAsk(port, path)).toMatchObject({ status: 404, body: '404 page not found\n' });
    }
  });

  it('rejects a damaged target', async () => {
    const { port, faults } = await start();
    expect(await httpAsk(port, '/%zz')).toMatchObject({ status: 400, body: 'Bad Request\n' });
    expect(faults).toEqual([]);
  });

  it('is for reading alone', async () => {
    const { port } = await start();
    for (const path of ['/healthz', '/snapshot', '/metrics']) {
      expect(await httpAsk(port, path, { method: 'POST' })).toMatchObject({
        status: 405,
        headers: { allow: 'GET, HEAD' },
        body: 'Method Not Allowed\n',
      });
    }
    expect(await httpAsk(port, '/healthz', { method: 'HEAD' })).toMatchObject({ status: 200, body: '' });
  });

  it('is healthy from the start, and ready when list and xDS are there', async () => {
    const { port, readiness } = await start();
    expect(await httpAsk(port, '/healthz')).toMatchObject({ status: 200, body: 'ok\n' });
    expect(await httpAsk(port, '/readyz')).toMatchObject({
      status: 503,
      headers: { 'content-type': text },
      body: 'not ready: the first complete list of RateLimitConfigs is not read yet; the xDS listener is not open\n',
    });
    readiness.reached('xds');
    expect((await httpAsk(port, '/readyz')).body).toBe(
      'not ready: the first complete list of RateLimitConfigs is not read yet\n',
    );
    readiness.reached('source');
    expect(await httpAsk(port, '/readyz')).toMatchObject({ status: 200, body: 'ok\n' });
    readiness.drain();
    expect(await httpAsk(port, '/readyz')).toMatchObject({
      status: 503,
      body: 'not ready: this replica is shutting down\n',
    });
    expect(await httpAsk(port, '/healthz')).toMatchObject({ status: 200 });
  });

  it('hands over the metrics', async () => {
    const { port } = await start();
    expect(await httpAsk(port, '/metrics')).toMatchObject({
      status: 200,
      headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' },
      body: 'a 1\n',
    });
  });

  it('answers 500 when something throws, and continues', async () => {
    const metrics = { contentType: 'x', metrics: () => Promise.reject(new Error('cannot count')) };
    const { port, faults } = await start({ metrics });
    expect(await httpAsk(port, '/metrics')).toMatchObject({ status: 500, body: 'Internal Server Error\n' });
    expect(faults).toEqual(['Error: cannot count']);
    expect((await httpAsk(port, '/healthz')).status).toBe(200);
  });
});

const programmed: ConfigStatus = {
  observedGeneration: 2,
  conditions: [
    {
      type: 'Programmed',
      status: 'False',
      reason: 'Refused',
      message: 'pod-b refused it:\nno',
      lastTransitionTime: '2026-01-02T03:04:05Z',
      observedGeneration: 2,
    },
  ],
};

const decision = decisionOf([
  { name: 'shop', generation: 2, rules: 3, status: programmed, needs: ['windows', 'calendar'], fallback: 1 },
  {
    name: 'mail',
    generation: 5,
    servedGeneration: 4,
    bytes: 50,
    accepted: { status: false, reason: 'Invalid', message: 'spec.domain: empty' },
  },
  { name: 'web', fleet: 'edge' },
  {
    name: 'web-copy',
    fleet: 'edge',
    servedGeneration: undefined,
    accepted: { status: false, reason: 'DomainConflict', message: "domain 'web' is taken by team/web" },
  },
]);
const version = decision.fleets.get('default')?.version as string;
const edgeVersion = decision.fleets.get('edge')?.version as string;
const hashes = Object.fromEntries(
  [...decision.outcomes.values()].map(({ object, served }) => [object.name, served?.hash]),
);

const view: ControlPlaneView = viewOf({
  leader: () => 'replica-b',
  decision: () => decision,
  reports: () => [
    {
      replica: 'replica-b',
      limiters: [
        limiterReport({
          name: 'pod-b',
          acceptedVersion: 'old',
          refusal: { version, message: 'no\u001b[2J\u009b\u2028\u202e\n' },
        }),
      ],
    },
    {
      replica: 'replica-a',
      limiters: [
        limiterReport({ name: 'pod-a', acceptedVersion: version, capabilities }),
        limiterReport({ name: 'go', isWeir: false, fleet: 'lost' }),
      ],
    },
  ],
});

const edgeText = `fleet edge: version ${edgeVersion}, 1 rule, 100 bytes
  resource team/web: domain web, 1 rule, 100 bytes, hash ${hashes['web']}
  object team/web: generation 1, accepted, served as generation 1, 1 rule, hash ${hashes['web']}, programmed unknown
  object team/web-copy: generation 1, not accepted (DomainConflict: domain 'web' is taken by team/web), not served, programmed unknown
`;

describe('/snapshot', () => {
  it('shows people what is served to which limiter', async () => {
    const { port } = await start({ view });
    expect(await httpAsk(port, '/snapshot')).toMatchObject({
      status: 200,
      headers: { 'content-type': text, vary: 'Accept' },
      body: `replica replica-a of weir-system/weir-control-plane, class weir, leader replica-b

fleet default: version ${version}, 4 rules, 150 bytes
  resource team/mail: domain mail, 1 rule, 50 bytes, hash ${hashes['mail']}
  resource team/shop: domain shop, 3 rules, 100 bytes, hash ${hashes['shop']}
  limiter pod-a: acknowledged ${version} (current), Weir, supports windows algorithms overrides calendar reserve wide-numbers, at replica-a since 2026-01-02T03:04:05.000Z
  limiter pod-b: acknowledged old, rejected ${version}: no\\u001b[2J\\u009b\\u2028\\u202e\\n, Weir, does not support all rules, supports no capabilities, at replica-b since 2026-01-02T03:04:05.000Z
  object team/mail: generation 5, not accepted (Invalid: spec.domain: empty), served as generation 4, 1 rule, hash ${hashes['mail']}, programmed unknown
  object team/shop: generation 2, accepted, served as generation 2, 3 rules, hash ${hashes['shop']}, needs windows calendar, other limiters get generation 1, not programmed (Refused: pod-b refused it:\\nno)

${edgeText}
fleet lost: version e3b0c44298fc1c14, 0 rules, 0 bytes
  limiter go: nothing acknowledged, not Weir, supports no capabilities, at replica-a since 2026-01-02T03:04:05.000Z
`,
    });
  });

  it('shows programs the same', async () => {
    const { port } = await start({ view });
    const answer = await httpAsk(port, '/snapshot', { headers: { accept: 'application/json' } });
    expect(answer).toMatchObject({ status: 200, headers: { 'content-type': 'application/json' } });
    const connectedSince = '2026-01-02T03:04:05.000Z';
    expect(JSON.parse(answer.body)).toEqual({
      replica: 'replica-a',
      leader: 'replica-b',
      controllerName: 'weir-system/weir-control-plane',
      className: 'weir',
      listed: true,
      fleets: [
        {
          fleet: 'default',
          version,
          rules: 4,
          bytes: 150,
          resources: [
            { name: 'team/mail', domain: 'mail', rules: 1, hash: hashes['mail'], bytes: 50 },
            { name: 'team/shop', domain: 'shop', rules: 3, hash: hashes['shop'], bytes: 100 },
          ],
          limiters: [
            {
              name: 'pod-a',
              replica: 'replica-a',
              isWeir: true,
              capabilities: [...capabilities],
              isTooOld: false,
              connectedSince,
              acceptedVersion: version,
              isCurrent: true,
              refusal: null,
            },
            {
              name: 'pod-b',
              replica: 'replica-b',
              isWeir: true,
              capabilities: [],
              isTooOld: true,
              connectedSince,
              acceptedVersion: 'old',
              isCurrent: false,
              refusal: { version, message: 'no\u001b[2J\u009b\u2028\u202e\n' },
            },
          ],
          objects: [
            {
              name: 'team/mail',
              generation: 5,
              accepted: { status: false, reason: 'Invalid', message: 'spec.domain: empty' },
              served: {
                generation: 4,
                domain: 'mail',
                resource: 'team/mail',
                rules: 1,
                hash: hashes['mail'],
                needs: [],
                fallbackGeneration: null,
              },
              programmed: null,
            },
            {
              name: 'team/shop',
              generation: 2,
              accepted: { status: true, reason: 'Valid', message: '' },
              served: {
                generation: 2,
                domain: 'shop',
                resource: 'team/shop',
                rules: 3,
                hash: hashes['shop'],
                needs: ['windows', 'calendar'],
                fallbackGeneration: 1,
              },
              programmed: {
                status: 'False',
                reason: 'Refused',
                message: 'pod-b refused it:\nno',
              },
            },
          ],
        },
        expect.objectContaining({ fleet: 'edge', version: edgeVersion, limiters: [] }),
        {
          fleet: 'lost',
          version: 'e3b0c44298fc1c14',
          rules: 0,
          bytes: 0,
          resources: [],
          limiters: [
            {
              name: 'go',
              replica: 'replica-a',
              isWeir: false,
              capabilities: [],
              isTooOld: false,
              connectedSince,
              acceptedVersion: null,
              isCurrent: false,
              refusal: null,
            },
          ],
          objects: [],
        },
      ],
    });
  });

  it('shows what limiters without a capability get', async () => {
    const decision = () => decisionOf([{ name: 'shop', needs: ['windows'] }, { name: 'mail' }]);
    const { port } = await start({ view: viewOf({ decision }) });
    const { body } = await httpAsk(port, '/snapshot');
    const lines = body.split('\n').filter((line) => line.startsWith('  object'));
    expect(lines).toEqual([
      expect.stringMatching(/mail: .*, 1 rule, hash \w+, programmed unknown$/),
      expect.stringMatching(/, needs windows, other limiters get nothing, programmed unknown$/),
    ]);
  });

  it('shows one fleet alone', async () => {
    const { port } = await start({ view });
    expect((await httpAsk(port, '/snapshot?fleet=edge')).body).toBe(
      `replica replica-a of weir-system/weir-control-plane, class weir, leader replica-b\n\n${edgeText}`,
    );
    const { fleets } = JSON.parse((await httpAsk(port, '/snapshot?fleet=edge&format=json')).body);
    expect(fleets.map(({ fleet }: { fleet: string }) => fleet)).toEqual(['edge']);
    expect(await httpAsk(port, '/snapshot?fleet=nobody')).toMatchObject({
      status: 404,
      body: 'fleet "nobody" has neither limiters nor RateLimitConfigs\n',
    });
  });

  it('says so while there is no list', async () => {
    const reports = () => [{ replica: 'replica-a', limiters: [limiterReport({ name: 'pod-a' })] }];
    const { port } = await start({ view: viewOf({ reports }) });
    expect(
      (await httpAsk(port, '/snapshot')).body,
    ).toBe(`replica replica-a of weir-system/weir-control-plane, class weir, leader unknown
no limiter gets rules: the first complete list of RateLimitConfigs is not read yet

fleet default: nothing served, 0 rules, 0 bytes
  limiter pod-a: nothing acknowledged, Weir, supports no capabilities, at replica-a since 2026-01-02T03:04:05.000Z
`);
    expect(JSON.parse((await httpAsk(port, '/snapshot?format=json')).body)).toMatchObject({
      leader: null,
      listed: false,
      fleets: [{ fleet: 'default', version: null, limiters: [{ name: 'pod-a', isCurrent: false }] }],
    });
  });

  it('is an empty document without fleets', async () => {
    const { port } = await start({ view: viewOf({ decision: () => decisionOf([]) }) });
    expect(JSON.parse((await httpAsk(port, '/snapshot?format=json')).body)).toEqual({
      replica: 'replica-a',
      leader: null,
      controllerName: 'weir-system/weir-control-plane',
      className: 'weir',
      listed: true,
      fleets: [],
    });
  });

  it.each([
    ['*/*', text],
    ['text/html,application/xhtml+xml,*/*;q=0.8', text],
    ['text/plain', text],
    ['application/json;q=0', text],
    ['application/jsonp', text],
    ['text/plain, application/json;q=0.5', 'application/json'],
    ['Application/JSON', 'application/json'],
  ])('answers Accept: %s with %s', async (accept, type) => {
    const { port } = await start({ view });
    const { headers } = await httpAsk(port, '/snapshot', { headers: { accept } });
    expect(headers['content-type']).toBe(type);
  });

  it('takes a format of the query before Accept, and knows two', async () => {
    const { port } = await start({ view });
    const headers = { accept: 'application/json' };
    expect((await httpAsk(port, '/snapshot?format=text', { headers })).headers['content-type']).toBe(text);
    expect(await httpAsk(port, '/snapshot?format=xml')).toMatchObject({
      status: 400,
      body: 'format must be text or json, not "xml"\n',
    });
  });

  it.each(['text', 'json'])(
    'leaves turns of the event loop to others while a long one is written as %s',
    async (format) => {
      const objects = Array.from({ length: 20_000 }, (_, i) => ({ name: `object-${i}`, status: programmed }));
      const large = decisionOf(objects);
      let turn = 0;
      let isRunning = true;
      const perTurn = new Map<number, number>();
      const counting = (async () => {
        for (; isRunning; turn += 1) await nextTurn();
      })();
      const statusOf = () => {
        perTurn.set(turn, (perTurn.get(turn) ?? 0) + 1);
        return programmed;
      };
      const { port } = await start({ view: viewOf({ decision: () => large, statusOf }) });
      const { body } = await httpAsk(port, `/snapshot?format=${format}`);
      isRunning = false;
      await counting;
      expect(body.match(/object-19999/g)?.length).toBeGreaterThanOrEqual(2);
      expect(Math.max(...perTurn.values())).toBeLessThanOrEqual(512);
    },
  );
});
