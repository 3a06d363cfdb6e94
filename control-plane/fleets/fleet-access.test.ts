import { describe, expect, it } from 'vitest';
import { fleetKind } from '../../rules/language/kinds.ts';
import type { FleetObject } from '../model/config-object.ts';
import type { FleetSpec, NamespaceSelector } from '../model/object-models.ts';
import type { Labels } from '../source/label-selector.ts';
import { type AccessReading, accessProblem, readAccess } from './fleet-readings.ts';

function fleet(spec: Partial<FleetSpec>, generation = 1): FleetObject {
  const whole = { disconnectedGraceSeconds: 30, onDisconnected: 'Unknown', ...spec } as const;
  const identity = { kind: fleetKind, namespace: 'weir-system', name: 'edge', uid: 'u' };
  return { ...identity, generation, spec: whole, status: undefined };
}

const selecting = (selector: NamespaceSelector, generation = 1): FleetObject =>
  fleet({ allowedNamespaces: { from: 'Selector', selector } }, generation);

const known = (labels: Record<string, Labels>) => ({
  all: new Map(Object.entries(labels).map(([name, its]) => [name, { labels: its }])),
  outage: undefined,
});
const nothing = { all: undefined, outage: undefined };
const forbidden = { all: undefined, outage: 'namespaces is forbidden' };

/** Of `a` and `b`, who may use the fleet; or why nobody knows. */
function admitted({ access }: AccessReading): string[] | string {
  return 'unknown' in access ? access.unknown : ['a', 'b'].filter((name) => access.admits(name));
}

describe('readAccess', () => {
  it('lets everybody in by default, and reads no namespaces', () => {
    const reading = readAccess(fleet({}), nothing, undefined);
    expect(admitted(reading)).toEqual(['a', 'b']);
    expect(reading.problem).toBeUndefined();
    const all = fleet({ allowedNamespaces: { from: 'All' } });
    for (const namespaces of [nothing, forbidden, known({ a: {} })])
      expect(admitted(readAccess(all, namespaces, undefined))).toEqual(['a', 'b']);
  });

  it.each<[NamespaceSelector, Labels, boolean]>([
    [{}, {}, true],
    [{ matchLabels: { team: 'a' } }, { team: 'a', x: 'y' }, true],
    [{ matchLabels: { team: 'a', tier: '' } }, { team: 'a' }, false],
    [{ matchExpressions: [{ key: 'team', operator: 'In', values: ['a', 'b'] }] }, { team: 'b' }, true],
    [{ matchExpressions: [{ key: 'team', operator: 'In', values: ['a'] }] }, {}, false],
    [{ matchExpressions: [{ key: 'team', operator: 'NotIn', values: ['a'] }] }, {}, true],
    [{ matchExpressions: [{ key: 'team', operator: 'NotIn', values: ['a'] }] }, { team: 'a' }, false],
    [{ matchExpressions: [{ key: 'team', operator: 'Exists' }] }, { team: '' }, true],
    [{ matchExpressions: [{ key: 'x.y/team', operator: 'DoesNotExist' }] }, { 'x.y/team': '' }, false],
  ])('chooses by %j of labels %j: %s', (selector, labels, isChosen) => {
    const reading = readAccess(selecting(selector), known({ a: labels }), undefined);
    expect(admitted(reading)).toEqual(isChosen ? ['a'] : []);
  });

  it('follows labels, and is the same as long as the same namespaces are chosen', () => {
    const object = selecting({ matchLabels: { team: 'x' } });
    const first = readAccess(object, known({ a: { team: 'x' }, b: {}, c: { team: 'x' } }), undefined);
    expect(readAccess(object, known({ c: { team: 'x' }, b: { other: '1' }, a: { team: 'x' } }), first)).toBe(
      first,
    );
    const second = readAccess(object, known({ a: {}, b: { team: 'x' } }), first);
    expect(admitted(second)).toEqual(['b']);
  });

  it('keeps what it knew when namespaces cannot be followed, and says so', () => {
    const object = selecting({ matchLabels: { team: 'x' } });
    const first = readAccess(object, known({ a: { team: 'x' } }), undefined);
    const lost = readAccess(object, { ...known({ a: { team: 'x' } }), outage: 'gone' }, first);
    expect(admitted(lost)).toEqual(['a']);
    expect(lost.problem).toEqual({
      reason: 'NamespacesUnknown',
      message: 'spec.allowedNamespaces: the control plane cannot watch labels of namespaces: gone',
      meanwhile: 'the previous value stays in use',
    });
    expect(readAccess(object, known({ a: { team: 'x' } }), lost).problem).toBeUndefined();
  });

  it('does not know who may use it before namespaces are read', () => {
    const object = selecting({ matchLabels: { team: 'x' } });
    const early = readAccess(object, nothing, undefined);
    expect(early).toMatchObject({
      access: { unknown: 'the control plane has not read the labels of namespaces yet' },
      problem: undefined,
    });
    const refused = readAccess(object, forbidden, early);
    expect(refused.problem).toEqual({
      reason: 'NamespacesUnknown',
      message:
        'spec.allowedNamespaces: the control plane cannot watch labels of namespaces: namespaces is forbidden',
      meanwhile: 'limiters keep their rules and get no new ones',
    });
    expect(admitted(refused)).toMatch(/namespaces is forbidden$/);
    expect(admitted(readAccess(object, known({ a: { team: 'x' } }), refused))).toEqual(['a']);
  });

  it('leaves in force what held before a mistake', () => {
    const good = readAccess(fleet({ domains: [{ match: 'mail', namespaces: ['a'] }] }), nothing, undefined);
    const domains = [
      { match: '*', namespaces: ['a'] },
      { match: 'mail', namespaces: ['b'] },
    ];
    const bad = readAccess(fleet({ domains }, 2), nothing, good);
    expect(bad.access).toBe(good.access);
    expect(bad.problem).toEqual({
      reason: 'Invalid',
      message:
        "spec.domains: entry 2 'mail=b' never applies: '*' comes before it and matches the same domains",
      meanwhile: 'the previous value stays in use',
    });
    expect(accessProblem(fleet({ domains }))).toBe(bad.problem?.message);
    expect(accessProblem(selecting({ matchLabels: { team: 'x' } }))).toBeUndefined();
    expect(readAccess(fleet({ domains }, 2), nothing, bad)).toBe(bad);
    const atStart = readAccess(fleet({ domains }, 2), nothing, undefined);
    expect(atStart.access).toHaveProperty('unknown');
    expect(atStart.problem?.meanwhile).toBe('limiters keep their rules and get no new ones');
  });

  it.each<NonNullable<NamespaceSelector['matchExpressions']>[number]>([
    { key: 'team', operator: 'In', values: [] },
    { key: 'team', operator: 'NotIn' },
    { key: 'team', operator: 'Exists', values: ['a'] },
    { key: 'team', operator: 'DoesNotExist', values: [''] },
  ])('rejects values that do not fit the operator: %j', (expression) => {
    const fits = { key: 'tier', operator: 'Exists' } as const;
    const object = selecting({ matchExpressions: [fits, expression] });
    const reading = readAccess(object, known({ a: { team: '', tier: '' } }), undefined);
    expect(reading.access).toHaveProperty('unknown');
    expect(reading.problem).toMatchObject({
      reason: 'Invalid',
      message:
        'spec.allowedNamespaces.selector.matchExpressions[1]: values are needed with In and NotIn, and with nothing else',
    });
  });

  it('says what is wrong with a selector', () => {
    const { problem } = readAccess(selecting({ matchLabels: { 'a,b': 'c' } }), known({}), undefined);
    expect(problem?.message).toMatch(/^spec.allowedNamespaces.selector: 'a\?b' is not a key of a label/);
  });
});
