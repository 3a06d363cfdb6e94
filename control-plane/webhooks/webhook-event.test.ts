import { describe, expect, it } from 'vitest';
import { overrideKind } from '../../rules/language/kinds.ts';
import type { Condition, ConfigStatus } from '../model/config-object.ts';
import { removedEvent, type WebhookEvent, webhookEvents } from './webhook-event.ts';

const object = {
  namespace: 'shop',
  name: 'checkout',
  uid: '2f1c',
  spec: { domain: 'from-spec', fleet: 'edge' },
};

function condition(type: Condition['type'], changes: Partial<Condition> = {}): Condition {
  return {
    type,
    status: 'True',
    reason: 'Valid',
    message: 'ok',
    lastTransitionTime: '2026-01-31T12:00:00Z',
    observedGeneration: 3,
    ...changes,
  };
}

function status(...conditions: Condition[]): ConfigStatus {
  return { observedGeneration: 3, domain: 'checkout', fleet: 'default', conditions };
}

const limiters = { inForce: 2, refused: 1, total: 3 };

function events(
  previous: ConfigStatus | undefined,
  next: ConfigStatus,
  of: Parameters<typeof webhookEvents>[0]['object'] = object,
): WebhookEvent[] {
  return webhookEvents({ object: of, previous, next, limiters, nowMs: Date.UTC(2026, 0, 31, 12, 0, 1) });
}

const accepted = condition('Accepted');
const rejected = condition('Accepted', { status: 'False', reason: 'Invalid' });
const programmed = condition('Programmed', { reason: 'AllLimiters' });
const pending = condition('Programmed', { status: 'False', reason: 'Pending' });
const refused = condition('Programmed', { status: 'False', reason: 'Refused' });

describe('webhookEvents', () => {
  it.each<[string, ConfigStatus | undefined, ConfigStatus, string[]]>([
    ['a first acceptance', undefined, status(accepted, pending), ['accepted']],
    ['a first rejection', undefined, status(rejected), ['rejected']],
    ['limiters that all have it', status(accepted, pending), status(accepted, programmed), ['programmed']],
    ['a limiter that refuses', status(accepted, pending), status(accepted, refused), ['refused']],
    ['two changes at once', undefined, status(accepted, programmed), ['accepted', 'programmed']],
    [
      'a newer generation that is accepted as well',
      status(accepted),
      status(condition('Accepted', { observedGeneration: 4 })),
      ['accepted'],
    ],
    [
      'a rejection for another reason',
      status(rejected),
      status({ ...rejected, reason: 'DomainConflict' }),
      ['rejected'],
    ],
    ['a return to acceptance', status(rejected), status(accepted), ['accepted']],
  ])('reports %s', (_, previous, next, types) => {
    expect(events(previous, next).map(({ type }) => type)).toEqual(types.map((t) => `ratelimitconfig.${t}`));
  });

  it('reports overrides by names of their own, and that they have ended', () => {
    const expired = condition('Accepted', { status: 'False', reason: 'Expired' });
    const reported = (previous: ConfigStatus | undefined, next: ConfigStatus) =>
      events(previous, next, { ...object, kind: overrideKind }).map(({ type }) => type);
    expect(reported(undefined, status(accepted, programmed))).toEqual([
      'ratelimitoverride.accepted',
      'ratelimitoverride.programmed',
    ]);
    expect(reported(status(accepted, programmed), status(expired))).toEqual(['ratelimitoverride.expired']);
    const gone = {
      kind: overrideKind,
      namespace: 'shop',
      name: 'x',
      uid: 'u',
      generation: 1,
      served: null,
      removedMs: 0,
    };
    expect(removedEvent(gone, { total: 0, nowMs: 0 }).type).toBe('ratelimitoverride.removed');
  });

  it.each<[string, ConfigStatus | undefined, ConfigStatus]>([
    ['nothing that changed', status(accepted, programmed), status(accepted, programmed)],
    ['other words of a message', status(accepted), status({ ...accepted, message: 'fine' })],
    ['limiters that are missing', status(accepted, programmed), status(accepted, pending)],
    ['Ready, which says nothing new', undefined, status(condition('Ready'))],
  ])('does not mention %s', (_, previous, next) => {
    expect(events(previous, next)).toEqual([]);
  });

  it('carries what a receiver needs to know', () => {
    const next: ConfigStatus = {
      ...status(refused),
      servedGeneration: 3,
      servedVersion: '00c0ffee00c0ffee',
    };
    expect(events(undefined, next)).toEqual([
      {
        id: expect.stringMatching(/^msg_[0-9a-f]{32}$/),
        type: 'ratelimitconfig.refused',
        timestamp: '2026-01-31T12:00:01.000Z',
        data: {
          namespace: 'shop',
          name: 'checkout',
          uid: '2f1c',
          generation: 3,
          domain: 'checkout',
          fleet: 'default',
          condition: {
            type: 'Programmed',
            status: 'False',
            reason: 'Refused',
            message: 'ok',
            lastTransitionTime: '2026-01-31T12:00:00Z',
          },
          servedGeneration: 3,
          servedVersion: '00c0ffee00c0ffee',
          limiters,
        },
      },
    ]);
  });

  it('takes domain and fleet from a spec that was never accepted', () => {
    const { domain: _d, fleet: _f, ...never } = status(rejected);
    expect(events(undefined, never)[0]?.data).toMatchObject({ domain: 'from-spec', fleet: 'edge' });
    const odd = events(undefined, never, { ...object, spec: { domain: 7 } })[0]?.data;
    expect(odd).toMatchObject({ domain: null, fleet: null });
  });

  it('shortens a message that would make the event too large', () => {
    const [event] = events(undefined, status({ ...rejected, message: 'x'.repeat(32_768) }));
    expect(event?.data.condition.message).toBe(`${'x'.repeat(8_192)}...`);
  });

  it('gives the same event the same ID, whichever replica reports it, and when', () => {
    const [one] = events(status(rejected), status(accepted));
    const change = { object, previous: undefined, next: status(accepted), limiters: undefined, nowMs: 0 };
    const [other] = webhookEvents(change);
    expect(one?.id).toBe(other?.id);
    expect(other?.data.limiters).toBeNull();
  });

  it.each<[string, Condition, string]>([
    ['generation', { ...accepted, observedGeneration: 4 }, '2f1c'],
    ['transition', { ...accepted, lastTransitionTime: '2026-01-31T12:00:01Z' }, '2f1c'],
    ['reason', { ...accepted, reason: 'Other' }, '2f1c'],
    ['object', accepted, '2f1d'],
  ])('gives another %s another id', (_, changed, uid) => {
    const [one] = events(undefined, status(accepted));
    const [other] = events(undefined, status(changed), { ...object, uid });
    expect(other?.id).not.toBe(one?.id);
  });
});

describe('removedEvent', () => {
  const served = { fleet: 'edge', domain: 'checkout', resource: 'shop/checkout' };
  const removedMs = Date.UTC(2026, 0, 31, 12);
  const gone = { namespace: 'shop', name: 'checkout', uid: '2f1c', generation: 3, served, removedMs };

  it('has the fields of the other events', () => {
    const nowMs = removedMs + 1_000;
    expect(removedEvent(gone, { total: 3, nowMs })).toMatchObject({
      type: 'ratelimitconfig.removed',
      timestamp: '2026-01-31T12:00:01.000Z',
      data: {
        generation: 3,
        domain: 'checkout',
        fleet: 'edge',
        condition: { reason: 'Removed', lastTransitionTime: '2026-01-31T12:00:00Z' },
        limiters: { inForce: 0, refused: 0, total: 3 },
      },
    });
    const { data } = removedEvent({ ...gone, served: null }, { total: 0, nowMs });
    expect([data.domain, data.fleet, data.limiters]).toEqual([null, null, null]);
  });

  it('has one ID for one object, whichever replica reports it, and when', () => {
    const [one, other] = [0, 1].map((number) => removedEvent(gone, { total: number, nowMs: number }).id);
    expect(one).toBe(other);
    expect(removedEvent({ ...gone, uid: '2f1d' }, { total: 0, nowMs: 0 }).id).not.toBe(one);
  });
});
