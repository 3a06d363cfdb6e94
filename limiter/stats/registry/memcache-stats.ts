/** Statistics of the store in memcache: its commands, and its nodes. */
import type { StatsRegistry } from './stats-registry.ts';

/** The statistics of memcache by name; those of commands have a tag `code`. */
export interface MemcacheStats {
  /** Called for the lookup of one request. */
  request(outcome: { keys: number; found: number; failed: boolean }): void;
  command(
    command: 'increment' | 'add' | 'decrement',
    outcome: 'success' | 'error' | 'miss' | 'not_stored',
  ): void;
  /** Called for a key that memcache does not accept unchanged. */
  hashedKey(): void;
}

const outcomes = {
  multiget: ['success', 'error'],
  increment: ['success', 'miss', 'error'],
  add: ['success', 'not_stored', 'error'],
  decrement: ['success', 'miss', 'error'],
} as const;

export function createMemcacheStats(registry: StatsRegistry): MemcacheStats {
  const slots = new Map<string, number>();
  for (const [command, codes] of Object.entries(outcomes)) {
    for (const code of codes) {
      const slot = registry.counter(`ratelimit.memcache.${command}`, [['code', code]]);
      slots.set(`${command} ${code}`, slot);
    }
  }
  const add = (command: string, outcome: string): void => {
    const slot = slots.get(`${command} ${outcome}`);
    if (slot !== undefined) registry.add(slot, 1);
  };
  const keysRequested = registry.counter('ratelimit.memcache.keys_requested');
  const keysFound = registry.counter('ratelimit.memcache.keys_found');
  const hashedKeys = registry.counter('ratelimit.memcache.hashed_keys');
  return {
    request: ({ keys, found, failed }) => {
      registry.add(keysRequested, keys);
      if (!failed) registry.add(keysFound, found);
      add('multiget', failed ? 'error' : 'success');
    },
    command: add,
    hashedKey: () => registry.add(hashedKeys, 1),
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
