/**
 * Finds the limiters that share the store. Each stores a record there, renews it, and drops the records of limiters that ended without
 * removing theirs.
 */
import { type Clock, inTime, type Timers } from '../../process/time/clock.ts';
import type { StoreAdmin } from './store-admin/store-admin.ts';

export interface LimiterName {
  /** The name of the pod or the host, for people. */
  readonly name: string;
  /** Unique to this process. */
  readonly instance: string;
}

export interface HeartbeatsOptions {
  storeAdmin: Pick<StoreAdmin, 'records' | 'putRecord' | 'removeRecord'>;
  self: LimiterName & { readonly version: string };
  clock: Clock;
  timers: Timers;
}

const beatMs = 5_000;
/** Three beats, because one may be lost and another one late. */
const livingMs = 15_000;
const droppedMs = 60_000;
const lastWordMs = 1_000;

/** A record as it was found, and the time at which this process first found it. */
interface Seen extends LimiterName {
  readonly text: string;
  readonly sinceMs: number;
  readonly isLiving: boolean;
}

export class Heartbeats {
  readonly #options: HeartbeatsOptions;
  #seen: ReadonlyMap<string, Seen> = new Map();
  #end = (): void => {};
  #isRecorded = false;

  constructor(options: HeartbeatsOptions) {
    this.#options = options;
  }

  start(): void {
    this.#beat();
    this.#end = this.#options.timers.every(beatMs, () => this.#beat());
  }

  /** Returns the limiters that renewed their record in the last seconds, and this one. Rejects as the store admin does. */
  async living(): Promise<LimiterName[]> {
    const { self, clock } = this.#options;
    await this.#look();
    const nowMs = clock.monotonicMs();
    const others = [...this.#seen.values()].filter(
      ({ instance, isLiving, sinceMs }) =>
        instance !== self.instance && isLiving && nowMs - sinceMs < livingMs,
    );
    return [self, ...others].map(({ name, instance }) => ({ name, instance }));
  }

  /** Removes the record, if the store responds soon. */
  async close(): Promise<void> {
    this.#end();
    if (!this.#isRecorded) return;
    const { storeAdmin, self, timers } = this.#options;
    const removed = storeAdmin.removeRecord('limiters', self.instance).catch(() => false);
    await inTime(timers, lastWordMs, removed, false);
  }

  /** Writes the record. A failed write is repeated with the next beat; the store admin reports commands that it may not use. */
  #beat(): void {
    const { storeAdmin, self, clock } = this.#options;
    const text = JSON.stringify({ ...self, at: clock.nowMs() });
    storeAdmin
      .putRecord('limiters', self.instance, text)
      .then(() => {
        this.#isRecorded = true;
        return this.#dropEnded();
      })
      .catch(() => {});
  }

  async #dropEnded(): Promise<void> {
    const { storeAdmin, clock } = this.#options;
    await this.#look();
    const nowMs = clock.monotonicMs();
    for (const [instance, { sinceMs }] of this.#seen)
      if (nowMs - sinceMs >= droppedMs) await storeAdmin.removeRecord('limiters', instance);
  }

  /**
   * Reads the records. A limiter whose record was renewed since the last look is alive, whatever its clock says, because the clocks of
   * hosts differ. Only the time in a record that is found for the first time is trusted.
   */
  async #look(): Promise<void> {
    const { storeAdmin, clock } = this.#options;
    const records = await storeAdmin.records('limiters');
    const nowMs = clock.monotonicMs();
    const seen = new Map<string, Seen>();
    for (const [instance, text] of records) {
      const before = this.#seen.get(instance);
      if (before?.text === text) {
        seen.set(instance, before);
        continue;
      }
      const { name, at } = readRecord(text);
      const isLiving = before !== undefined || Math.abs(clock.nowMs() - at) < livingMs;
      seen.set(instance, { instance, name, text, sinceMs: nowMs, isLiving });
    }
    this.#seen = seen;
  }
}

/** A record that cannot be read counts as written long ago. */
function readRecord(text: string): { name: string; at: number } {
  try {
    const { name, at } = JSON.parse(text) as { name?: unknown; at?: unknown };
    return { name: typeof name === 'string' ? name : '', at: typeof at === 'number' ? at : 0 };
  } catch {
    return { name: '', at: 0 };
  }
}
