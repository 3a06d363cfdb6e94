import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Entry } from '../../rules/model.ts';
import { byAge, type Override } from '../../rules/override.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { OverrideIndex, overrideMatches } from './override-index.ts';

const nowMs = 1_000;

function override(match: readonly Entry[], traits: Partial<Override> = {}): Override {
  return {
    id: 'o',
    source: 'api',
    name: 'o',
    domain: 'd',
    match,
    limit: '',
    effect: { kind: 'block' },
    createdMs: 0,
    endsMs: undefined,
    reason: 'r',
    by: '',
    ...traits,
  };
}

const text = (alphabet: string) => fc.string({ unit: fc.constantFrom(...alphabet), maxLength: 4 });
const entriesOf = (alphabet: string) =>
  fc.array(fc.record({ key: fc.constantFrom('k', 'kk', ''), value: text(alphabet) }), {
    minLength: 1,
    maxLength: 3,
  });

/** Checks each override, as the documentation describes it. */
function naiveFind(overrides: readonly Override[], domain: string, entries: readonly Entry[]): Override[] {
  const matching = overrides.filter(
    (one) =>
      one.domain === domain &&
      (one.endsMs ?? Number.POSITIVE_INFINITY) > nowMs &&
      overrideMatches(one, entries),
  );
  const values = ({ match }: Override): string => match.map(({ value }) => value).join('');
  return matching.sort((a, b) => {
    if (values(a).includes('*') !== values(b).includes('*')) return values(a).includes('*') ? 1 : -1;
    return values(b).length - values(a).length || byAge(a, b);
  });
}

describe('OverrideIndex', () => {
  it('finds what asking each of them finds, the strongest first', () => {
    const one = fc.record({
      match: entriesOf('ab*'),
      domain: fc.constantFrom('d', 'e'),
      createdMs: fc.nat(3),
      endsMs: fc.constantFrom(undefined, nowMs - 1, nowMs, nowMs + 1),
      isGrant: fc.boolean(),
    });
    fc.assert(
      fc.property(
        fc.array(one, { maxLength: 40 }),
        fc.array(entriesOf('ab'), { maxLength: 10 }),
        (some, asked) => {
          const overrides = some.map(({ match, isGrant, ...traits }, n) =>
            override(match, {
              ...traits,
              id: `o${n}`,
              ...(isGrant && { effect: { kind: 'grant', hits: 1 } }),
            }),
          );
          const index = new OverrideIndex(overrides);
          for (const entries of [...asked, ...overrides.map(({ match }) => match)]) {
            const expected = naiveFind(overrides, 'd', entries);
            const found = index.find('d', entries, nowMs);
            const isGrant = ({ effect }: Override) => effect.kind === 'grant';
            expect(found?.overrides ?? []).toEqual(expected.filter((each) => !isGrant(each)));
            expect(found?.grants ?? []).toEqual(expected.filter(isGrant));
          }
        },
      ),
      { numRuns: caseCount(500) },
    );
  });

  it('knows when the first of them ends', () => {
    const match = [{ key: 'k', value: 'v' }];
    expect(new OverrideIndex([override(match)]).nextEndMs(nowMs)).toBe(Number.POSITIVE_INFINITY);
    const ends = [nowMs + 7, nowMs - 1, nowMs + 5].map((endsMs) => override(match, { endsMs }));
    expect(new OverrideIndex(ends).nextEndMs(nowMs)).toBe(nowMs + 5);
  });
});
