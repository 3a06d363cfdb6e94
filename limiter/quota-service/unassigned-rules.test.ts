import { expect, it } from 'vitest';
import { loggerOf } from '../../process/log/logger.ts';
import type { Rule } from '../../rules/model.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { UnassignedRules } from './unassigned-rules.ts';

const tableOf = (...rules: Rule[]) => new RuleTable(compileRules([source('d', rules)]));
const plain = rule({ key: 'plain', rateLimit: limit({}) });
const tokens = rule({ key: 'tokens', rateLimit: limit({ hitsUnit: 'tokens' }) });
const shadow = rule({ key: 'shadow', shadowMode: true, rateLimit: limit({}) });

function warner(whyNone?: string): { unassigned: UnassignedRules; logged: object[] } {
  const logged: object[] = [];
  const log = loggerOf(
    (_, message, fields) => void logged.push({ message, ...fields }),
    () => true,
  );
  return { unassigned: new UnassignedRules(log, 'deny', whyNone), logged };
}

it('names the first of the rules that cannot be assigned, once while they stay', async () => {
  const { unassigned, logged } = warner();
  await unassigned.warn(tableOf(plain, shadow));
  expect(logged).toEqual([]);
  const found = {
    message:
      'Rules cannot be assigned to quota clients: its limit counts hits other than requests, and quota clients count only requests',
    ...{ rules: 1, first: 'd.tokens', answer: 'deny' },
  };
  await unassigned.warn(tableOf(plain, tokens));
  await unassigned.warn(tableOf(tokens));
  expect(logged).toEqual([found]);
  await unassigned.warn(tableOf(plain));
  await unassigned.warn(tableOf(tokens));
  expect(logged).toEqual([found, found]);
});

it('names all that do not let everything pass if the store shares nothing out', async () => {
  const { unassigned, logged } = warner('memcached has no shares');
  await unassigned.warn(tableOf(plain, shadow, tokens));
  expect(logged).toMatchObject([{ rules: 2, first: 'd.plain' }]);
});

it('leaves rules that were replaced', async () => {
  const { unassigned, logged } = warner();
  const many = Array.from({ length: 1_000 }, (_, n) => rule({ ...tokens, value: `${n}` }));
  const first = unassigned.warn(tableOf(...many));
  await unassigned.warn(tableOf(plain));
  await first;
  expect(logged).toEqual([]);
});
