/** Each thread that answers callers stores its rate-limited requests. The main thread joins the rows that they find. */
import type { MainContext, MainPart, ThreadContext, ThreadPart } from '../capabilities/parts.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { RefusalMemory, type RefusalQuery, type RefusalsFound } from './refusal-memory.ts';
import { refusalRoutes } from './refusal-routes.ts';
import type { RefusalSettings } from './settings.ts';

/** Requests from the main thread to the others. */
interface RefusalMessages {
  find(question: RefusalQuery): RefusalsFound;
}

export function main({ limiter, threads }: MainContext<RefusalSettings>): MainPart {
  const asked = threads.of<RefusalMessages>();
  return { routes: () => refusalRoutes({ name: limiter, find: (question) => asked.ask('find', question) }) };
}

export function thread({ settings, clock, registry }: ThreadContext<RefusalSettings>): ThreadPart {
  const { refusalsKept, requestMaxTextBytes } = settings;
  if (refusalsKept === 0) return {};
  const memory = new RefusalMemory(refusalsKept, clock, requestMaxTextBytes);
  registerRefusalStats(registry, memory);
  const messages: RefusalMessages = { find: (question) => memory.find(question) };
  return {
    messages,
    observes: { onRefused: (hit, entries, used, asker) => memory.note(hit, entries, used, asker) },
    useRules: ({ contentHash }) => memory.useRules(contentHash),
  };
}

function registerRefusalStats(registry: StatsRegistry, refusals: RefusalMemory): void {
  registry.gauge('ratelimit.refusals.kept', () => refusals.size);
  registry.gauge('ratelimit.refusals.bytes', () => refusals.bytes);
  registry.counterFrom('ratelimit.refusals.left_out', () => refusals.leftOut);
}
