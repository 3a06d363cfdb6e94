/**
 * Deleted objects whose receivers of webhooks are not told yet, in one ConfigMap of the control plane's own namespace: read
 * by every replica, written by the leader, so that the next one tells what this one could not.
 */
import { z } from 'zod';
import { errorText } from '../../process/log/error-text.ts';
import { Seldom } from '../../process/log/seldom.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { overrideKind } from '../../rules/language/kinds.ts';
import type { KubernetesApi } from '../kubernetes/api.ts';
import { ApiError } from '../kubernetes/api-error.ts';
import type { RemovedObject } from '../reconcile/removals.ts';
import type { Codec } from '../replicas/codec.ts';
import { ConfigMapApi, maxConfigMapBytes, WatchedValues } from '../replicas/config-maps.ts';
import { Pump } from '../replicas/pump.ts';
import { type ObjectRole, roleLabel } from '../replicas/replica-name.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';

const name = 'weir-removed';
const role = 'removed' satisfies ObjectRole;
const dataKey = 'objects.json.gz';
/** Chosen: far above what the API server takes as an object. */
const longestJson = 64 * 1024 * 1024;
/** Chosen: objects that are deleted together are one write. */
const writeIntervalMs = 200;
/** Chosen: between two log lines about what could not be stored. */
const seldomMs = 60_000;

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
  /** Asked before each write. */
  mayWrite(): boolean;
  clock: Clock;
  timers: Timers;
  random(): number;
  codec: Codec;
  /** What is stored has changed, or was read for the first time: another leader may have written it. Returns what should be. */
  changed(stored: readonly RemovedObject[]): readonly RemovedObject[];
}

export class RemovedObjectStore {
  readonly #options: RemovedObjectStoreOptions;
  readonly #api: ConfigMapApi;
  readonly #values: WatchedValues<RemovedObject[]>;
  readonly #pump: Pump<string, ApiError>;
  readonly #tooLarge: Seldom<{ objects: number; stored: number }>;
  /** JSON: what is stored as far as it is known, what should be, and what of that was too large. */
  #stored = '[]';
  #wanted = '[]';
  #cut = '';
  #writtenMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor(options: RemovedObjectStoreOptions) {
    this.#options = options;
    const { client, namespace, clock, log } = options;
    this.#api = new ConfigMapApi({ client, namespace, timeoutMs: 10_000 });
    this.#tooLarge = new Seldom(clock, seldomMs, (counts) => lines.removedTooLarge(log, counts));
    const waitMs = (nowMs: number): number => this.#writtenMs + writeIntervalMs - nowMs;
    const isDue = (): boolean => this.#wanted !== this.#stored && this.#wanted !== this.#cut;
    this.#pump = new Pump({
      ...options,
      queue: {
        next: (nowMs) => (isDue() && waitMs(nowMs) <= 0 ? name : undefined),
        nextDueMs: (nowMs) => (isDue() ? waitMs(nowMs) : undefined),
      },
      concurrency: 1,
      mayRun: () => !this.#isClosed && this.#values.isRead && options.mayWrite(),
      attempt: () => this.#write(),
      failed: (_, error) => lines.removedNotStored(log, error),
      firstRetryMs: 500,
      mostRetryMs: 30_000,
    });
    this.#values = new WatchedValues({
      ...options,
      labels: { [roleLabel]: role },
      find: (maps) =>
        maps
          .filter((map) => map.name === name)
          .map(({ resourceVersion, binaryData }) => ({
            key: name,
            version: resourceVersion,
            decode: () =>
              decode(binaryData[dataKey], options.codec).catch((error: unknown) => {
                lines.removedSkipped(log, name, errorText(error));
                return undefined;
              }),
          })),
      read: () => this.#read(),
      unreachable: (reason) => lines.removedUnreachable(log, reason),
      reachable: () => lines.removedReachable(log),
      skipped: (key, reason) => lines.removedSkipped(log, key, reason),
    });
  }

  start(): void {
    this.#values.start();
  }

  /** Makes what is stored the same as these: soon, and again after failures, while this process may write. */
  sync(objects: readonly RemovedObject[]): void {
    this.#wanted = JSON.stringify(objects);
    this.#pump.wake();
  }

  /** Nothing is deleted: what is stored is for the next process. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([this.#values.close(), this.#pump.close()]);
  }

  #read(): void {
    if (this.#isClosed) return;
    const stored = this.#values.values.flat();
    this.#stored = JSON.stringify(stored);
    this.sync(this.#options.changed(stored));
  }

  async #write(): Promise<ApiError | undefined> {
    const wanted = this.#wanted;
    try {
      if (wanted === '[]') await this.#api.delete(name);
      else await this.#apply(JSON.parse(wanted) as RemovedObject[]);
      this.#stored = wanted;
      this.#writtenMs = this.#options.clock.nowMs();
      return undefined;
    } catch (error) {
      if (error instanceof ApiError) return error;
      throw error;
    }
  }

  /** The newest of them, where not all have room. */
  async #apply(objects: readonly RemovedObject[]): Promise<void> {
    let kept = objects;
    const { codec } = this.#options;
    const encode = () => codec.compress(JSON.stringify(kept));
    let bytes = await encode();
    while (bytes.length > maxConfigMapBytes) {
      kept = kept.slice(Math.ceil(kept.length / 2));
      bytes = await encode();
    }
    if (kept.length < objects.length) {
      this.#cut = JSON.stringify(objects);
      this.#tooLarge.note({ objects: objects.length, stored: kept.length });
    }
    const map = { name, data: {}, binaryData: { [dataKey]: bytes.toString('base64') } };
    await this.#api.apply(map, { role });
  }
}

/** Rejects what is no list of removed objects. */
async function decode(base64 = '', codec: Codec): Promise<RemovedObject[]> {
  return model.parse(JSON.parse(await codec.decompress(Buffer.from(base64, 'base64'), longestJson)));
}
