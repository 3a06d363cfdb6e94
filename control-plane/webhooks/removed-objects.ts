/**
 * Deleted objects about which receivers of webhooks were not notified yet. They are stored in one ConfigMap in the control plane's own
 * namespace. Every replica reads it, and the leader writes it, so that the next leader can notify receivers.
 */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { LogThrottle } from '../../process/log/log-throttle.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { overrideKind } from '../../rules/language/kinds.ts';
import type { KubernetesApi } from '../kubernetes/api.ts';
import type { RemovedObject } from '../reconcile/removals.ts';
import { type Codec, maxConfigMapBytes } from '../replicas/config-maps.ts';
import { SharedValues } from '../replicas/shared-values.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';

const name = 'weir-removed';
const dataKey = 'objects.json.gz';
/** Chosen: far above the size of an object that the API server accepts. */
const longestJson = 64 * 1024 * 1024;
/** Chosen: objects that are deleted together are stored in one write. */
const writeIntervalMs = 200;

const model: z.ZodType<RemovedObject[]> = z.array(
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

export interface RemovedObjectStoreOptions extends Pick<Telemetry, 'log'> {
  client: KubernetesApi;
  namespace: string;
  /** Called before each write. */
  mayWrite(): boolean;
  clock: Clock;
  timers: Timers;
  random(): number;
  codec: Codec;
  /** Called when the stored list has changed, or was read for the first time. Another leader may have written it. Call `sync`. */
  changed(stored: readonly RemovedObject[]): void;
}

export class RemovedObjectStore {
  readonly #options: RemovedObjectStoreOptions;
  readonly #values: SharedValues<readonly RemovedObject[]>;
  readonly #tooLarge: LogThrottle<{ objects: number; stored: number }>;

  constructor(options: RemovedObjectStoreOptions) {
    const { clock, log, codec, changed } = options;
    this.#options = options;
    this.#tooLarge = new LogThrottle(clock, (counts) => lines.removedTooLarge(log, counts));
    this.#values = new SharedValues<readonly RemovedObject[]>({
      ...options,
      role: 'removed',
      intervalMs: writeIntervalMs,
      format: {
        keyOf: (map) => (map.name === name ? name : undefined),
        decode: ([map]) => decode(map!.binaryData[dataKey], codec),
        encode: (_, objects) => this.#encode(objects),
        isSame: isDeepStrictEqual,
      },
      read: () => changed(this.#values.stored.get(name) ?? []),
      lines: {
        unreachable: (reason) => lines.removedUnreachable(log, { reason }),
        reachable: () => lines.removedReachable(log),
        skipped: (map, reason) => lines.removedSkipped(log, { name: map, reason }),
        notStored: (_, error) => lines.removedNotStored(log, { error }),
      },
    });
  }

  start(): void {
    void this.#values.load();
  }

  /** Makes the stored objects equal to these. It writes soon, and again after failures, while this process may write. */
  sync(objects: readonly RemovedObject[]): void {
    this.#values.sync(new Map(objects.length === 0 ? [] : [[name, objects]]));
  }

  close(): Promise<void> {
    return this.#values.close();
  }

  /** Returns the newest objects, if there is not enough room for all of them. */
  async #encode(objects: readonly RemovedObject[]) {
    let kept = objects;
    const compressed = () => this.#options.codec.compress(JSON.stringify(kept));
    let bytes = await compressed();
    while (bytes.length > maxConfigMapBytes) {
      kept = kept.slice(Math.ceil(kept.length / 2));
      bytes = await compressed();
    }
    const isWhole = kept.length === objects.length;
    if (!isWhole) this.#tooLarge.note({ objects: objects.length, stored: kept.length });
    return { maps: [{ name, data: {}, binaryData: { [dataKey]: bytes.toString('base64') } }], isWhole };
  }
}

/** Rejects data that is not a list of removed objects. */
async function decode(base64 = '', codec: Codec): Promise<RemovedObject[]> {
  return model.parse(JSON.parse(await codec.decompress(Buffer.from(base64, 'base64'), longestJson)));
}
