/** Each thread that answers callers stores its rate-limited requests. The main thread joins the rows that they find. */
import type { MainContext, MainPart, ThreadContext, ThreadPart } from '../capabilities/parts.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { type FoundOverLimitRows, OverLimitMemory, type OverLimitQuery } from './over-limit-memory.ts';
import { overLimitRoutes } from './over-limit-routes.ts';
import type { OverLimitSettings } from './settings.ts';

/** Requests from the main thread to the others. */
interface OverLimitMessages {
  find(question: OverLimitQuery): FoundOverLimitRows;
}

export function main({ limiter, threads }: MainContext<OverLimitSettings>): MainPart {
  const asked = threads.of<OverLimitMessages>();
  return {
    routes: () => overLimitRoutes({ name: limiter, find: (question) => asked.ask('find', question) }),
  };
}

export function thread({ settings, clock, registry }: ThreadContext<OverLimitSettings>): ThreadPart {
  const { refusalsKept, requestMaxTextBytes } = settings;
  if (refusalsKept === 0) return {};
  const memory = new OverLimitMemory(refusalsKept, clock, requestMaxTextBytes);
  registerOverLimitStats(registry, memory);
  const messages: OverLimitMessages = { find: (question) => memory.find(question) };
  return {
    messages,
    observes: { onRequestOverLimit: (hit, entries, used, asker) => memory.note(hit, entries, used, asker) },
    useRules: ({ contentHash }) => memory.useRules(contentHash),
  };
}

function registerOverLimitStats(registry: StatsRegistry, memory: OverLimitMemory): void {
  registry.gauge('ratelimit.refusals.kept', () => memory.size);
  registry.gauge('ratelimit.refusals.bytes', () => memory.bytes);
  registry.counterFrom('ratelimit.refusals.left_out', () => memory.leftOut);
}
