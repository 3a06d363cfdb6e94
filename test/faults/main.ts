/**
 * `npm run faults`: runs a limiter under load while something happens to its store, case by case, and writes the
 * figures into docs/reliability.md. Named cases are run alone and written nowhere.
 *
 *   npm run faults -- [case...]
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { allCases } from './all-cases.ts';
import { breaches } from './fault-figures.ts';
import { type FaultPace, runFaultCase } from './fault-run.ts';
import { type FaultRow, faultTable, withTable } from './fault-table.ts';

const document = new URL('../../docs/reliability.md', import.meta.url);
const pace: FaultPace = { perSecond: 1000, calmMs: 1500, outageMs: 2000 };

const names = process.argv.slice(2);
if (names.includes('--help')) {
  console.log('npm run faults -- [case...]\n');
  console.log(
    'Without a case it runs all of them and writes the figures into docs/reliability.md. The cases:\n',
  );
  for (const { name, what } of allCases) console.log(`  ${name}: ${what}`);
  process.exit(0);
}
const unknown = names.filter((name) => !allCases.some((faultCase) => faultCase.name === name));
if (unknown.length > 0) {
  console.error(`no such case: ${unknown.join(', ')}\ncases: ${allCases.map(({ name }) => name).join(', ')}`);
  process.exit(2);
}

const rows: FaultRow[] = [];
for (const faultCase of allCases) {
  if (names.length > 0 && !names.includes(faultCase.name)) continue;
  console.error(`${faultCase.name}: ${faultCase.what}`);
  const report = await runFaultCase(faultCase, pace);
  rows.push({ faultCase, report });
  for (const [message, times] of report.messages) console.error(`  ${times} times: ${message}`);
  for (const problem of [...breaches(report.figures, faultCase.bounds), ...report.internalFaults]) {
    console.error(`  NOT AS IT MUST BE: ${problem}`);
    process.exitCode = 1;
  }
}
const table = faultTable(rows);
console.log(table);
if (names.length === 0) writeFileSync(document, withTable(readFileSync(document, 'utf8'), table, 'faults'));
