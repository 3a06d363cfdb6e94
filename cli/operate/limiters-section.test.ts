import { expect, it } from 'vitest';
import type { AnsweringLimiter } from './limiters.ts';
import { limitersReport } from './limiters-section.ts';

function member(name: string, version: string, fleet?: string): AnsweringLimiter {
  const limiter = {
    address: name,
    of: name,
    host: '127.0.0.1',
    port: 6070,
    ...(fleet !== undefined && { fleet }),
  };
  return { limiter, name, state: { ready: true, rules: { version } } };
}

it('holds the rules of limiters against those of their own fleet', () => {
  const members = [member('a', 'v1', 'ns/one'), member('b', 'v1', 'ns/one'), member('c', 'v2', 'ns/two')];
  expect(limitersReport({ members, silent: [] })).toMatchObject({ ok: true, problems: [] });
  expect(limitersReport({ members: [...members, member('d', 'v1', 'ns/two')], silent: [] })).toMatchObject({
    ok: false,
    problems: ['limiters of fleet ns/two have 2 versions of the rules'],
  });
  expect(limitersReport({ members: [member('a', 'v1'), member('b', 'v2')], silent: [] })).toMatchObject({
    problems: ['limiters have 2 versions of the rules'],
  });
});
