import { describe, expect, it } from 'vitest';
import type { Override } from '../../rules/override.ts';
import { budgetLimiter } from '../../test/support/budget-limiter.ts';
import { limit, rule } from '../../test/support/rule-builder.ts';
import { Code, type Descriptor } from '../decide/messages.ts';

const limits = [limit({ unit: 'day', requestsPerUnit: 1_000 })];
const reserve = { ttlSeconds: 1_000, estimate: 400, onExpiry: 'release' } as const;
const keys = ['quota', 'other', 'team'];
const isQuota = (key: string): boolean => key === 'quota' || key === 'other';
const rules = [
  ...keys.map((key) => rule({ key, limits, reserve, quotaMode: isQuota(key) })),
  rule({ key: 'spare', limits, quotaMode: true }),
];

function block(key: string): Override {
  return {
    ...{ id: key, source: 'api', name: key, domain: 'd', match: [{ key, value: 'a' }], limit: '' },
    ...{ effect: { kind: 'block' }, createdMs: 0, endsMs: undefined, reason: 'r', by: '' },
  };
}

function descriptor(key: string, id?: string): Descriptor {
  const entries = [{ key, value: 'a' }];
  if (id !== undefined) entries.unshift({ key: 'reservation_id', value: id });
  return { entries, limit: undefined, hitsAddend: id === undefined ? 0 : 400, isNegativeHits: false };
}

const subsets = <Element>(all: readonly Element[]): Element[][] =>
  all.reduce<Element[][]>((some, one) => some.concat(some.map((list) => [...list, one])), [[]]);
const requests = subsets(keys).flatMap((asked) =>
  subsets(asked).flatMap((blocked) =>
    [false, true].flatMap((spare) =>
      [false, true].map((shadowMode) => ({ asked, blocked, spare, shadowMode })),
    ),
  ),
);

describe('a reserve under blocks', () => {
  it('holds the amounts that are not blocked, unless the request is blocked', () => {
    for (const { asked, blocked, spare, shadowMode } of requests) {
      if (asked.length === 0) continue;
      const { service } = budgetLimiter({ rules, response: { shadowMode } });
      const ask = (...descriptors: Descriptor[]) => {
        const answers: { code: Code; left: number }[] = [];
        service.decide(
          { domain: 'd', descriptors, hitsAddend: 0 },
          { abandoned: false },
          {
            answer: ({ overallCode: code, statuses }) =>
              answers.push({ code, left: statuses[0]!.limitRemaining }),
            reject: (error) => {
              throw error;
            },
          },
        );
        return answers[0]!;
      };
      const quotas = asked.filter(isQuota);
      const isRefused =
        blocked.some((key) => !isQuota(key)) ||
        (quotas.length > 0 && !spare && quotas.every((key) => blocked.includes(key)));

      service.useOverrides(blocked.map(block));
      const marked = asked.map((key) => descriptor(key, 's1'));
      const { code } = ask(...marked, ...(spare ? [descriptor('spare')] : []));
      service.useOverrides([]);
      const left = keys.map((key) => ask(descriptor(key)).left);

      const isHeld = (key: string): boolean =>
        asked.includes(key) && !blocked.includes(key) && (shadowMode || !isRefused);
      expect({ asked, blocked, spare, shadowMode, code, left }).toEqual({
        ...{ asked, blocked, spare, shadowMode },
        code: isRefused && !shadowMode ? Code.OVER_LIMIT : Code.OK,
        left: keys.map((key) => (isHeld(key) ? 600 : 1_000)),
      });
    }
  });
});
