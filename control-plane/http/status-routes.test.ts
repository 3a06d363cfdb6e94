import { describe, expect, it } from 'vitest';
import { decisionOf, limiterReport, noList, viewOf } from '../../test/support/control-plane-view.ts';
import type { ConfigStatus } from '../model/config-object.ts';
import { versionOfNothing } from '../model/fleet-snapshot.ts';
import { statusRoutes } from './status-routes.ts';

const status: ConfigStatus = { observedGeneration: 1, conditions: [] };
const decision = decisionOf([
  { name: 'shop', rules: 3, needs: ['windows'], fallback: 1, generation: 2 },
  {
    name: 'mail',
    fleet: 'edge',
    generation: 5,
    servedGeneration: 4,
    accepted: { status: false, reason: 'Invalid', message: 'spec.domain: empty' },
  },
  {
    name: 'absent',
    servedGeneration: undefined,
    accepted: { status: false, reason: 'Invalid', message: 'no domain' },
  },
]);
const version = decision.fleets.get('default')!.version;
const refusal = { version: 'v1', message: 'no', resources: [{ name: 'team/shop', message: 'too many' }] };
const whole = { version: 'v2', message: 'never' };

const view = viewOf({
  leader: () => 'replica-b',
  decision: () => decision,
  reports: () => [
    {
      replica: 'replica-b',
      limiters: [
        limiterReport({ name: 'new', acceptedVersion: version, capabilities: ['windows'], instance: 'i1' }),
        limiterReport({ name: 'old', acceptedVersion: version, sentVersion: 's', address: '10.0.0.1' }),
        limiterReport({ name: 'refusing', fleet: 'edge', refusal }),
      ],
    },
    {
      replica: 'replica-a',
      limiters: [limiterReport({ name: 'lost', fleet: 'gone', refusal: whole, instance: 'i2' })],
    },
  ],
  statusOf: ({ name }) =>
    name === 'shop'
      ? {
          ...status,
          conditions: [
            {
              ...{ type: 'Ready', status: 'True', reason: 'Ready', message: '' },
              ...{ lastTransitionTime: '2026-01-02T03:04:05Z', observedGeneration: 2 },
            },
          ],
        }
      : undefined,
});

/** The JSON of a route. */
async function ask(url: string, of = view): Promise<unknown> {
  const { pathname, searchParams: query } = new URL(url, 'http://test');
  const route = statusRoutes({ view: of, version: '1.2.3' }).find(({ path }) => path === pathname)!;
  const known = [...query.keys()].every((name) => route.parameters.includes(name));
  if (!known) throw new Error(`unknown parameters: ${url}`);
  const actor = { name: 'anyone', address: '', claims: '', mayRead: () => true, mayChange: () => true };
  const { body, lines } = await route.answer({ query, body: undefined, actor });
  return lines === undefined ? body : JSON.parse([...lines].join(''));
}

const names = async (url: string): Promise<unknown[]> =>
  ((await ask(url)) as { objects: { name: unknown }[] }).objects.map(({ name }) => name);

describe('/v1/status', () => {
  it('shows each fleet that is served or has limiters', async () => {
    const answer = (await ask('/v1/status')) as { fleets: { fleet: string; limiters: object[] }[] };
    expect(answer).toMatchObject({
      replica: 'replica-a',
      version: '1.2.3',
      leader: 'replica-b',
      className: 'weir',
      controllerName: 'weir-system/weir-control-plane',
      listed: true,
      ready: true,
      missing: [],
      fleets: [
        { fleet: 'default', version, resources: 1 },
        { fleet: 'edge', resources: 1 },
        { fleet: 'gone', version: null, resources: 0 },
      ],
    });
    const limiters = answer.fleets.flatMap((fleet) => fleet.limiters);
    expect(limiters).toMatchObject([
      { name: 'new', replica: 'replica-b', instance: 'i1', isCurrent: true, isTooOld: false, sent: null },
      { name: 'old', isCurrent: false, isTooOld: true, accepted: version, sent: 's', address: '10.0.0.1' },
      { name: 'refusing', accepted: null, isCurrent: false, isTooOld: false, refusal },
      { name: 'lost', replica: 'replica-a', address: null, isCurrent: false, isTooOld: false },
    ]);
  });

  it('shows a limiter without rules as current if its fleet has none', async () => {
    const limiter = limiterReport({ name: 'idle', fleet: 'gone', acceptedVersion: versionOfNothing });
    const reports = () => [{ replica: 'replica-b', limiters: [limiter] }];
    expect(await ask('/v1/status', { ...view, reports })).toMatchObject({
      fleets: [
        { fleet: 'default' },
        { fleet: 'edge' },
        { fleet: 'gone', version: null, limiters: [{ name: 'idle', isCurrent: true, isTooOld: false }] },
      ],
    });
  });

  it('reports what is missing before the first list', async () => {
    expect(await ask('/v1/status', viewOf({ controllerName: undefined }))).toEqual({
      replica: 'replica-a',
      version: '1.2.3',
      leader: null,
      className: 'weir',
      controllerName: null,
      listed: false,
      ready: false,
      missing: [noList],
      fleets: [],
    });
  });
});

describe('/v1/rules', () => {
  it('shows the objects by name, with what is served of them', async () => {
    expect(await ask('/v1/rules')).toEqual({
      objects: [
        {
          ...{ kind: 'RateLimitConfig', namespace: 'team', name: 'absent', domain: null, fleet: 'default' },
          ...{ generation: 1, servedGeneration: null, rules: 0, conditions: [] },
          accepted: { status: false, reason: 'Invalid', message: 'no domain' },
        },
        {
          ...{ kind: 'RateLimitConfig', namespace: 'team', name: 'mail', domain: 'mail', fleet: 'edge' },
          ...{ generation: 5, servedGeneration: 4, rules: 1, conditions: [] },
          accepted: { status: false, reason: 'Invalid', message: 'spec.domain: empty' },
        },
        {
          ...{ kind: 'RateLimitConfig', namespace: 'team', name: 'shop', domain: 'shop', fleet: 'default' },
          ...{ generation: 2, servedGeneration: 2, rules: 3 },
          accepted: { status: true, reason: 'Valid', message: '' },
          conditions: [expect.objectContaining({ type: 'Ready', status: 'True' })],
        },
      ],
    });
  });

  it('shows those of a domain, of a fleet, or of both', async () => {
    expect(await names('/v1/rules?domain=shop')).toEqual(['shop']);
    expect(await names('/v1/rules?fleet=edge')).toEqual(['mail']);
    expect(await names('/v1/rules?fleet=default')).toEqual(['absent', 'shop']);
    expect(await names('/v1/rules?fleet=edge&domain=shop')).toEqual([]);
  });

  it.each([
    [{ domain: 'wanted', fleet: 'blue' }, 'wanted', 'blue'],
    [{ domain: '', fleet: '' }, null, 'default'],
    [{ domain: 7, fleet: {} }, null, 'default'],
    [null, null, 'default'],
  ])(
    'reads domain and fleet of an object that is not served from its spec %j',
    async (spec, domain, fleet) => {
      const [outcome] = decisionOf([{ name: 'shop', servedGeneration: undefined }]).outcomes.values();
      const outcomes = new Map([['uid-shop', { ...outcome!, object: { ...outcome!.object, spec } }]]);
      const of = viewOf({ decision: () => ({ fleets: new Map(), outcomes, holders: new Map() }) });
      expect(await ask('/v1/rules', of)).toMatchObject({ objects: [{ domain, fleet }] });
    },
  );
});

describe('/v1/refusals', () => {
  const edge = {
    ...{ limiter: 'refusing', instance: null, fleet: 'edge', replica: 'replica-b' },
    ...{ version: 'v1', message: 'no', resources: refusal.resources },
  };
  const gone = {
    ...{ limiter: 'lost', instance: 'i2', fleet: 'gone', replica: 'replica-a' },
    ...{ version: 'v2', message: 'never', resources: null },
  };

  it('shows what limiters rejected, by fleet if asked for', async () => {
    expect(await ask('/v1/refusals')).toEqual({ refusals: [edge, gone] });
    expect(await ask('/v1/refusals?fleet=gone')).toEqual({ refusals: [gone] });
    expect(await ask('/v1/refusals?fleet=default')).toEqual({ refusals: [] });
  });
});
