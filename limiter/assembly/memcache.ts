/** Opens the memcache that the settings name: finds its nodes, and counts and logs its events. */
import { resolveSrv as resolveSrvBySystem } from 'node:dns/promises';
import { errorText } from '../../process/log/error-text.ts';
import { LogThrottle } from '../../process/log/log-throttle.ts';
import { lines } from '../log/lines.ts';
import { createMemcacheStats, registerMemcacheNodes } from '../stats/registry/memcache-stats.ts';
import { lookUpNodes, parseMemcacheAddresses, type ResolveSrv } from '../stores/memcache/memcache-nodes.ts';
import { type MemcacheEvents, MemcacheStore } from '../stores/memcache/memcache-store.ts';
import { openClientTls } from './client-tls.ts';
import type { LimiterContext, OpenedServer } from './context.ts';

/** Chosen: the interval for each text. */
const problemReportIntervalMs = 10_000;
const badValue = 'Unexpected non-numeric value in memcached';
const getRejected = 'Error multi-getting memcache keys';

/** @throws Error if files of TLS cannot be used. `connect` rejects if no nodes are found. */
export function openMemcache(
  context: LimiterContext,
  resolveSrv: ResolveSrv = resolveSrvBySystem,
): OpenedServer {
  const { settings, clock, random, registry, log } = context;
  const { memcacheHostPort, memcacheSrv } = settings;
  const store = new MemcacheStore({
    nodes: memcacheSrv === '' ? parseMemcacheAddresses(memcacheHostPort) : [],
    tls: settings.memcacheTls ? openClientTls(settings, 'memcache', log) : undefined,
    connectionsPerNode: settings.memcacheMaxIdleConns,
    clock,
    random,
    failsWithNode: settings.isStoreFailureModeSet,
    events: memcacheEvents(context),
  });
  registerMemcacheNodes(registry, store);
  if (memcacheSrv === '') return { store, connect: () => Promise.resolve() };
  return followSrv(context, store, resolveSrv);
}

/** Looks the nodes up once before the start, and repeatedly after it if that is configured. */
function followSrv(
  { settings, timers, log }: LimiterContext,
  store: MemcacheStore,
  resolveSrv: ResolveSrv,
): OpenedServer {
  const { memcacheSrv: name, memcacheSrvRefreshMs: refreshMs } = settings;
  let endRefresh = (): void => {};
  let isClosed = false;
  const refresh = async (): Promise<void> => {
    try {
      store.setNodes(await lookUpNodes(name, resolveSrv));
    } catch (error) {
      if (!isClosed) lines.memcacheSrvFailed(log, { name, reason: errorText(error) });
    }
  };
  const close = store.close.bind(store);
  store.close = () => {
    isClosed = true;
    endRefresh();
    return close();
  };
  const connect = async (): Promise<void> => {
    try {
      store.setNodes(await lookUpNodes(name, resolveSrv));
    } catch (error) {
      throw new Error(`Unable to fetch servers from SRV: ${errorText(error)}`, { cause: error });
    }
    if (refreshMs > 0 && !isClosed) endRefresh = timers.every(refreshMs, () => void refresh());
  };
  return { store, connect };
}

function memcacheEvents({ settings, registry, clock, log }: LimiterContext): MemcacheEvents {
  const stats = createMemcacheStats(registry);
  const problems = new LogThrottle<{ text: string; key?: string; error?: string }>(
    clock,
    (problem, times) => lines.memcacheProblem(log, { ...problem, further: times - 1 }),
    problemReportIntervalMs,
  );
  const mode = settings.isStoreFailureModeSet ? settings.storeFailureMode : undefined;
  return {
    onRequest: stats.request,
    onCommand: stats.command,
    onLost: (text, key, error) => problems.note({ text, key, error }, text),
    onBadValue: (key) => problems.note({ text: badValue, key }, badValue),
    onGetRejected: (error) => problems.note({ text: getRejected, error }, getRejected),
    onNode: (node, up, reason) =>
      up ? lines.memcacheNodeBack(log, { node }) : lines.memcacheNodeLost(log, { node, reason, mode }),
    onHashedKey: stats.hashedKey,
  };
}
