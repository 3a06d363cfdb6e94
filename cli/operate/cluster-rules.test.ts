import { describe, expect, it } from 'vitest';
import { limitsWords } from '../../rules/describe.ts';
import { type ClusterRules, rulesInForce } from './cluster-rules.ts';
import { shownObject } from './shown-objects.ts';

interface Options {
  name: string;
  spec?: object;
  /** Reason of Accepted where it is not True. */
  refused?: string;
  status?: object;
}

function object({ name, spec, refused, status }: Options): ClusterRules {
  const value = {
    metadata: { namespace: 'shop', name, generation: 3 },
    spec: { domain: 'd', descriptors: [{ key: name, rateLimit: { unlimited: true } }], ...spec },
    status: {
      observedGeneration: 3,
      conditions: [
        {
          type: 'Accepted',
          status: refused === undefined ? 'True' : 'False',
          reason: refused,
          message: 'words',
        },
        { type: 'Programmed', status: 'True' },
      ],
      ...status,
    },
  };
  return { ...shownObject(value), createdMs: 0, spec: value.spec };
}

const none = { className: undefined, fleet: undefined };

function inForce(objects: ClusterRules[], chosen: Partial<typeof none | Record<string, string>> = {}) {
  const { sources, notes, problems } = rulesInForce(objects, 'd', { ...none, ...chosen });
  return { from: sources.map(({ source }) => source.name), notes, problems };
}

describe('rules of a cluster', () => {
  it('are those of accepted objects', () => {
    const objects = [object({ name: 'a' }), object({ name: 'b', refused: 'DomainConflict' })];
    expect(inForce(objects)).toEqual({
      from: ['shop/a'],
      notes: ['shop/b is not used: DomainConflict, words'],
      problems: [],
    });
  });

  it('have windows, algorithms and several limits, of objects that old limiters cannot obey as well', () => {
    const rateLimits = [
      { requestsPerUnit: 5, unit: 'second', algorithm: 'TokenBucket', burst: 10 },
      { requestsPerUnit: 60, window: '5m' },
    ];
    const conditions = [
      { type: 'Accepted', status: 'True' },
      { type: 'Programmed', status: 'False', reason: 'LimiterTooOld', message: 'words' },
    ];
    const one = object({
      name: 'a',
      spec: { descriptors: [{ key: 'k', rateLimits }] },
      status: { conditions },
    });
    const { sources, notes } = rulesInForce([one], 'd', none);
    expect(notes).toEqual(['shop/a is not in force everywhere: LimiterTooOld, words']);
    expect(limitsWords(sources[0]!.source.descriptors[0]!.limits)).toBe(
      '5 per second, token bucket, burst 10; 60 in 5m',
    );
  });

  it('are not known of an object of which an older generation is served', () => {
    const { from, problems } = inForce([
      object({ name: 'a', refused: 'Invalid', status: { servedGeneration: 2, domain: 'd' } }),
      object({ name: 'b', status: { observedGeneration: 2, servedGeneration: 2 } }),
    ]);
    expect(from).toEqual([]);
    expect(problems).toEqual([
      'limiters run generation 2 of shop/a, and its object is at 3: Invalid, words',
      'limiters run generation 2 of shop/b, and its object is at 3: NotObserved, the control plane has not read generation 3; its status is of generation 2',
    ]);
  });

  it('are reported when they are not in force on every limiter', () => {
    const conditions = [
      { type: 'Accepted', status: 'True' },
      { type: 'Programmed', status: 'Unknown', reason: 'Disconnected', message: 'no report from lim-0' },
    ];
    const { from, notes } = inForce([object({ name: 'a', status: { conditions } })]);
    expect(from).toEqual(['shop/a']);
    expect(notes).toEqual(['shop/a is not in force everywhere: Disconnected, no report from lim-0']);
  });

  it('are those of one class and fleet, which the domain says if it is in one only', () => {
    const other = object({ name: 'o', spec: { className: 'edge', fleet: 'far', domain: 'other' } });
    const edge = object({ name: 'e', spec: { className: 'edge' } });
    expect(inForce([object({ name: 'a' }), other]).from).toEqual(['shop/a']);
    const both = [
      object({ name: 'a' }),
      edge,
      object({ name: 'f', spec: { className: 'edge', fleet: 'far' } }),
    ];
    expect(() => inForce(both)).toThrow('several classes, choose one by --class: weir, edge');
    expect(() => inForce(both, { className: 'edge' })).toThrow(
      'several fleets, choose one by --fleet: default, far',
    );
    expect(inForce(both, { className: 'edge', fleet: 'far' }).from).toEqual(['shop/f']);
    expect(inForce(both, { className: 'weir' }).from).toEqual(['shop/a']);
  });

  it('are not read by an older program than what they were written for', () => {
    const { problems } = inForce([object({ name: 'a', spec: { burst: 1 } })]);
    expect(problems).toEqual([
      expect.stringMatching(/^shop\/a cannot be read by this version of weir: .*burst/),
    ]);
  });
});
