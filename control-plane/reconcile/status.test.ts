import { describe, expect, it } from 'vitest';
import { configObject } from '../../test/support/config-object-builder.ts';
import { type ConditionType, type ConfigStatus, findCondition } from '../model/config-object.ts';
import type { ObjectOutcome, ServedConfig } from '../model/decision.ts';
import { type ConfigStatusFacts, sameStatus, statusOf, transitions } from './conditions.ts';
import type { RolloutProgress } from './fleet-rollout.ts';

const served: ServedConfig = {
  fleet: 'edge',
  domain: 'shop',
  generation: 2,
  hash: '0123456789abcdef',
  resource: 'default/a',
  rules: 3,
  ownFields: [],
  spec: {},
  needs: [],
  fallback: undefined,
  bytes: new Uint8Array(),
};
const object = configObject({ name: 'a', generation: 2 });
const accepted: ObjectOutcome = { object, accepted: { status: true }, served };
const rejection = { status: false, reason: 'Invalid', message: 'bad; generation 1 stays in force' } as const;
const oldInForce: ObjectOutcome = { object, accepted: rejection, served: { ...served, generation: 1 } };
const rejected: ObjectOutcome = {
  object,
  accepted: { status: false, reason: 'DomainConflict', message: 'taken; nothing is in force' },
  served: undefined,
};

const noonMs = Date.UTC(2026, 0, 2, 12);

function standing(inForce: number, traits: { refused?: string[]; pending?: string[] } = {}): RolloutProgress {
  const { refused = [], pending = [] } = traits;
  const refusals = refused.map((name, index) => ({
    name,
    sinceMs: noonMs + index * 1_000,
    message: `${name} says no`,
  }));
  const waited = pending.map((name) => ({ name, sinceMs: noonMs + 59_999 }));
  return {
    total: inForce + refused.length + pending.length,
    inForce,
    rejected: { items: refusals, count: refused.length },
    pending: { items: waited, count: pending.length },
    tooOld: { items: [], count: 0 },
    needs: [],
    connected: inForce + refused.length + pending.length,
    away: { items: [], count: 0 },
    isShort: false,
    mayBeMore: false,
    hasOlder: false,
    isUnconfirmed: false,
  };
}

/** Of two limiters more, which are too old. */
function withOld(others: RolloutProgress): RolloutProgress {
  const tooOld = { items: [{ name: 'o', sinceMs: noonMs }], count: 2 };
  return {
    ...others,
    tooOld,
    needs: ['windows', 'calendar'],
    total: others.total + 2,
    connected: others.connected + 2,
  };
}
const needsNew: ObjectOutcome = {
  ...accepted,
  served: { ...served, needs: ['windows', 'calendar'], fallback: { generation: 1, spec: {}, needs: [] } },
};

function statusWith(facts: Partial<ConfigStatusFacts>): ConfigStatus {
  const status = statusOf({
    outcome: accepted,
    standing: standing(3),
    awaitsMore: false,
    hasOthers: false,
    isOversize: false,
    previous: undefined,
    nowMs: Date.UTC(2026, 0, 2, 3, 4, 5, 678),
    ...facts,
  });
  // Otherwise, the stored status would always differ from it.
  expect(JSON.parse(JSON.stringify(status))).toStrictEqual(status);
  return status;
}

/** `True AllLimiters: message`; undefined without the condition. */
function conditionText(status: ConfigStatus, type: ConditionType): string | undefined {
  const condition = findCondition(status, type);
  return condition && `${condition.status} ${condition.reason}: ${condition.message}`;
}

describe('statusOf', () => {
  it('is complete for an object that every limiter has', () => {
    const stamp = { lastTransitionTime: '2026-01-02T03:04:05Z', observedGeneration: 2 };
    const message = "in force on every limiter of fleet 'edge'";
    expect(statusWith({})).toEqual({
      observedGeneration: 2,
      domain: 'shop',
      fleet: 'edge',
      rules: 3,
      servedVersion: '0123456789abcdef',
      servedGeneration: 2,
      conditions: [
        {
          type: 'Accepted',
          status: 'True',
          reason: 'Valid',
          message: "3 rules for domain 'shop' served to fleet 'edge'",
          ...stamp,
        },
        { type: 'Programmed', status: 'True', reason: 'AllLimiters', message, ...stamp },
        { type: 'Ready', status: 'True', reason: 'Ready', message, ...stamp },
      ],
    });
  });

  const progress: [what: string, facts: Partial<ConfigStatusFacts>, programmed: string, ready?: string][] = [
    ['no limiter', { standing: standing(0) }, "False NoLimiters: no limiter of fleet 'edge' is connected"],
    [
      'limiters that have not answered',
      { standing: standing(1, { pending: ['p', 'q'] }) },
      "False Pending: not in force on every limiter of fleet 'edge'; waiting for p since 12:00:59Z, q since 12:00:59Z",
    ],
    [
      'more limiters than are named',
      {
        standing: {
          ...standing(0, { pending: ['p'] }),
          pending: { items: [{ name: 'p', sinceMs: noonMs }], count: 9 },
        },
      },
      "False Pending: not in force on every limiter of fleet 'edge'; waiting for p since 12:00:00Z and others",
    ],
    [
      'a limiter that refuses',
      { standing: standing(1, { refused: ['r'], pending: ['p'] }) },
      "False Refused: not in force on every limiter of fleet 'edge'; rejected by r since 12:00:00Z: r says no; waiting for p since 12:00:59Z",
    ],
    [
      'a limiter that refuses in the words of rule files, which are put into those of manifests',
      { standing: standing(0, { refused: ['token_bucket'] }) },
      "False Refused: not in force on every limiter of fleet 'edge'; rejected by token_bucket since 12:00:00Z: TokenBucket says no",
    ],
    [
      'several that refuse',
      { standing: standing(0, { refused: ['r', 's', 't'] }) },
      "False Refused: not in force on every limiter of fleet 'edge'; rejected by r since 12:00:00Z: r says no; also rejected by s since 12:00:01Z, t since 12:00:02Z",
    ],
    [
      'limiters that are too old',
      { outcome: needsNew, standing: withOld(standing(1, { pending: ['p'] })) },
      "False LimiterTooOld: not in force on every limiter of fleet 'edge'; limiters that do not support all of windows, calendar " +
        'get generation 1: o since 12:00:00Z and others; waiting for p since 12:00:59Z',
    ],
    [
      'limiters that are too old for all of its generations',
      {
        outcome: { ...accepted, served: { ...served, needs: ['windows', 'calendar'] } },
        standing: withOld(standing(0)),
      },
      "False LimiterTooOld: not in force on every limiter of fleet 'edge'; limiters that do not support all of windows, calendar " +
        'get no part of it: o since 12:00:00Z and others',
    ],
    [
      'one that refuses before those that are too old',
      { outcome: needsNew, standing: withOld(standing(0, { refused: ['r'] })) },
      "False Refused: not in force on every limiter of fleet 'edge'; rejected by r since 12:00:00Z: r says no; " +
        'limiters that do not support all of windows, calendar get generation 1: o since 12:00:00Z and others',
    ],
    [
      'limiters that are too old for an older generation',
      { outcome: { ...needsNew, accepted: rejection }, standing: withOld(standing(0)) },
      'False NotAccepted: generation 2 is not accepted; generation 2 as it was last accepted is still served, but ' +
        "not in force on every limiter of fleet 'edge'; limiters that do not support all of windows, calendar " +
        'get generation 1: o since 12:00:00Z and others',
      `False Invalid: not accepted: ${rejection.message}`,
    ],
    [
      'limiters that are away',
      { standing: { ...standing(1), away: { items: [{ name: 'p', sinceMs: noonMs }], count: 9 } } },
      "Unknown Disconnected: it is unknown whether these rules are in force on every limiter of fleet 'edge'; no report from p since 12:00:00Z and others",
    ],
    [
      'fewer limiters than there should be',
      { standing: { ...standing(1, { pending: ['p'] }), isShort: true } },
      "False Pending: not in force on every limiter of fleet 'edge'; waiting for p since 12:00:59Z; fewer limiters are connected than expected",
    ],
    [
      'an older generation in force',
      { outcome: oldInForce, standing: standing(1) },
      "False NotAccepted: generation 2 is not accepted; generation 1 stays in force on every limiter of fleet 'edge'",
      `False Invalid: not accepted: ${rejection.message}`,
    ],
    [
      'an older generation that is not in force everywhere',
      { outcome: oldInForce, standing: standing(1, { pending: ['p'] }) },
      'False NotAccepted: generation 2 is not accepted; generation 1 is still served, but ' +
        "not in force on every limiter of fleet 'edge'; waiting for p since 12:00:59Z",
      `False Invalid: not accepted: ${rejection.message}`,
    ],
    [
      'an older generation that nobody takes',
      { outcome: oldInForce, standing: standing(0) },
      "False NotAccepted: generation 2 is not accepted; generation 1 is still served, but no limiter of fleet 'edge' is connected",
      `False Invalid: not accepted: ${rejection.message}`,
    ],
    [
      'nothing in force',
      { outcome: rejected, standing: undefined },
      'False NotAccepted: generation 2 is not accepted; nothing is in force',
      'False DomainConflict: not accepted: taken; nothing is in force',
    ],
  ];
  it.each(progress)('reports %s', (_, facts, programmed, ready) => {
    const status = statusWith(facts);
    expect(conditionText(status, 'Programmed')).toBe(programmed);
    expect(conditionText(status, 'Ready')).toBe(ready ?? programmed.replace('AllLimiters', 'Ready'));
  });

  it('says what is served while the newest generation is not accepted', () => {
    const status = statusWith({ outcome: oldInForce });
    expect(status).toMatchObject({ observedGeneration: 2, servedGeneration: 1, rules: 3, domain: 'shop' });
    expect(conditionText(status, 'Accepted')).toBe('False Invalid: bad; generation 1 stays in force');
  });

  it('remembers what the object was accepted for when nothing of it is served', () => {
    const status = statusWith({ outcome: rejected, standing: undefined, previous: statusWith({}) });
    expect(status).toEqual({
      observedGeneration: 2,
      domain: 'shop',
      fleet: 'edge',
      conditions: status.conditions,
    });
  });

  it('shortens the words of a limiter', () => {
    const refused = { items: [{ name: 'r', sinceMs: 0, message: 'x'.repeat(40_000) }], count: 1 };
    const text = conditionText(
      statusWith({ standing: { ...standing(0), total: 1, connected: 1, rejected: refused } }),
      'Programmed',
    )!;
    expect(text.length).toBeLessThan(2_200);
    expect(text.endsWith('xxx...')).toBe(true);
  });

  const own: ObjectOutcome = {
    ...accepted,
    served: { ...served, ownFields: ['valueToMetric', 'shareThreshold'] },
  };
  const hasOthers = true;
  const ignored = "valueToMetric, shareThreshold ignored by limiters of fleet 'edge' that are not Weir's";
  const tooLarge = "the rules of fleet 'edge' take over 4 MiB, which limiters reject by default";
  const supported: [what: string, facts: Partial<ConfigStatusFacts>, text: string | undefined][] = [
    ['own fields and other limiters', { outcome: own, hasOthers }, `False UnknownFields: ${ignored}`],
    ['own fields and Weir’s limiters', { outcome: own }, undefined],
    ['no own fields', { hasOthers }, undefined],
    [
      'a snapshot too large',
      { isOversize: true },
      `False SnapshotTooLarge: ${tooLarge}; limiters of Weir accept more`,
    ],
    [
      'both',
      { outcome: own, hasOthers, isOversize: true },
      `False SnapshotTooLarge: ${tooLarge}; limiters of Weir accept more, but the fleet has others; ${ignored}`,
    ],
    ['nothing served', { outcome: rejected, standing: undefined, isOversize: true }, undefined],
  ];
  it.each(supported)('knows what is not supported with %s', (_, facts, text) => {
    expect(conditionText(statusWith(facts), 'Supported')).toBe(text);
  });

  it.each<[what: string, facts: Partial<ConfigStatusFacts>, stalled: boolean]>([
    [
      'a spec with mistakes',
      { outcome: { ...rejected, accepted: { status: false, reason: 'Invalid', message: 'spec.domain' } } },
      true,
    ],
    ['a limiter that rejects', { standing: standing(0, { refused: ['p'] }) }, true],
    ['a limiter that has not answered', { standing: standing(0, { pending: ['p'] }) }, false],
    [
      'a domain that may become free',
      { outcome: { ...rejected, accepted: { status: false, reason: 'DomainConflict', message: 'taken' } } },
      false,
    ],
    ['rules in force', {}, false],
  ])('is stalled if only a correction helps: %s', (_, facts, stalled) => {
    const status = statusWith(facts);
    const ready = findCondition(status, 'Ready')!;
    expect(findCondition(status, 'Stalled')).toEqual(
      stalled ? { ...ready, type: 'Stalled', status: 'True' } : undefined,
    );
    expect(transitions(undefined, status).map(({ type }) => type)).not.toContain('Stalled');
  });

  it('keeps the time of a transition while the status of the condition stays', () => {
    const previous = statusWith({ standing: standing(0, { pending: ['p'] }) });
    const later = Date.UTC(2026, 0, 3);
    const refused = statusWith({ standing: standing(0, { refused: ['p'] }), previous, nowMs: later });
    const done = statusWith({ standing: standing(1), previous: refused, nowMs: later });
    const timeOf = (status: ConfigStatus, type: ConditionType) =>
      findCondition(status, type)?.lastTransitionTime;
    expect(timeOf(refused, 'Programmed')).toBe('2026-01-02T03:04:05Z');
    expect(timeOf(done, 'Programmed')).toBe('2026-01-03T00:00:00Z');
    expect(timeOf(done, 'Accepted')).toBe('2026-01-02T03:04:05Z');
  });

  it('keeps the times that the leader before wrote', () => {
    const previous = statusWith({ standing: standing(0, { pending: ['p', 'q'] }) });
    const later = standing(0, { pending: ['p', 'q'] });
    const items = later.pending.items.map(({ name }) => ({ name, sinceMs: 0 }));
    const next = statusWith({ standing: { ...later, pending: { items, count: 2 } }, previous });
    expect(sameStatus(next, previous)).toBe(true);
    const fewer = { ...later, pending: { items: items.slice(1), count: 1 } };
    expect(conditionText(statusWith({ standing: fewer, previous }), 'Programmed')).toContain(
      'for q since 00:00:00Z',
    );
  });

  it('is the same when a limiter comes or goes', () => {
    const previous = statusWith({});
    for (const count of [1, 4]) {
      expect(sameStatus(statusWith({ standing: standing(count), previous }), previous)).toBe(true);
    }
  });

  it('is the same a second later', () => {
    const previous = statusWith({});
    expect(sameStatus(statusWith({ previous, nowMs: Date.UTC(2030, 0) }), previous)).toBe(true);
  });
});

describe('sameStatus', () => {
  const status = statusWith({});

  it('takes neither the order of conditions nor those of others for a change', () => {
    const foreign = { ...status.conditions[0]!, type: 'Foreign' as ConditionType };
    expect(sameStatus({ ...status, conditions: [foreign, ...status.conditions.toReversed()] }, status)).toBe(
      true,
    );
  });

  it.each<[what: string, other: ConfigStatus | undefined]>([
    ['none', undefined],
    ['another reason', statusWith({ standing: standing(0), previous: status })],
    ['a condition less', { ...status, conditions: status.conditions.slice(1) }],
    ['a condition more', statusWith({ isOversize: true, previous: status })],
    ['another served generation', { ...status, servedGeneration: 1 }],
  ])('reports it from %s', (_, other) => {
    expect(sameStatus(status, other)).toBe(false);
  });
});

describe('transitions', () => {
  const pending = statusWith({ standing: standing(0, { pending: ['p'] }) });
  const names = (previous: ConfigStatus | undefined, next: ConfigStatus) =>
    transitions(previous, next).map(({ type, status, reason }) => `${type} ${status} ${reason}`);

  it('has everything that the first status says, but not what follows from it', () => {
    expect(names(undefined, pending)).toEqual(['Accepted True Valid', 'Programmed False Pending']);
  });

  it('has the conditions with another status or reason', () => {
    expect(names(pending, statusWith({}))).toEqual(['Programmed True AllLimiters']);
    expect(names(pending, statusWith({ standing: standing(0, { refused: ['p'] }) }))).toEqual([
      'Programmed False Refused',
    ]);
    expect(names(pending, statusWith({ standing: standing(0, { pending: ['q'] }) }))).toEqual([]);
  });

  it('has what is said of a newer generation', () => {
    const outcome = {
      ...accepted,
      object: { ...object, generation: 3 },
      served: { ...served, generation: 3 },
    };
    expect(names(statusWith({}), statusWith({ outcome }))).toEqual([
      'Accepted True Valid',
      'Programmed True AllLimiters',
    ]);
  });
});
