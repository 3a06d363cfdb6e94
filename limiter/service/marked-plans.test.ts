import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { plainCounting } from '../../test/support/plain-service.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import type { Plan } from '../decide/limit-plan.ts';
import type { Descriptor } from '../decide/messages.ts';
import { decodeRateLimitRequest } from '../decide/wire-codec.ts';
import { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { PlansInForce } from './plans-in-force.ts';

const reserve = { ttlSeconds: 60, estimate: undefined, onExpiry: 'release' } as const;
const rateLimit = limit({ unit: 'hour', requestsPerUnit: 10 });
const below = rule({ key: 'model', value: 'm', rateLimit, reserve });
const table = new RuleTable(
  compileRules([
    source('d', [
      rule({ key: 'team', rateLimit, reserve, descriptors: [below] }),
      rule({ key: 'plain', rateLimit }),
      rule({ key: 'settle', rateLimit, reserve }),
      rule({ key: 'reservation_id', rateLimit }),
    ]),
  ]),
);

/** Returns a function that plans a descriptor by rules that no request has used yet. */
function newPlanOf(): (descriptor: Descriptor) => Plan {
  const plans = new PlansInForce({
    ...{ stats: new StatsRegistry(), clock: new ManualClock(), counting: plainCounting },
    localCache: undefined,
  });
  plans.useRules(table);
  return (descriptor) => plans.plan({ domain: 'd', descriptors: [descriptor], hitsAddend: 0 }, 0)[0]!;
}

/** A field with a text. */
function field(number: number, text: string | Uint8Array): Buffer {
  const bytes = Buffer.from(text);
  const { length } = bytes;
  const size = length < 0x80 ? [length] : [(length & 0x7f) | 0x80, length >> 7];
  return Buffer.concat([Buffer.from([number * 8 + 2, ...size]), bytes]);
}

const key = fc.constantFrom('team', 'model', 'plain', 'reservation_id', 'settle', 'reservation_ix');
const value = fc.constantFrom('', 'm', 'a', 'b', 'true', '\u00fc');
/** An entry in the possible forms on the wire: the last one of a field counts, in any order. */
const entry = fc
  .record({ key, value, isTwice: fc.boolean(), isTurned: fc.boolean(), other: key })
  .map(({ key, value, isTwice, isTurned, other }) => {
    const fields = [...(isTwice ? [field(1, other)] : []), field(1, key), field(2, value)];
    return field(1, Buffer.concat(isTurned ? fields.toReversed() : fields));
  });
const common = fc
  .tuple(key, value)
  .map(([key, value]) => field(1, Buffer.concat([field(1, key), field(2, value)])));
const descriptor = fc.array(fc.oneof(entry, { arbitrary: common, weight: 5 }), { maxLength: 5 });

/** Returns the properties of a plan without objects that may be shared. */
function reported(plan: Plan): unknown {
  if (plan.kind !== 'limited') return plan.kind;
  return {
    ...{ path: plan.rule.path, marker: plan.marker },
    limits: plan.limits.map(({ counterStem, bound }) => [counterStem, bound?.scriptText]),
  };
}

describe('marker entries', () => {
  it('lead to the same plan whether the entries before them were seen before or not', () => {
    const planOf = newPlanOf();
    fc.assert(
      fc.property(descriptor, (entries) => {
        const bytes = Buffer.concat([field(1, 'd'), field(2, Buffer.concat(entries))]);
        for (let time = 0; time < 3; time++) {
          const decoded = decodeRateLimitRequest(bytes).descriptors[0]!;
          const unknown = { ...decoded, known: undefined, unmarked: undefined };
          expect(reported(planOf(decoded))).toEqual(reported(newPlanOf()(unknown)));
        }
      }),
      { numRuns: caseCount(1_000) },
    );
  });

  it('share the plan of the entries before them, and have their own ID', () => {
    const planOf = newPlanOf();
    const asked = (...entries: [string, string][]): Plan => {
      const written = entries.map(([name, text]) =>
        field(1, Buffer.concat([field(1, name), field(2, text)])),
      );
      const bytes = Buffer.concat([field(1, 'd'), field(2, Buffer.concat(written))]);
      return planOf(decodeRateLimitRequest(bytes).descriptors[0]!);
    };
    const first = asked(['team', 'a'], ['reservation_id', '1']);
    const second = asked(['team', 'a'], ['reservation_id', '2'], ['settle', 'true']);
    if (first.kind !== 'limited' || second.kind !== 'limited') throw new Error('not limited');
    expect([first.marker, second.marker]).toEqual([
      { id: '1', commits: false },
      { id: '2', commits: true },
    ]);
    expect(second.limits).toBe(first.limits);
    expect(asked(['team', 'a'])).toMatchObject({ marker: undefined, limits: [{ bound: undefined }] });
    expect(asked(['team', 'a'], ['reservation_id', ''])).toMatchObject({ marker: undefined });
  });
});
