import { expect, it } from 'vitest';
import type { Override } from '../../rules/override.ts';
import { encodeResource } from '../../rules/reader/resource.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { grantEnd } from './overrides.ts';

it('ends a grant with the window of its calendar', () => {
  const calendar = { unit: 'month', timezone: 'Europe/Zurich', startsOn: 15 } as const;
  const limits = [limit({ unit: 'month', calendar }), limit({ unit: 'month' })];
  const bytes = encodeResource(source('llm', [rule({ key: 'team', limits })]));
  const grant = {
    ...{ domain: 'llm', match: [{ key: 'team', value: 'a' }], createdMs: Date.UTC(2026, 2, 20) },
  } as unknown as Override;
  const end = (name: string) =>
    grantEnd({ ...grant, limit: name }, { name: 'llm', domain: 'llm', bytes, hash: '', needs: [] });
  expect(end('month')).toBe(Date.UTC(2026, 3, 14, 22));
  expect(end('1mo')).toBe(Date.UTC(2026, 3, 7));
  expect(end('year')).toEqual({ problem: 'its entries match no rule with a limit year' });
});
