/** The program of a worker thread: serves callers like a process with one thread, and sends the rest to the main thread. */
import { parentPort, workerData } from 'node:worker_threads';
import { Health } from '../../process/grpc/health.ts';
import { errorText, routeLibraryWarnings } from '../../process/log/error-text.ts';
import { processLines } from '../../process/log/process-lines.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { type RuleLayer, RuleTable } from '../../rules/table/rule-table.ts';
import { openConnections } from '../assembly/connections.ts';
import type { LimiterContext } from '../assembly/context.ts';
import { loadServingModules } from '../assembly/optional-modules.ts';
import { openServing, type ThreadServing } from '../assembly/serving.ts';
import { defaultLease } from '../leases/settings.ts';
import { registerRejectedMetrics } from '../stats/registry/limiter-stats.ts';
import type { NumberedTask, WorkerMessage, WorkerStart, WorkerTask } from './messages.ts';
import { createPostedLog, PostedStatistics } from './posted-statistics.ts';

const { settings, rules, published, healthy, timers, worker, connectionMemory } = workerData as WorkerStart;
const post = (news: WorkerMessage): void => parentPort?.postMessage(news);

const log = createPostedLog(settings.logLevel, (level, message, fields) =>
  post({ is: 'log', level, message, fields }),
);
routeLibraryWarnings((text) => processLines.libraryWarning(log, { text }));
const statistics = new PostedStatistics({
  post,
  durations: timers,
  maxDetailedMetrics: settings.statsMaxDetailedMetrics,
  countsLeases: defaultLease(settings) !== undefined,
  idlePeriodMs: settings.statsFlushIntervalMs,
  timers: systemTimers,
});
const context: LimiterContext = {
  settings,
  clock: systemClock,
  timers: systemTimers,
  random: Math.random,
  registry: statistics.registry,
  health: new Health(),
  log,
};
registerRejectedMetrics(context.registry);
context.health.set('process', healthy);
const storeHealth = new Health();
storeHealth.subscribe((isHealthy) => post({ is: 'health', healthy: isHealthy }));
const connections = openConnections(context, connectionMemory);

const modules = await loadServingModules(settings);

let serving: ThreadServing | undefined;
let table: RuleTable | undefined;

function rulesWith(layers: readonly RuleLayer[]): RuleTable {
  for (const layer of layers) table = RuleTable.with(table, layer);
  return table!;
}

/** Opens at the first task, so that a store that cannot be opened is an answer and not a crash. */
function opened(): ThreadServing {
  if (serving !== undefined) return serving;
  serving = openServing(context, { modules, connections, storeHealth, worker });
  if (rules.length > 0) void serving.useRules(rulesWith(rules));
  for (const message of published) serving.receive(message);
  return serving;
}

type TaskHandlers = {
  [Kind in WorkerTask['do']]: (task: Extract<WorkerTask, { do: Kind }>) => unknown;
};

const handlers: TaskHandlers = {
  'connect-store': () => opened().connectStore(),
  'use-rules': (task) => opened().useRules(rulesWith(task.layers)),
  listen: ({ listener, address }) =>
    listener === 'grpc' ? opened().listenForGrpc(address) : opened().listenForHttp(address),
  'set-health': (task) => context.health.set('process', task.healthy),
  'reuse-slots': ({ count }) => statistics.registry.reuseSlots(count),
  'show-statistics': () => statistics.show(),
  receive: ({ message }) => opened().receive(message),
  'announce-end': () => serving?.announceEnd(),
  'shutdown-grpc': () => serving?.shutdownGrpc(),
  'close-http': () => serving?.closeHttp(),
  'close-store': () => serving?.closeStore(),
  end: () => {
    statistics.end();
    connections.connectionMemory.close();
  },
};

async function carryOut({ number, task }: NumberedTask): Promise<void> {
  try {
    const carryOutOne = handlers[task.do] as (task: WorkerTask) => unknown;
    const result = await carryOutOne(task);
    post({ is: 'done', number, result });
  } catch (error) {
    post({ is: 'failed', number, message: errorText(error) });
  }
  if (task.do === 'end') parentPort?.close();
}

parentPort?.on('message', (message: NumberedTask) => void carryOut(message));
