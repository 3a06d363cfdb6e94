/** The program of a worker thread: serves callers as a process of one thread does, and tells the main thread the rest. */
import { parentPort, workerData } from 'node:worker_threads';
import { Health } from '../../process/grpc/health.ts';
import { errorText, routeLibraryWarnings } from '../../process/log/error-text.ts';
import { libraryWarning } from '../../process/log/process-lines.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { type RuleLayer, RuleTable } from '../../rules/table/rule-table.ts';
import { openConnections } from '../assembly/connections.ts';
import type { LimiterContext } from '../assembly/context.ts';
import { loadServingModules } from '../assembly/optional-modules.ts';
import { openServing, type ThreadServing } from '../assembly/serving.ts';
import { CpuProfiler } from '../http/cpu-profile.ts';
import { HeapSampler } from '../http/heap-profile.ts';
import type { ProfileQuestion } from '../http/pprof-pages.ts';
import type { Order } from '../operate/orders.ts';
import { usualLease } from '../settings/counting-settings.ts';
import { registerRefusedMetrics } from '../stats/registry/limiter-stats.ts';
import type { NumberedTask, WorkerNews, WorkerStart, WorkerTask } from './messages.ts';
import { createPostedLog, PostedStatistics } from './posted-news.ts';
import { topAnswer } from './worker-top.ts';

const { settings, rules, callers, overrides, profiles, healthy, timers, tellsOfCertificates, held } =
  workerData as WorkerStart;
const post = (news: WorkerNews): void => parentPort?.postMessage(news);

const log = createPostedLog(settings.logLevel, (level, message, fields) =>
  post({ is: 'log', level, message, fields }),
);
routeLibraryWarnings((text) => libraryWarning(log, text));
const statistics = new PostedStatistics({
  post,
  durations: timers,
  maxDetailedMetrics: settings.statsMaxDetailedMetrics,
  countsLeases: usualLease(settings) !== undefined,
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
registerRefusedMetrics(context.registry);
context.health.set('process', healthy);
const storeHealth = new Health();
storeHealth.subscribe((isHealthy) => post({ is: 'health', healthy: isHealthy }));
const connections = openConnections(context, held);

const cpu = new CpuProfiler(systemClock);
const heap = new HeapSampler(systemClock);
void heap.start();

const modules = await loadServingModules(settings);

let serving: ThreadServing | undefined;
let table: RuleTable | undefined;

function rulesWith(layers: readonly RuleLayer[]): RuleTable {
  for (const layer of layers) table = RuleTable.with(table, layer);
  return table!;
}

/** At the first task, so that a store that cannot be opened is an answer and no crash. */
function opened(): ThreadServing {
  if (serving !== undefined) return serving;
  serving = openServing(context, { modules, connections, storeHealth, tellsOfCertificates });
  if (rules.length > 0) void serving.useRules(rulesWith(rules));
  if (callers !== undefined) void serving.useCallers(callers);
  if (overrides.length > 0) void serving.operate({ order: 'use-overrides', overrides });
  if (profiles?.length !== 0) void serving.operate({ order: 'use-profiles', profiles });
  return serving;
}

function profile(question: ProfileQuestion): Promise<Uint8Array> {
  if (question.of === 'heap') return heap.profile(question);
  return cpu.profile(question.seconds, new Promise(() => {}));
}

async function operate(order: Order): Promise<Uint8Array> {
  const [answer = null] = await opened().operate(order);
  return Buffer.from(JSON.stringify(answer));
}

type TaskHandlers = {
  [Kind in WorkerTask['do']]: (task: Extract<WorkerTask, { do: Kind }>) => unknown;
};

const handlers: TaskHandlers = {
  'connect-store': () => opened().connectStore(),
  'use-rules': (task) => opened().useRules(rulesWith(task.layers)),
  'use-callers': (task) => opened().useCallers(task.callers),
  operate: ({ order }) => operate(order),
  listen: ({ listener, address }) =>
    listener === 'grpc' ? opened().listenForGrpc(address) : opened().listenForHttp(address),
  'set-health': (task) => context.health.set('process', task.healthy),
  'reuse-slots': ({ count }) => statistics.registry.reuseSlots(count),
  'show-statistics': () => statistics.show(),
  'show-top': (task) => serving?.offenders && topAnswer(serving.offenders, task),
  profile: ({ question }) => profile(question),
  'shutdown-grpc': () => serving?.shutdownGrpc(),
  'close-http': () => serving?.closeHttp(),
  'close-store': () => serving?.closeStore(),
  end: () => {
    statistics.end();
    heap.stop();
    connections.held.close();
  },
};

async function carryOut({ number, task }: NumberedTask): Promise<void> {
  try {
    const carryOutOne = handlers[task.do] as (task: WorkerTask) => unknown;
    const result = await carryOutOne(task);
    post({ is: 'done', number, result: result instanceof Uint8Array ? result : undefined });
  } catch (error) {
    post({ is: 'failed', number, message: errorText(error) });
  }
  if (task.do === 'end') parentPort?.close();
}

parentPort?.on('message', (message: NumberedTask) => void carryOut(message));
