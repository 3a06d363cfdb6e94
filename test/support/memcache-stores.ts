import { parseMemcacheAddresses } from '../../limiter/stores/memcache/memcache-nodes.ts';
import {
  type MemcacheEvents,
  MemcacheStore,
  type MemcacheStoreOptions,
} from '../../limiter/stores/memcache/memcache-store.ts';
import { systemClock } from '../../process/time/clock.ts';

/** What a store reported, a line each. */
export class MemcacheNews implements MemcacheEvents {
  readonly lines: string[] = [];
  readonly requests: { keys: number; found: number; failed: boolean }[] = [];
  readonly commands: string[] = [];

  onRequest(outcome: { keys: number; found: number; failed: boolean }): void {
    this.requests.push(outcome);
  }
  onHashedKey(): void {
    this.lines.push('hashed');
  }
  onBadValue(key: string): void {
    this.lines.push(`bad value of ${key}`);
  }
  onGetRejected(error: string): void {
    this.lines.push(`get: ${error}`);
  }
  onNode(node: string, up: boolean, reason: string): void {
    this.lines.push(`${node} ${up ? 'up' : `down: ${reason}`}`);
  }
  onCommand(command: string, outcome: string): void {
    this.commands.push(`${command} ${outcome}`);
  }
  onLost(problem: string, key: string, error: string): void {
    this.lines.push(`${problem} ${key}: ${error}`);
  }
}

/** A store on these nodes, as MEMCACHE_HOST_PORT has them, with one connection to each. */
export function openMemcacheStore(nodes: string, options: Partial<MemcacheStoreOptions> = {}): MemcacheStore {
  return new MemcacheStore({
    nodes: parseMemcacheAddresses(nodes),
    connectionsPerNode: 1,
    clock: systemClock,
    random: Math.random,
    events: new MemcacheNews(),
    ...options,
  });
}
