/**
 * Loaded into a program that is walked through (`--import`): reports, each time the process gets SIGUSR2, which functions of
 * ours ran since the last time, in which thread. A thread that ends reports by itself.
 */
import { appendFileSync } from 'node:fs';
import { type Profiler, Session } from 'node:inspector';
import { BroadcastChannel, isMainThread } from 'node:worker_threads';

const session = new Session();
session.connect();
session.post('Profiler.enable');
session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

/** Behind what one thread reports at one time. */
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
      .map(({ functionName, ranges }) => `${url}\t${functionName}\t${ranges[0]?.startOffset}\n`)
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
