import type { LiveMemory } from '../support/inspected-process.ts';
import type { SoakReport } from './soak.ts';

/** What live memory may grow by while the same things are asked: a tenth, and what caches and buffers vary by. */
const allowedGrowth = 1.1;
const allowedBytes = 3_000_000;

/** What is wrong with a soak, in words; empty when nothing is. */
export function problemsOf(report: SoakReport): string[] {
  const problems = [...report.faults, ...report.complaints];
  const { faultCount, faults, connectionsLeft, exitCode } = report;
  if (faultCount > faults.length) problems.push(`${faultCount - faults.length} faults more`);
  if (connectionsLeft !== 0) problems.push(`${connectionsLeft} connections were left`);
  if (exitCode !== 0) problems.push(`the limiter ended with ${exitCode}`);
  for (const [name, count] of Object.entries(report.happened))
    if (count === 0) problems.push(`${name}: none in this run`);
  return [...problems, ...growth(report.memory)];
}

/** The last two samples against the first: the lower of them, as calls under way are alive too. */
function growth(samples: readonly LiveMemory[]): string[] {
  const [first, ...later] = samples as [LiveMemory, ...LiveMemory[]];
  return (['heapUsed', 'arrayBuffers'] as const).flatMap((kind) => {
    const last = Math.min(...later.slice(-2).map((sample) => sample[kind]));
    const max = first[kind] * allowedGrowth + allowedBytes;
    return last > max ? [`${kind} grew from ${first[kind]} to ${last} bytes`] : [];
  });
}
