import { expect, it } from 'vitest';
import { faultTable, withTable } from './fault-table.ts';

it('the table has a row and a sentence for each case', () => {
  const figures = {
    sent: 1234,
    answered: 1200,
    errors: 34,
    byMode: 0,
    slowestMs: 801.4,
    opened: 1,
    quietP99Ms: 2.04,
    openP99Ms: undefined,
    overAdmitted: 0,
    lost: 1,
    countedTwice: 2,
  };
  const rows = [{ faultCase: { name: 'one', what: 'It ends' }, report: { figures, heapGrowthBytes: 2048 } }];
  const [, , row, , sentence] = faultTable(rows).split('\n');
  expect(row).toBe('| `one` | 1,234 | 1,200 | 34 | 801 | 2.0 | – | 0 | 1 | 2 | 2 |');
  expect(sentence).toBe('- `one`: It ends.');
});

it('only what is between the markers is written', () => {
  const [tableStart, tableEnd] = [
    '<!-- written by npm run faults -->',
    '<!-- end of what npm run faults writes -->',
  ];
  const document = `before\n${tableStart}\nold\n${tableEnd}\nafter\n`;
  expect(withTable(document, 'new\n', 'faults')).toBe(`before\n${tableStart}\n\nnew\n\n${tableEnd}\nafter\n`);
  expect(() => withTable('nothing', 'new', 'faults')).toThrow('the document has no line');
  expect(() => withTable(document, 'new', 'attacks')).toThrow('npm run attacks');
});
