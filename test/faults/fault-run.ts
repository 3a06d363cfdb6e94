import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../support/eventually.ts';
import { findServer, type ServerProgram } from '../support/find-server.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';
import { BreakerWatch } from './breaker-watch.ts';
import { rulesFile } from './counter-plan.ts';
import { defaultSettings, type FaultCase, type StoreInDanger } from './fault-case.ts';
import { type FaultFigures, faultFigures } from './fault-figures.ts';
import { FaultLoad } from './fault-load.ts';
import { inspectArguments, LimiterMemory } from './limiter-memory.ts';
import { internalFaults } from './log-faults.ts';

export interface FaultPace {
  perSecond: number;
  /** Load before the fault and after its end. */
  quietMs: number;
  /** How long the fault lasts, where the case can choose. */
  outageMs: number;
}

export interface FaultReport {
  figures: FaultFigures;
  /** What the limiter's heap gained between the first load, before the fault, and the end. */
  heapGrowthBytes: number;
  /** Lines of faults of the program itself, and what was odd about its end. */
  internalFaults: string[];
  /** What the requests that failed were reported, and how many. */
  messages: ReadonlyMap<string, number>;
}

/** Answers in a row without an error that show the end of the fault. */
const wellAnswers = 100;

const recovery = { timeoutMs: 40_000 };

/** Runs one case from the start of its store to the end of everything. */
export async function runFaultCase(faultCase: FaultCase, pace: FaultPace): Promise<FaultReport> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-fault-'));
  let store: StoreInDanger | undefined;
  let limiter: LimiterProcess | undefined;
  try {
    writeFileSync(join(folder, 'faults.yaml'), rulesFile);
    store = await faultCase.prepare({ folder, program: pathOf });
    const rules = { RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: '.' };
    limiter = await startLimiter({
      env: { ...defaultSettings, ...rules, ...store.env },
      nodeArguments: inspectArguments,
    });
    return await underFault(faultCase, pace, { store, limiter });
  } finally {
    if (limiter?.program.running) await limiter.program.stop('SIGKILL');
    await store?.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function underFault(
  faultCase: FaultCase,
  { perSecond, quietMs, outageMs }: FaultPace,
  { store, limiter }: { store: StoreInDanger; limiter: LimiterProcess },
): Promise<FaultReport> {
  const { program, ports } = limiter;
  const watch = new BreakerWatch(program);
  const memory = await LimiterMemory.of(program);
  const mode = store.env['STORE_FAILURE_MODE'];
  const load = new FaultLoad({ port: ports.grpc, perSecond, keyPadding: faultCase.keyPadding, mode });
  try {
    const loadFor = async (ms: number) => {
      load.start();
      await sleep(ms);
      await load.pause();
    };
    await loadFor(quietMs);
    const heapBeforeBytes = await memory.usedBytes();
    load.start();
    await sleep(quietMs / 2);
    await store.act({ load, limiter, outage: () => outageOf(outageMs, { faultCase, watch }) });
    await recovered(load, watch);
    await load.pause();
    await loadFor(quietMs);
    await store.settled?.(limiter);
    const held = await store.held();
    const heapGrowthBytes = (await memory.usedBytes()) - heapBeforeBytes;
    memory.close();
    const { answers, sent, stalls } = load;
    return {
      figures: faultFigures({
        sent,
        answers,
        held,
        openSpans: watch.spans,
        stalls,
        rejectsUncounted: faultCase.rejectsUncounted === true,
      }),
      heapGrowthBytes,
      internalFaults: await faultsAtItsEnd(limiter),
      messages: countedMessages(load),
    };
  } finally {
    load.close();
    memory.close();
  }
}

/** Where the case wants the breaker open, it is for half of the time at least, on a busy machine, too. */
async function outageOf(
  outageMs: number,
  { faultCase, watch }: { faultCase: FaultCase; watch: BreakerWatch },
): Promise<void> {
  const begunMs = performance.now();
  if ((faultCase.bounds.minOpened ?? 0) > 0) {
    const opened = () => {
      if (watch.spans.length === 0) throw new Error('the breaker does not open');
    };
    await eventually(opened, recovery);
  }
  await sleep(Math.max(outageMs / 2, outageMs - (performance.now() - begunMs)));
}

/** Resolves when the breaker is closed and the latest answers, all asked for after that, are no errors. */
async function recovered(load: FaultLoad, watch: BreakerWatch): Promise<void> {
  const fromMs = performance.now();
  await eventually(() => {
    const sinceMs = Math.max(fromMs, watch.spans.at(-1)?.toMs ?? 0);
    const latest = load.latest(wellAnswers).filter(({ askedMs }) => askedMs > sinceMs);
    const failed = latest.filter(({ outcome }) => outcome === 'ERROR');
    if (watch.isOpen || latest.length < wellAnswers || failed.length > 0) {
      throw new Error(`the limiter does not answer well again: ${failed.at(-1)?.message ?? 'not open'}`);
    }
  }, recovery);
}

async function faultsAtItsEnd({ program }: LimiterProcess): Promise<string[]> {
  const wasRunning = program.running;
  const { code, signal } = await program.stop();
  return [
    ...(wasRunning ? [] : ['the process ended before it was asked to']),
    ...(code === 0 ? [] : [`the process ended with status ${code}, signal ${signal}`]),
    ...internalFaults(program.output),
  ];
}

function countedMessages({ answers }: FaultLoad): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { outcome, message } of answers) {
    if (outcome === 'ERROR') counts.set(message, (counts.get(message) ?? 0) + 1);
  }
  return counts;
}

function pathOf(program: ServerProgram): string {
  const found = findServer(program);
  if ('missing' in found) throw new Error(found.missing);
  return found.path;
}
