import { MemoryStore, type MemoryStoreOptions } from '../../limiter/stores/memory/memory-store.ts';
import { ManualClock } from './manual-clock.ts';

/** A store whose time stands still and whose bounds are out of the way, unless the test says otherwise. */
export function openMemoryStore(options: Partial<MemoryStoreOptions> = {}): MemoryStore {
  return new MemoryStore({
    clock: new ManualClock(),
    maxCounters: 1_000_000,
    maxBytes: 256 * 1024 * 1024,
    ...options,
  });
}
