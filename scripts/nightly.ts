/** `npm run nightly`: runs all long tests one after the other. nightly-parts.ts has the list and the command line. */
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { scriptFlags } from '../test/support/script-flags.ts';
import { projectRoot } from './commands.ts';
import {
  type NightlyPart,
  nightlyFlags,
  nightlyReport,
  nightlyTable,
  type PartOutcome,
  repeating,
} from './nightly-parts.ts';

/** The size of the retained end of a part's output, in characters. */
const maxOutput = 20_000;
/** The time between SIGTERM and SIGKILL. */
const stopMs = 20_000;

const { parts, seed, report, list } = scriptFlags(nightlyFlags(randomInt(1, 2 ** 31)));

let isInterrupted = false;
let stopPart: ((signal: NodeJS.Signals) => void) | undefined;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    isInterrupted = true;
    stopPart?.(signal);
  });
}

/** Runs one part with this terminal, in a separate process group, so that its servers end with it. */
function runPart(part: NightlyPart): Promise<PartOutcome> {
  const startMs = performance.now();
  let output = '';
  let reason: string | undefined;
  const child = spawn('npm', ['run', '--silent', ...part.args(seed)], {
    cwd: projectRoot,
    env: { ...process.env, ...part.env?.(seed) },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const keep = (chunk: Buffer): void => {
    process.stdout.write(chunk);
    output = (output + String(chunk)).slice(-maxOutput);
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  let killTimer: NodeJS.Timeout | undefined;
  const send = (signal: NodeJS.Signals): void => {
    try {
      process.kill(-child.pid!, signal);
    } catch {
      // The process has already ended.
    }
  };
  stopPart = (signal) => {
    reason ??= 'interrupted';
    send(signal);
    killTimer ??= setTimeout(() => send('SIGKILL'), stopMs);
  };
  const hangTimer = setTimeout(() => {
    reason = `not done after ${part.maxMinutes} minutes`;
    stopPart?.('SIGTERM');
  }, part.maxMinutes * 60_000);
  return new Promise((resolve) => {
    const done = (failure: string | undefined): void => {
      clearTimeout(hangTimer);
      clearTimeout(killTimer);
      stopPart = undefined;
      const seconds = (performance.now() - startMs) / 1000;
      resolve({ part, seed, failure: reason ?? failure, seconds, output });
    };
    child.on('error', (error) => done(error.message));
    child.on('close', (code, signal) =>
      done(code === 0 ? undefined : code === null ? `ended by ${signal}` : `exit status ${code}`),
    );
  });
}

async function runParts(): Promise<void> {
  const outcomes: PartOutcome[] = [];
  const writeReport = (all: readonly PartOutcome[]): void => {
    if (report !== undefined) writeFileSync(report, nightlyReport(all));
  };
  console.log(`nightly: seed ${seed}, ${parts.length} parts`);
  for (const part of parts) {
    if (isInterrupted) break;
    console.log(`\n== ${part.name}: ${repeating({ part, seed })}`);
    // A killed run leaves this file.
    writeReport([...outcomes, { part, seed, failure: 'not done', seconds: 0, output: '' }]);
    outcomes.push(await runPart(part));
    writeReport(outcomes);
  }
  console.log('');
  for (const line of nightlyTable(outcomes)) console.log(line);
  const hasFailed = outcomes.some(({ failure }) => failure !== undefined);
  process.exitCode = isInterrupted ? 130 : hasFailed ? 1 : 0;
}

if (list) for (const { name, what } of parts) console.log(`${name}: ${what}`);
else await runParts();
