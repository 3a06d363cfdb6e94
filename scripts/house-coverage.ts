/**
 * Loaded into a program that is measured (`--import`). At each SIGUSR2, it reports how often each of our functions ran since the last
 * one, in each thread. A thread that ends also reports.
 */
import { appendFileSync } from 'node:fs';
import { type Profiler, Session } from 'node:inspector';
import { BroadcastChannel, isMainThread } from 'node:worker_threads';

const session = new Session();
session.connect();
session.post('Profiler.enable');
session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

/** The end of one report of a thread. */
const end = '.';

const channel = new BroadcastChannel('house-coverage');
channel.unref();

function report(): void {
  session.post('Profiler.takePreciseCoverage', (error, coverage) => {
    if (error !== null) throw error;
    const text = coverage.result.flatMap(ranFunctions).join('');
    appendFileSync(process.env['HOUSE_COVERAGE'] as string, `${text}${end}\n`);
  });
}

function ranFunctions({ url, functions }: Profiler.ScriptCoverage): string[] {
  if (!url.startsWith('file:')) return [];
  return (
    functions
      .filter(({ functionName, ranges }) => functionName !== '' || ranges[0]?.startOffset !== 0)
      // V8 counts the initial values of fields as a function of their own.
      .filter(({ functionName }) => !functionName.startsWith('<'))
      .filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0)
      .map(({ functionName, ranges }) => {
        const { startOffset, count } = ranges[0]!;
        return `${url}\t${functionName}\t${startOffset}\t${count}\n`;
      })
  );
}

if (isMainThread) {
  process.on('SIGUSR2', () => {
    channel.postMessage('report');
    report();
  });
} else {
  channel.onmessage = report;
  process.on('exit', report);
}
