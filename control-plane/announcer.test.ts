import { beforeEach, describe, expect, it } from 'vitest';
import { configObject } from '../test/support/config-object-builder.ts';
import { recordedTelemetry } from '../test/support/control-plane-telemetry.ts';
import { Announcer } from './announcer.ts';
import type { Condition, ConfigObject, ConfigStatus } from './model/config-object.ts';
import type { OwnershipEvent } from './reconcile/status-ownership.ts';
import type { RecordedEvent } from './replicas/event-recorder.ts';
import type { WebhookEvent } from './webhooks/webhook-event.ts';

const nowMs = Date.UTC(2026, 0, 31, 12);
const repeatMs = 45_000;

let recorded: RecordedEvent[];
let notified: WebhookEvent[];
let announcer: Announcer;

/** As another replica has it. */
function makeAnnouncer({ telemetry = recordedTelemetry(), hasWebhooks = true } = {}): Announcer {
  return new Announcer({
    ...telemetry,
    clock: { nowMs: () => nowMs, monotonicMs: () => 0 },
    events: { record: (event) => recorded.push(event) },
    notify: hasWebhooks ? (event) => notified.push(event) : undefined,
    limitersOf: () => ({ inForce: 2, refused: 0, total: 2 }),
    repeatMs,
  });
}

beforeEach(() => {
  recorded = [];
  notified = [];
  announcer = makeAnnouncer();
});

const limiters = { inForce: 3, refused: 0, total: 3 };

type Wish = [type: Condition['type'], status: 'True' | 'False', reason: string];

/** Conditions that came about so long ago. */
function statusOf(generation: number, ageMs: number, ...wishes: Wish[]): ConfigStatus {
  const lastTransitionTime = new Date(nowMs - ageMs).toISOString().replace('.000', '');
  const conditions = wishes.map(([type, status, reason]): Condition => {
    return {
      type,
      status,
      reason,
      message: `so: ${reason}`,
      lastTransitionTime,
      observedGeneration: generation,
    };
  });
  return { observedGeneration: generation, conditions };
}

const accepted: Wish = ['Accepted', 'True', 'Valid'];
const rejected: Wish = ['Accepted', 'False', 'Invalid'];
const programmed: Wish = ['Programmed', 'True', 'AllLimiters'];
const refused: Wish = ['Programmed', 'False', 'Refused'];
const pending: Wish = ['Programmed', 'False', 'Pending'];
const ready: Wish = ['Ready', 'True', 'Ready'];

const types = (): string[] => notified.map(({ type }) => type);
const events = (): string[] => recorded.map(({ type, reason, note }) => `${type} ${reason}: ${note}`);

describe('written', () => {
  const object = configObject({ name: 'shop' });

  it('reports what is new, once for each follower', () => {
    announcer.written({
      object,
      limiters,
      previous: undefined,
      next: statusOf(1, 0, accepted, programmed, ready),
    });
    expect(types()).toEqual(['ratelimitconfig.accepted', 'ratelimitconfig.programmed']);
    expect(notified[0]?.data.limiters).toEqual(limiters);
    expect(events()).toEqual(['Normal Valid: so: Valid', 'Normal AllLimiters: so: AllLimiters']);
  });

  it('writes Kubernetes events if there are no webhooks', () => {
    const without = makeAnnouncer({ hasWebhooks: false });
    const next = statusOf(1, 0, accepted, programmed, ready);
    without.startedLeading([configObject({ name: 'shop', status: next })]);
    expect(recorded).toEqual([]);
    without.written({ object, limiters, previous: undefined, next });
    expect(events()).toEqual(['Normal Valid: so: Valid', 'Normal AllLimiters: so: AllLimiters']);
  });

  it('reports nothing that was there before, and nothing that passes by itself', () => {
    const previous = statusOf(1, 0, accepted);
    announcer.written({ object, limiters, previous, next: statusOf(1, 0, accepted, pending) });
    expect([notified, recorded]).toEqual([[], []]);
  });

  it('warns of what is rejected', () => {
    announcer.written({ object, limiters, previous: undefined, next: statusOf(1, 0, rejected, refused) });
    expect(types()).toEqual(['ratelimitconfig.rejected', 'ratelimitconfig.refused']);
    expect(events()).toEqual(['Warning Invalid: so: Invalid', 'Warning Refused: so: Refused']);
  });

  it('warns of rules that no limiter has', () => {
    const unused: Wish = ['Programmed', 'False', 'NoLimiters'];
    announcer.written({ object, limiters, previous: undefined, next: statusOf(1, 0, accepted, unused) });
    expect(events()).toEqual(['Normal Valid: so: Valid', 'Warning NoLimiters: so: NoLimiters']);
  });

  it('reports a newer generation also if the condition stays as it was', () => {
    const [previous, next] = [statusOf(1, 0, accepted), statusOf(2, 0, accepted)];
    announcer.written({ object, limiters, previous, next });
    expect(types()).toEqual(['ratelimitconfig.accepted']);
    expect(notified[0]?.data.generation).toBe(2);
  });
});

describe('startedLeading', () => {
  const withStatus = (status: ConfigStatus, traits: Partial<ConfigObject> = {}): ConfigObject =>
    configObject({ name: 'shop', generation: status.observedGeneration, status, ...traits });

  it('repeats what the leader before reported, under the same ids', () => {
    const next = statusOf(1, 5_000, accepted, programmed);
    announcer.written({ object: configObject({ name: 'shop' }), limiters, previous: undefined, next });
    const reported = notified.map(({ id }) => id);
    notified = [];
    makeAnnouncer().startedLeading([withStatus(next)]);
    expect(notified.map(({ id }) => id)).toEqual(reported);
    expect(notified[0]?.data.limiters).toEqual({ inForce: 2, refused: 0, total: 2 });
    expect(reported).toHaveLength(2);
  });

  it('writes no Kubernetes event again', () => {
    announcer.startedLeading([withStatus(statusOf(1, 0, accepted))]);
    expect(recorded).toEqual([]);
  });

  it.each([
    ['of a moment ago', repeatMs - 1_000, ['ratelimitconfig.accepted']],
    ['of long ago', repeatMs, []],
  ])('looks at the time of the condition: %s', (_, ageMs, seen) => {
    announcer.startedLeading([withStatus(statusOf(1, ageMs, accepted))]);
    expect(types()).toEqual(seen);
  });

  it.each([
    ['edited a moment ago', { editedMs: nowMs - 1_000 }, ['ratelimitconfig.accepted']],
    ['edited long ago', { editedMs: nowMs - repeatMs }, []],
    ['edited a moment ago, not yet decided', { editedMs: nowMs - 1_000, generation: 3 }, []],
  ])('repeats what stayed as it was through an edit: %s', (_, traits, seen) => {
    announcer.startedLeading([withStatus(statusOf(2, 3_600_000, accepted), traits)]);
    expect(types()).toEqual(seen);
  });

  it('skips objects without a status, and what is not new', () => {
    announcer.startedLeading([configObject({ name: 'new' }), withStatus(statusOf(1, 0, pending))]);
    expect(notified).toEqual([]);
  });
});

describe('contested', () => {
  const object = configObject({ name: 'shop' });
  const words = 'two control planes have the same class';

  it.each<[counter: string, news: OwnershipEvent, event: string, logged: object]>([
    [
      'status_overwrites_total',
      { is: 'overwritten', by: 'b/weir', manager: 'kubectl' },
      'Warning StatusOverwritten: the status was changed by kubectl and now has the name of control plane b/weir; the control plane writes it again',
      { object: 'default/shop', by: 'b/weir', manager: 'kubectl', times: 1 },
    ],
    [
      'status_overwrites_total',
      { is: 'overwritten', by: undefined },
      'Warning StatusOverwritten: the status was changed by a client that managedFields does not name; the control plane writes it again',
      { object: 'default/shop', times: 1 },
    ],
    [
      'class_conflicts_total',
      { is: 'class-conflict', by: 'b/weir', yields: true },
      `Warning ClassConflict: control plane b/weir also writes this status: ${words}; this one does not write to the object for ten minutes`,
      { object: 'default/shop', by: 'b/weir', yields: true, times: 1 },
    ],
    [
      'class_conflicts_total',
      { is: 'class-conflict', by: 'b/weir', yields: false },
      `Warning ClassConflict: control plane b/weir also writes this status: ${words}; this one continues to write it`,
      { object: 'default/shop', by: 'b/weir', yields: false, times: 1 },
    ],
  ])('counts %s, and reports %j', async (counter, news, event, logged) => {
    const telemetry = recordedTelemetry();
    if (news.is === 'written') throw new Error('no other writer');
    makeAnnouncer({ telemetry }).contested(object, news);
    expect(events()).toEqual([event]);
    expect(telemetry.events.map(([, fields]) => fields)).toEqual([logged]);
    for (const each of ['status_overwrites_total', 'class_conflicts_total'])
      expect(await telemetry.counted(each)).toBe(each === counter ? 1 : 0);
  });
});
