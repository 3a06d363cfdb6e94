/** The schemas of the CRDs that the API server has now: read from `/openapi/v3`, which every service account may read. */
import { isDeepStrictEqual } from 'node:util';
import type { Timers } from '../../process/time/clock.ts';
import { fleetKind } from '../../rules/manifest/fleet-model.ts';
import { overrideKind } from '../../rules/manifest/override-model.ts';
import { group, kind, version } from '../../rules/manifest/spec-model.ts';
import { ApiError, isDenied } from '../kubernetes/api-error.ts';
import type { KubernetesClient } from '../kubernetes/client.ts';
import type { FieldSchema, NewerFields, PublishedSchemas } from '../model/newer-fields.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';

export interface SchemaStoreOptions extends Pick<Telemetry, 'log'> {
  client: Pick<KubernetesClient, 'request'>;
  timers: Timers;
  /** `schemas` answers differently, or doubts are confirmed. */
  changed(): void;
}

const path = `/openapi/v3/apis/${group}/${version}`;
const kinds = [kind, overrideKind, fleetKind];
/** Chosen: decisions, and answers to the API server, may wait for it. */
const timeoutMs = 2_000;
/** Chosen: the API server publishes a schema a moment after it delivers objects by it. */
const publishingWaitsMs = [300, 700];
/** Chosen: for 30 s in all, as watches have it. */
const deniedRetryMs = 1_000;
const mostDenials = 30;
/** Chosen: how often schemas are read again while some object has fields that they do not explain. */
const recheckMs = 30_000;

export class SchemaStore {
  readonly #options: SchemaStoreOptions;
  #schemas: PublishedSchemas | undefined;
  #reading: Promise<void> | undefined;
  /** Doubts that the newest schemas do not end. */
  #confirmed: ReadonlySet<string> = new Set();
  #isConfirming = false;
  #hasFailed = false;
  #deniedTimes = 0;
  #isClosed = false;
  #callOff = (): void => {};

  constructor(options: SchemaStoreOptions) {
    this.#options = options;
  }

  start(): void {
    void this.refresh();
  }

  close(): void {
    this.#isClosed = true;
    this.#callOff();
  }

  /** Undefined before the first answer; empty while there was none but failures. */
  get schemas(): PublishedSchemas | undefined {
    return this.#schemas;
  }

  /**
   * Whether schemas that were read after these doubts arose do not end them. Otherwise reads the schemas and calls `changed`: a
   * decision on the doubts waits for that.
   */
  confirms(doubts: NewerFields['doubts']): boolean {
    const isConfirmed = [...doubts.keys()].every((doubt) => this.#confirmed.has(doubt));
    if (!isConfirmed) {
      if (!this.#isConfirming) void this.#confirm(doubts);
      return false;
    }
    this.#confirmed = new Set(doubts.keys());
    this.#callOff();
    this.#callOff =
      doubts.size === 0 ? () => {} : this.#options.timers.after(recheckMs, () => this.#recheck());
    return true;
  }

  /** Reads the schemas now; a read that is under way is taken for it. Never rejects. */
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
    const isUnpublished = [...doubts.values()].some(({ isPublished }) => !isPublished);
    for (const waitMs of isUnpublished ? publishingWaitsMs : []) {
      if (this.#schemas !== before || this.#isClosed) break;
      await new Promise<void>((resolve) => void this.#options.timers.after(waitMs, resolve));
      await this.refresh();
    }
    this.#isConfirming = false;
    if (this.#isClosed) return;
    // Other schemas have told of the change already, and may end the doubts.
    if (this.#schemas === before) {
      this.#confirmed = new Set(doubts.keys());
      this.#options.changed();
    }
  }

  #recheck(): void {
    void this.refresh().then(() => {
      if (!this.#isClosed) this.#callOff = this.#options.timers.after(recheckMs, () => this.#recheck());
    });
  }

  async #read(): Promise<void> {
    const { client, log, changed } = this.#options;
    try {
      const schemas = schemasOf(await client.request({ path, timeoutMs }));
      this.#hasFailed = false;
      if (isDeepStrictEqual(schemas, this.#schemas)) return;
      this.#schemas = schemas;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (this.#isClosed) return;
      // An API server that has just begun knows neither users nor roles.
      if (this.#schemas === undefined && isDenied(error) && this.#deniedTimes++ < mostDenials) {
        this.#callOff = this.#options.timers.after(deniedRetryMs, () => void this.refresh());
        return;
      }
      if (!this.#hasFailed) lines.schemasUnreadable(log, error.message);
      this.#hasFailed = true;
      if (this.#schemas !== undefined) return;
      this.#schemas = new Map();
    }
    if (!this.#isClosed) changed();
  }
}

/** Of `spec`, by kind. What has another form is left out. */
function schemasOf(document: unknown): PublishedSchemas {
  const { schemas = {} } = members(members(document)['components']) as { schemas?: object };
  const found = Object.values(schemas).flatMap((schema: unknown) => {
    const kindsOf: unknown = members(schema)['x-kubernetes-group-version-kind'];
    const name = Array.isArray(kindsOf) ? members(kindsOf[0])['kind'] : undefined;
    const spec = members(members(schema)['properties'])['spec'];
    return typeof name === 'string' && kinds.includes(name)
      ? [[name, members(spec) as FieldSchema] as const]
      : [];
  });
  return new Map(found);
}

function members(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
