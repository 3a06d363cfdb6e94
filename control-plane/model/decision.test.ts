import { expect, it } from 'vitest';
import { type DomainRecord, heldDomains } from './decision.ts';

it('heldDomains counts the domains that are free and held for their last owners', () => {
  const owners = { namespaces: ['team'] };
  expect(heldDomains()).toBe(0);
  expect(
    heldDomains(
      new Map<string, DomainRecord>([
        ['default/a', { ...owners, heldUntilMs: 0 }],
        ['default/b', owners],
        ['edge/c', { ...owners, heldUntilMs: 5 }],
      ]),
    ),
  ).toBe(2);
});
