/** The current schemas of the CRDs in the API server. They are read from `/openapi/v3`, which every service account may read. */
import { isDeepStrictEqual } from 'node:util';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { fleetKind, group, kind, overrideKind, version } from '../../rules/language/kinds.ts';
import { ApiError, isDenied, type KubernetesApi } from '../kubernetes/api.ts';
import { defaultWatchLimits } from '../kubernetes/watch.ts';
import { WatchOutage } from '../kubernetes/watch-progress.ts';
import { fields } from '../kubernetes/watch-protocol.ts';
import type { FieldSchema, NewerFields, PublishedSchemas } from '../model/decision.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';

export interface SchemaStoreOptions extends Pick<Telemetry, 'log'> {
  client: Pick<KubernetesApi, 'request' | 'denied'>;
  clock: Pick<Clock, 'monotonicMs'>;
  timers: Timers;
  /** Called when `schemas` or `confirmed` has changed. */
  changed(): void;
}

const root = '/openapi/v3';
const path = `${root}/apis/${group}/${version}`;
const kinds = [kind, overrideKind, fleetKind];
/** Chosen: how long decisions, and answers to the API server, may wait. */
const timeoutMs = 2_000;
/** Chosen: the API server publishes a schema a moment after it delivers objects that use it. */
const publishingWaitsMs = [300, 700];
/** Chosen: decisions wait for the first answer. */
const firstRetryMs = 1_000;
/** Chosen: the answer is small, and unchanged most of the time. */
const rereadMs = 30_000;

const noSchemas: PublishedSchemas = new Map();

export class SchemaStore {
  readonly #options: SchemaStoreOptions;
  readonly #outage: WatchOutage;
  #schemas: PublishedSchemas | undefined;
  #reading: Promise<void> | undefined;
  #confirmed: ReadonlySet<string> = new Set();
  #isConfirming = false;
  #isClosed = false;
  #callOff = (): void => {};

  constructor(options: SchemaStoreOptions) {
    this.#options = options;
    this.#outage = new WatchOutage(options.client, defaultWatchLimits.deniedPatienceMs);
  }

  /** Reads the schemas, and again every 30 s. */
  start(): void {
    void this.refresh().then(() => {
      if (this.#isClosed) return;
      const waitMs = this.#schemas === undefined ? firstRetryMs : rereadMs;
      this.#callOff = this.#options.timers.after(waitMs, () => this.start());
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#callOff();
  }

  /** Undefined before the first answer. Empty if there were only failures. */
  get schemas(): PublishedSchemas | undefined {
    return this.#schemas;
  }

  /** The known schemas. Empty before the first answer, so that an unknown field counts as a field without a default. */
  get known(): PublishedSchemas {
    return this.#schemas ?? noSchemas;
  }

  /**
   * Doubts that decisions have waited for, once for each, so that no object can hold up the decisions on others. CRDs have few
   * fields, so no user can add to the set at will.
   */
  get confirmed(): ReadonlySet<string> {
    return this.#confirmed;
  }

  /** Reads the schemas, which may resolve these doubts, and calls `changed`. */
  confirm(doubts: NewerFields['doubts']): void {
    if (!this.#isConfirming) void this.#confirm(doubts);
  }

  /** Reads the schemas now, or waits for a read that is running. Never rejects. */
  refresh(): Promise<void> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #confirm(doubts: NewerFields['doubts']): Promise<void> {
    this.#isConfirming = true;
    const before = this.#schemas;
    await this.refresh();
    for (const waitMs of publishingWaitsMs) {
      if (this.#schemas !== before || this.#isClosed) break;
      await new Promise<void>((resolve) => void this.#options.timers.after(waitMs, resolve));
      await this.refresh();
    }
    this.#isConfirming = false;
    if (this.#isClosed) return;
    // A read that found other schemas has already called `changed`, and they may resolve the doubts.
    if (this.#schemas === before) {
      this.#confirmed = this.#confirmed.union(doubts);
      this.#options.changed();
    }
  }

  async #read(): Promise<void> {
    const { client, changed } = this.#options;
    try {
      const schemas = schemasOf(await client.request({ path, timeoutMs }));
      this.#outage.recovered();
      if (isDeepStrictEqual(schemas, this.#schemas)) return;
      this.#schemas = schemas;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (this.#isClosed) return;
      const hasSettled = this.#failed(error);
      if (!hasSettled || this.#schemas !== undefined) return;
      this.#schemas = noSchemas;
    }
    if (!this.#isClosed) changed();
  }

  /** Returns false while an API server that has just started may know neither users nor roles. */
  #failed(error: ApiError): boolean {
    const { clock, log } = this.#options;
    const reason = error.message;
    const access = { verb: 'get', resource: root, reason } as const;
    const isReported = this.#outage.failed(error, access, clock.monotonicMs());
    if (isReported && !isDenied(error)) lines.schemasUnreadable(log, { reason });
    return isReported || !isDenied(error);
  }
}

/** Reads the schemas of `spec`, by kind. It ignores schemas of another form. */
function schemasOf(document: unknown): PublishedSchemas {
  const { schemas = {} } = fields(fields(document)['components']) as { schemas?: object };
  const found = Object.values(schemas).flatMap((schema: unknown) => {
    const kindsOf: unknown = fields(schema)['x-kubernetes-group-version-kind'];
    const name = Array.isArray(kindsOf) ? fields(kindsOf[0])['kind'] : undefined;
    const spec = fields(fields(schema)['properties'])['spec'];
    return typeof name === 'string' && kinds.includes(name)
      ? [[name, fields(spec) as FieldSchema] as const]
      : [];
  });
  return new Map(found);
}
