/** Deleted objects, which outlive the process in ConfigMaps of the control plane's own namespace. */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { overrideKind } from '../../rules/language/kinds.ts';
import type { RemovedObject } from '../model/decision.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import { type SharedFormat, SharedValues, type SharedValuesParts } from './shared-values.ts';

/** Chosen: objects that are deleted together are stored in one write. */
const writeIntervalMs = 200;

const removedSchema: z.ZodType<RemovedObject[]> = z.array(
  z.object({
    kind: z.literal(overrideKind).exactOptional(),
    namespace: z.string(),
    name: z.string(),
    uid: z.string(),
    generation: z.number(),
    served: z.nullable(z.object({ fleet: z.string(), domain: z.string(), resource: z.string() })),
    removedMs: z.number(),
  }),
);

const removedFormat: SharedFormat<readonly RemovedObject[]> = {
  prefix: 'weir-removed',
  file: 'objects.json',
  write: (objects) => JSON.stringify(objects),
  read: (json) => removedSchema.parse(json),
  isSame: isDeepStrictEqual,
};
/** The key of the only list. */
const listKey = '';

export interface RemovedObjectStoreOptions extends SharedValuesParts, Pick<Telemetry, 'log'> {
  /** Called before each write. */
  mayWrite(): boolean;
  /** Called when the stored list has changed, or was read for the first time. Another leader may have written it. Call `sync`. */
  changed(stored: readonly RemovedObject[]): void;
}

/**
 * Deleted objects about which receivers of webhooks were not notified yet. Every replica reads them, and the leader writes them, so that
 * the next leader can notify receivers.
 */
export class RemovedObjectStore {
  readonly #values: SharedValues<readonly RemovedObject[]>;

  constructor(options: RemovedObjectStoreOptions) {
    const { log, changed } = options;
    this.#values = new SharedValues<readonly RemovedObject[]>({
      ...options,
      role: 'removed',
      intervalMs: writeIntervalMs,
      format: removedFormat,
      read: () => changed(this.#values.stored.get(listKey) ?? []),
      lines: {
        unreachable: (reason) => lines.removedUnreachable(log, { reason }),
        reachable: () => lines.removedReachable(log),
        skipped: (name, reason) => lines.removedSkipped(log, { name, reason }),
        notStored: (_, error) => lines.removedNotStored(log, { error }),
      },
    });
  }

  start(): void {
    void this.#values.load();
  }

  /** Makes the stored objects equal to these. It writes soon, and again after failures, while this process may write. */
  sync(objects: readonly RemovedObject[]): void {
    this.#values.sync(new Map(objects.length === 0 ? [] : [[listKey, objects]]));
  }

  close(): Promise<void> {
    return this.#values.close();
  }
}
