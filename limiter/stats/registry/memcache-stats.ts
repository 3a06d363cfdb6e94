/** Statistics of the store in memcache: its commands, and its nodes. */
import type { StatsRegistry } from './stats-registry.ts';

type Outcome = 'success' | 'error' | 'miss' | 'not_stored';

export function createMemcacheStats(registry: StatsRegistry) {
  const counting = (command: string, outcomes: readonly Outcome[]) =>
    registry.countingBy(`ratelimit.memcache.${command}`, 'code', outcomes);
  const lookup = counting('multiget', ['success', 'error']);
  const commands = {
    increment: counting('increment', ['success', 'miss', 'error']),
    add: counting('add', ['success', 'not_stored', 'error']),
    decrement: counting('decrement', ['success', 'miss', 'error']),
  };
  const keysRequested = registry.counting('ratelimit.memcache.keys_requested');
  const keysFound = registry.counting('ratelimit.memcache.keys_found');
  return {
    /** Called for the lookup of one request. */
    request: ({ keys, found, failed }: { keys: number; found: number; failed: boolean }) => {
      keysRequested(keys);
      if (!failed) keysFound(found);
      lookup(failed ? 'error' : 'success');
    },
    command: (command: keyof typeof commands, outcome: Outcome) => commands[command](outcome),
    /** Called for a key that memcache does not accept unchanged. */
    hashedKey: registry.counting('ratelimit.memcache.hashed_keys'),
  };
}

/** The state of the store's nodes. */
export function registerMemcacheNodes(
  registry: StatsRegistry,
  store: { readonly figures: { nodes: number; down: number; connections: number } },
): void {
  registry.gauge('ratelimit.memcache.nodes', () => store.figures.nodes, 'max');
  registry.gauge('ratelimit.memcache.nodes_down', () => store.figures.down, 'max');
  registry.gauge('ratelimit.memcache.cx_active', () => store.figures.connections);
}
