/** `npm run faults`: a limiter under load while something happens to its store; fault-options.ts has the flags. */
import { readFileSync, writeFileSync } from 'node:fs';
import { scriptFlags } from '../support/script-flags.ts';
import { allCases } from './all-cases.ts';
import { breaches } from './fault-figures.ts';
import { faultFlags, faultPaces } from './fault-options.ts';
import { runFaultCase } from './fault-run.ts';
import { type FaultRow, faultTable, withTable } from './fault-table.ts';

const document = new URL('../../docs/reliability.md', import.meta.url);

const { cases, seed, write } = scriptFlags(faultFlags(allCases));
if (seed !== undefined) console.error(`faults: seed ${seed}`);
const nextPace = faultPaces(seed);
const rows: FaultRow[] = [];
let isGood = true;
for (const faultCase of cases) {
  console.error(`${faultCase.name}: ${faultCase.what}`);
  try {
    const report = await runFaultCase(faultCase, nextPace());
    rows.push({ faultCase, report });
    for (const [message, times] of report.messages) console.error(`  ${times} times: ${message}`);
    for (const problem of [...breaches(report.figures, faultCase.bounds), ...report.internalFaults]) {
      console.error(`  NOT AS IT MUST BE: ${problem}`);
      isGood = false;
    }
  } catch (error) {
    console.error(`  COULD NOT BE RUN: ${(error as Error).message}`);
    isGood = false;
  }
}
const table = faultTable(rows);
console.log(table);
if (write && rows.length === cases.length)
  writeFileSync(document, withTable(readFileSync(document, 'utf8'), table, 'faults'));
process.exitCode = isGood ? 0 : 1;
