import { newOperation, type Operation, plainCounter, type Verb } from '../../stores/operation.ts';
import type { StoredCounter } from '../../stores/store.ts';
import { countAll, type Store } from '../../stores/store.ts';
import { type CounterRef, type ScannedKeys, type StoreAdmin, StoreAdminRejection } from './store-admin.ts';

const cannotList =
  'memcached cannot list its keys: ask for one counter by its entries, or count in Redis (BACKEND_TYPE=redis)';
const cannotKeep = 'memcached stores no overrides: they need BACKEND_TYPE=redis or memory';
/** Subtracting this leaves nothing of a counter. */
const all = Number.MAX_SAFE_INTEGER;

/** The store admin of BACKEND_TYPE=memcache: counters by their names, and nothing else. */
export class MemcacheStoreAdmin implements StoreAdmin {
  readonly kind = 'memcache';
  readonly missing = [];
  readonly #open: () => Promise<Store>;
  #store: Promise<Store> | undefined;

  /** `open` returns a store for the store admin alone, whose counters fail with their nodes. */
  constructor(open: () => Promise<Store>) {
    this.#open = open;
  }

  async scan(): Promise<ScannedKeys> {
    throw new StoreAdminRejection(cannotList);
  }

  async read(counters: readonly CounterRef[]): Promise<(StoredCounter | undefined)[]> {
    const ops = await this.#submit(counters, 'add', 0);
    return ops.map(({ after }) => ({ held: [after, 0, 0], leased: 0 }));
  }

  async remove(counters: readonly CounterRef[]): Promise<number> {
    const before = await this.read(counters);
    await this.#submit(counters, 'refund', all);
    return before.filter((one) => one !== undefined && one.held[0] > 0).length;
  }

  async publish(): Promise<boolean> {
    return false;
  }

  subscribe(): () => void {
    return () => {};
  }

  async records(): Promise<Map<string, string>> {
    throw new StoreAdminRejection(cannotKeep);
  }

  async record(): Promise<never> {
    throw new StoreAdminRejection(cannotKeep);
  }

  async putRecord(): Promise<boolean> {
    throw new StoreAdminRejection(cannotKeep);
  }

  async removeRecord(): Promise<boolean> {
    throw new StoreAdminRejection(cannotKeep);
  }

  async close(): Promise<void> {
    const store = await this.#store?.catch(() => undefined);
    await store?.close();
  }

  async #submit(counters: readonly CounterRef[], verb: Verb, hits: number): Promise<Operation[]> {
    this.#store ??= this.#open();
    this.#store.catch(() => {
      this.#store = undefined;
    });
    const store = await this.#store;
    const ops = counters.map(({ key, perSecond }) =>
      newOperation(plainCounter(key, { perSecond }), key, verb, hits, 1),
    );
    await new Promise<void>((resolve) => store.submit(ops, countAll, resolve));
    const failed = ops.find(({ error }) => error !== undefined);
    if (failed !== undefined) throw failed.error;
    return ops;
  }
}
