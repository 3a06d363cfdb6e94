/** CALLERS_FILE: the gate of each thread that serves, and the file behind all of them. */
import { watchFiles } from '../../process/files/watched-files.ts';
import { Seldom } from '../../process/log/seldom.ts';
import { addressText, isLoopback } from '../../process/net/bind.ts';
import { Callers, type CallersInForce, type RefusedRequest } from '../callers/callers.ts';
import { type CallerEntry, readCallersFile } from '../callers/callers-file.ts';
import { carryRate, newRequestRates } from '../callers/request-rates.ts';
import * as lines from '../log/lines.ts';
import { accessSettings } from '../settings/access-settings.ts';
import { grpcSettings } from '../settings/grpc-settings.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import { createCallerStats, registerCallersFile } from '../stats/registry/limiter-stats.ts';
import { seldomMs } from './connections.ts';
import type { LimiterContext } from './context.ts';

/** Undefined without CALLERS_FILE: whoever reaches a port may ask. */
interface OpenedCallers {
  gate: Callers;
  use(callers: CallersInForce): void;
}

/** Chosen: a caller that was taken out is turned away after so long at the most, and twice that where a write is doubted. */
const lookMs = 1_000;

export function openCallers({ settings, clock, registry, log }: LimiterContext): OpenedCallers | undefined {
  if (settings.callersFile === '') return undefined;
  const stats = createCallerStats(registry);
  const seldom = new Seldom<RefusedRequest>(
    clock,
    seldomMs,
    ({ caller, reason, address: peer, problem }, times) =>
      lines.callerRefused(log, { caller, peer, counter: reason, reason: problem, times }),
  );
  const gate = new Callers({
    clock,
    onRefused: (refused) => {
      stats.refused(refused.caller, refused.reason);
      seldom.note(refused, `${refused.caller} ${refused.reason}`);
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

export interface FollowedCallers {
  /** Settles when the first callers are in force; rejects with a WatchedFilesError that names setting, file and every mistake. */
  start(): Promise<void>;
  close(): void;
}

/** Reads the file, and again whenever it changed; what cannot be used is told of, and the last good one stays. */
export function followCallersFile(
  { settings, clock, registry, log, timers }: LimiterContext,
  use: (callers: CallersInForce) => void | Promise<void>,
): FollowedCallers | undefined {
  const path = settings.callersFile;
  if (path === '') return undefined;
  let inForce: CallersInForce | undefined;
  let lastWasRefused = false;
  let close = (): void => {};
  let isClosed = false;
  let untold = inPlainText(settings);
  registerCallersFile(registry, {
    callers: () => inForce?.entries.length ?? 0,
    lastWasRefused: () => lastWasRefused,
  });
  const comeIntoForce = async (entries: CallerEntry[]): Promise<void> => {
    inForce = nextInForce(entries, inForce, clock.monotonicMs());
    await use(inForce);
    if (!entries.some(({ tokenHashes }) => tokenHashes.length > 0)) return;
    for (const listener of untold) lines.tokensInPlainText(log, listener);
    untold = [];
  };
  return {
    start: async () => {
      const name = `${accessSettings.callersFile.name}: ${path}`;
      const watch = await watchFiles({
        paths: [path],
        names: [name],
        read: ([text = '']) => goodEntries(text, name),
        timers,
        intervalMs: lookMs,
        changed: (entries) => {
          void comeIntoForce(entries);
          lines.callersLoaded(log, { path, callers: entries.length }, lastWasRefused);
          lastWasRefused = false;
        },
        refused: (reason) => {
          lastWasRefused = true;
          lines.callersRefused(log, reason);
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
  /** What would mend it. */
  setting: string;
}

/** The listeners where others than this machine, and its sockets, may see what is sent. */
function inPlainText(settings: LimiterSettings): PlainListener[] {
  const { grpcHost, grpcPort, grpcServerUseTls, grpcUds, httpHost, httpPort, httpServerUseTls } = settings;
  const found: PlainListener[] = [];
  if (grpcUds === '' && !grpcServerUseTls && !isLoopback(grpcHost)) {
    const address = addressText({ host: grpcHost, port: grpcPort });
    found.push({ listener: 'gRPC', address, setting: grpcSettings.grpcServerUseTls.name });
  }
  if (!httpServerUseTls && !isLoopback(httpHost)) {
    const address = addressText({ host: httpHost, port: httpPort });
    found.push({ listener: 'HTTP', address, setting: accessSettings.httpServerUseTls.name });
  }
  return found;
}

/** Chosen: so many mistakes are told of at once; `weir check` has all. */
const mostTold = 20;

function goodEntries(text: string, name: string): CallerEntry[] {
  const file = readCallersFile(text);
  if (file.problems === undefined) return file.callers;
  throw new Error(problemsText(name, file.problems));
}

/** The first mistakes of a file that is followed, with their places, and how many there are. */
export function problemsText(
  name: string,
  problems: readonly { line: number; column: number; message: string }[],
): string {
  const told = problems
    .slice(0, mostTold)
    .map(({ line, column, message }) => `${name}:${line}:${column}: ${message}`);
  const more = problems.length - told.length;
  return [...told, ...(more === 0 ? [] : [`and ${more} more`])].join('; ');
}

/** Whoever stays goes on with the rate that is left to him. */
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
