/** The gate of each thread that serves and of operators, and the file behind all of them. */
import { problemsText, watchFiles } from '../../process/files/watched-files.ts';
import { throttledLine } from '../../process/log/log-throttle.ts';
import { addressText, isLoopback } from '../../process/net/bind.ts';
import type {
  CapabilityContext,
  MainContext,
  MainPart,
  ThreadContext,
  ThreadPart,
} from '../capabilities/parts.ts';
import { Callers, type CallersInForce } from './callers.ts';
import { type CallerEntry, readCallersFile } from './callers-file.ts';
import { lines } from './lines.ts';
import { carryRate, newRequestRates } from './request-rates.ts';
import { type CallersSettings, rows } from './settings.ts';
import { createCallerStats, registerCallersFile } from './stats.ts';

/** Messages to each thread that serves. */
interface CallersMessages {
  /**
   * Puts these callers into force. Before the first call, no caller is admitted. All threads read and write the memory of their
   * rates.
   */
  use(callers: CallersInForce): void;
}

interface OpenedGate {
  gate: Callers;
  use(callers: CallersInForce): void;
}

function openGate(context: CapabilityContext<CallersSettings>): OpenedGate {
  const { clock, registry } = context;
  const stats = createCallerStats(registry);
  const rejected = throttledLine(context, lines.callerRejected);
  const gate = new Callers({
    clock,
    onRejected: ({ caller, reason: counter, address: peer, problem: reason }) => {
      stats.rejected(caller, counter);
      rejected({ caller, peer, counter, reason }, `${caller} ${counter}`);
    },
    onUnknownToken: stats.unknownToken,
  });
  return {
    gate,
    use: (callers) => {
      stats.show(callers.entries.map(({ name }) => name));
      gate.use(callers);
    },
  };
}

export function thread(context: ThreadContext<CallersSettings>): ThreadPart {
  const { gate, use } = openGate(context);
  const messages: CallersMessages = { use };
  return { gate, messages };
}

/**
 * Chosen: a removed caller is rejected after at most this time, or twice this time if the file may still be in the process of being
 * written.
 */
const lookMs = 1_000;

/** Reads the file, and again whenever it changes. A file that cannot be used is logged, and the last good one stays in force. */
export function main(context: MainContext<CallersSettings>): MainPart {
  const { settings, clock, registry, log, timers } = context;
  const threads = context.threads.of<CallersMessages>();
  const operators = openGate(context);
  const path = settings.callersFile;
  let inForce: CallersInForce | undefined;
  let wasLastRejected = false;
  let close = (): void => {};
  let isClosed = false;
  let unlogged = inPlainText(settings);
  registerCallersFile(registry, {
    callers: () => inForce?.entries.length ?? 0,
    wasLastRejected: () => wasLastRejected,
  });
  const comeIntoForce = async (entries: CallerEntry[]): Promise<void> => {
    inForce = nextInForce(entries, inForce, clock.monotonicMs());
    operators.use(inForce);
    await threads.publish('use', inForce);
    if (!entries.some(({ tokenHashes }) => tokenHashes.length > 0)) return;
    for (const listener of unlogged) lines.tokensInPlainText(log, listener);
    unlogged = [];
  };
  return {
    gate: operators.gate,
    start: async () => {
      const name = `${rows.callersFile.name}: ${path}`;
      const watch = await watchFiles({
        paths: [path],
        names: [name],
        read: ([text = '']) => goodEntries(text, name),
        timers,
        intervalMs: lookMs,
        changed: (entries) => {
          void comeIntoForce(entries);
          lines.callersLoaded(log, { path, callers: entries.length }, wasLastRejected);
          wasLastRejected = false;
        },
        rejected: (reason) => {
          wasLastRejected = true;
          lines.callersRejected(log, { reason });
        },
      });
      close = watch.close;
      if (isClosed) close();
      await comeIntoForce(watch.first);
      lines.callersLoaded(log, { path, callers: watch.first.length }, false);
    },
    close: () => {
      isClosed = true;
      close();
    },
  };
}

interface PlainListener {
  listener: 'gRPC' | 'HTTP';
  address: string;
  /** The setting that corrects the problem. */
  setting: string;
}

/** The listeners whose traffic leaves this machine, so that others may be able to read it. */
function inPlainText(settings: CallersSettings): PlainListener[] {
  const { grpcHost, grpcPort, grpcServerUseTls, grpcUds, httpHost, httpPort, httpServerUseTls } = settings;
  const found: PlainListener[] = [];
  if (grpcUds === '' && !grpcServerUseTls && !isLoopback(grpcHost)) {
    const address = addressText({ host: grpcHost, port: grpcPort });
    found.push({ listener: 'gRPC', address, setting: 'GRPC_SERVER_USE_TLS' });
  }
  if (!httpServerUseTls && !isLoopback(httpHost)) {
    const address = addressText({ host: httpHost, port: httpPort });
    found.push({ listener: 'HTTP', address, setting: 'HTTP_SERVER_USE_TLS' });
  }
  return found;
}

function goodEntries(text: string, name: string): CallerEntry[] {
  const file = readCallersFile(text);
  if (file.problems === undefined) return file.callers;
  throw new Error(problemsText(name, file.problems));
}

/** Returns the next callers. A caller in both lists continues with the rest of its rate. */
function nextInForce(
  entries: CallerEntry[],
  before: CallersInForce | undefined,
  nowMs: number,
): CallersInForce {
  const rates = newRequestRates(
    entries.map(({ requestsPerSecond }) => requestsPerSecond),
    nowMs,
  );
  for (const [index, { name }] of entries.entries()) {
    const old = before?.entries.findIndex(
      (entry) => entry.name === name && entry.requestsPerSecond !== undefined,
    );
    if (before !== undefined && old !== undefined && old !== -1) {
      carryRate({ rates: before.rates, index: old }, { rates, index });
    }
  }
  return { entries, rates };
}
