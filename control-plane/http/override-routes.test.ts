import { describe, expect, it } from 'vitest';
import type { Actor, ApiCall } from '../../process/http/api-route.ts';
import { overrideKind } from '../../rules/language/kinds.ts';
import { configObject } from '../../test/support/config-object-builder.ts';
import { WholeDecider } from '../../test/support/whole-decider.ts';
import type { ConfigObject, ConfigStatus } from '../model/config-object.ts';
import { unrestrictedOwners } from '../model/domain-owners.ts';
import { noPolicy } from '../reconcile/decide.ts';
import { overrideRoutes } from './status-routes.ts';

const createdMs = Date.UTC(2026, 10, 23, 10);
const nowMs = createdMs + 600_000;
const spec = {
  domain: 'shop',
  match: [{ key: 'k', value: 'v' }],
  block: true,
  for: '1h',
  reason: 'abuse',
};

function override(name: string, more: Partial<ConfigObject> & { spec?: object } = {}): ConfigObject {
  return configObject({ kind: overrideKind, name, uid: name, createdMs, ...more, spec: more.spec ?? spec });
}

function status(ready: 'True' | 'False' | 'Unknown', reason: string, observedGeneration = 1): ConfigStatus {
  const lastTransitionTime = '2026-11-23T10:00:00Z';
  const condition = { status: ready, reason, message: 'said', lastTransitionTime, observedGeneration };
  return { observedGeneration, conditions: [{ type: 'Ready', ...condition }] };
}

async function ask(
  objects: readonly ConfigObject[] | undefined,
  query = '',
  mayRead: Actor['mayRead'] = () => true,
) {
  const decider = new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners });
  const decision = objects && decider.decideAll(objects, new Map(), noPolicy, nowMs);
  const [route] = overrideRoutes({
    decision: () => decision,
    statusOf: ({ status }) => status,
    nowMs: () => nowMs,
  });
  const actor = { name: 'x', address: '', claims: '', mayRead, mayChange: () => false };
  const call: ApiCall = { query: new URLSearchParams(query), body: undefined, actor };
  const { body } = await route!.answer(call);
  return body as { overrides: Record<string, unknown>[]; notes: string[] };
}

describe('GET /v1/overrides of the control plane', () => {
  it('says which overrides each domain has, and how much time is left', async () => {
    const { overrides, notes } = await ask([
      configObject({ name: 'shop' }),
      override('stop', { status: status('True', 'Ready') }),
    ]);
    expect(notes).toEqual([]);
    expect(overrides).toEqual([
      {
        id: 'stop',
        source: 'object',
        name: 'default/stop',
        fleet: 'default',
        domain: 'shop',
        match: spec.match,
        limit: '',
        block: true,
        expiresAt: '2026-11-23T11:00:00.000Z',
        reason: 'abuse',
        createdAt: '2026-11-23T10:00:00.000Z',
        endsAt: '2026-11-23T11:00:00.000Z',
        secondsLeft: 3_000,
        createdBy: '',
        state: 'InForce',
        message: 'said',
        ready: { status: 'True', reason: 'Ready' },
      },
    ]);
  });

  it('reports those that are in force and change nothing, and why', async () => {
    const { block: _, ...rest } = spec;
    const idle = override('idle', { spec: { ...rest, requestsPerUnit: 5 }, status: status('True', 'Ready') });
    expect((await ask([configObject({ name: 'shop' }), idle])).overrides).toMatchObject([
      { state: 'NoRule', message: 'requestsPerUnit needs a unit, as no rule of "shop" has the key "k"' },
    ]);
  });

  it('reports those that are not in force why not', async () => {
    const rows = [
      override('stop', { status: status('True', 'Ready') }),
      override('younger', { createdMs: createdMs + 1_000 }),
      override('over', { spec: { ...spec, for: '1m', match: [{ key: 'k', value: 'w' }] } }),
      override('bad', { spec: { domain: 'shop' } }),
    ];
    const { overrides } = await ask(rows);
    expect(overrides.map(({ name, state, secondsLeft }) => [name, state, secondsLeft])).toEqual([
      ['default/bad', 'Invalid', null],
      ['default/over', 'Ended', 0],
      ['default/stop', 'InForce', 3_000],
      ['default/younger', 'Conflicted', 3_001],
    ]);
    expect(overrides[3]?.['message']).toContain('has an older override');
  });

  it.each<[string, ConfigStatus | undefined, string]>([
    ['has no status yet', undefined, 'Pending'],
    ['no limiter is connected for', status('False', 'NoLimiters'), 'Pending'],
    ['nobody knows of', status('Unknown', 'Disconnected'), 'Pending'],
    ['was Ready as something else', status('True', 'Ready', 0), 'Pending'],
    ['every limiter has', status('True', 'Ready'), 'InForce'],
  ])('says of one that %s what it is', async (_, given, state) => {
    const { overrides } = await ask([override('stop', { status: given })]);
    expect(overrides[0]).toMatchObject({ state, message: given === undefined ? '' : 'said' });
  });

  it('keeps to one domain, and to those that the caller may read', async () => {
    const rows = [override('stop'), override('other', { spec: { ...spec, domain: 'mail' } })];
    expect((await ask(rows, 'domain=mail')).overrides.map(({ id }) => id)).toEqual(['other']);
    expect((await ask(rows, '', (domain) => domain === 'shop')).overrides.map(({ id }) => id)).toEqual([
      'stop',
    ]);
    await expect(ask(rows, 'domain=mail', (domain) => domain === 'shop')).rejects.toMatchObject({
      status: 403,
    });
  });

  it('says so before the first list', async () => {
    expect(await ask(undefined)).toEqual({
      overrides: [],
      notes: ['the first complete list of objects is not read yet'],
    });
  });
});
