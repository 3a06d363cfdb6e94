import { expect, it } from 'vitest';
import type { Override } from '../../rules/override.ts';
import { limit } from '../../test/support/rule-builder.ts';
import { grantEnd } from './overrides.ts';

it('ends a grant with the window of its calendar', () => {
  const calendar = { unit: 'month', timezone: 'Europe/Zurich', startsOn: 15 } as const;
  const limits = [limit({ unit: 'month', calendar }), limit({ unit: 'month' })];
  const grant = { createdMs: Date.UTC(2026, 2, 20) } as unknown as Override;
  const end = (name: string) => grantEnd({ ...grant, limit: name }, limits);
  expect(end('month')).toBe(Date.UTC(2026, 3, 14, 22));
  expect(end('1mo')).toBe(Date.UTC(2026, 3, 7));
});
