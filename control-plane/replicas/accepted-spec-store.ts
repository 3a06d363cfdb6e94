/** Accepted specs, which outlive the process in ConfigMaps of the control plane's own namespace. */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { SpecGeneration, StoredSpec } from '../model/decision.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import { type SharedFormat, SharedValues, type SharedValuesParts } from './shared-values.ts';

const specSchema = z.object({ generation: z.int().positive(), spec: z.unknown() });
const storedSpecSchema = z.object({
  namespace: z.string(),
  name: z.string(),
  ...specSchema.shape,
  fallback: specSchema.exactOptional(),
});

/** A generation may have been accepted with more than one spec, because a CRD of another version adds or drops fields. */
function isSameSpec(a: SpecGeneration | undefined, b: SpecGeneration | undefined): boolean {
  return a?.generation === b?.generation && isDeepStrictEqual(a?.spec, b?.spec);
}

/** The format of specs by the uid of their object. */
const specFormat: SharedFormat<StoredSpec> = {
  prefix: 'weir-kept-',
  file: 'specs.json',
  write: ({ fallback, ...stored }) => {
    const { generation, spec } = fallback ?? {};
    return JSON.stringify({ ...stored, fallback: fallback && { generation, spec } });
  },
  read: (json) => storedSpecSchema.parse(json),
  isSame: (a, b) => isSameSpec(a, b) && isSameSpec(a.fallback, b.fallback),
};

export interface AcceptedSpecStoreOptions extends SharedValuesParts, Pick<Telemetry, 'log'> {
  leads(): boolean;
  /** Called, with the uids, when stored specs have changed or were read for the first time. */
  changed(stored: ReadonlyMap<string, StoredSpec>): void;
}

/** Chosen: a leader with the same information has stored the spec long before. */
const raiseAfterMs = 1_000;
/** Chosen: a leader may replace a newer spec by an older one before it has read the newer one, or repeatedly if it cannot read it. */
const mostReturns = 3;

/**
 * Specs that are served in place of a newer generation. Every replica reads them, and the leader writes them. So a restart removes no
 * limits if the last change of an object was bad, or if some limiters do not support it. A replica that accepted a newer generation than
 * the stored one, which the leader missed, stores its own. All replicas then serve the newest generation that any of them accepted.
 */
export class AcceptedSpecStore {
  readonly #options: AcceptedSpecStoreOptions;
  readonly #values: SharedValues<StoredSpec>;
  #wanted: ReadonlyMap<string, StoredSpec> = new Map();
  /** Whether this process led when it determined what to store. If that changes, nothing of it is written. */
  #isOfLeader = false;
  /**
   * The newest generation that was ever stored, by uid, and how often an older one replaced it. The leader that removed it may not be
   * able to read it.
   */
  readonly #newest = new Map<string, { generation: number; returns: number }>();
  #callOffRaise: (() => void) | undefined;

  constructor(options: AcceptedSpecStoreOptions) {
    const { log, leads, changed } = options;
    this.#options = options;
    this.#values = new SharedValues({
      ...options,
      role: 'kept-spec',
      format: specFormat,
      mayWrite: () => leads() === this.#isOfLeader,
      read: () => {
        for (const [uid, { generation }] of this.stored) this.#see(uid, generation);
        changed(this.stored);
        if (!leads()) this.#awaitLeader();
      },
      lines: {
        unreachable: (reason) => lines.acceptedSpecsUnreachable(log, { reason }),
        reachable: () => lines.acceptedSpecsReachable(log),
        skipped: (name, reason) => lines.acceptedSpecSkipped(log, { name, reason }),
        notStored: (uid, error) => lines.acceptedSpecNotStored(log, { object: this.#objectText(uid), error }),
      },
    });
  }

  /** Returns stored specs by uid: see `SharedValues.load`. */
  load(): Promise<ReadonlyMap<string, StoredSpec>> {
    return this.#values.load();
  }

  /** Stored specs by uid. */
  get stored(): ReadonlyMap<string, StoredSpec> {
    return this.#values.stored;
  }

  /**
   * Sets the specs that must outlive this replica, by uid. A leader stores them unchanged; other replicas store them only if they are
   * newer.
   */
  sync(wanted: ReadonlyMap<string, StoredSpec>): void {
    this.#wanted = wanted;
    for (const uid of this.#newest.keys())
      if (!wanted.has(uid) && !this.stored.has(uid)) this.#newest.delete(uid);
    if (!this.#options.leads()) {
      this.#awaitLeader();
      return;
    }
    this.#callOff();
    this.#isOfLeader = true;
    this.#values.sync(wanted);
  }

  async close(): Promise<void> {
    this.#callOff();
    await this.#values.close();
  }

  #see(uid: string, generation: number): void {
    const { generation: newest = 0, returns = 0 } = this.#newest.get(uid) ?? {};
    if (generation > newest) this.#newest.set(uid, { generation, returns });
    else if (generation < newest && returns < mostReturns)
      this.#newest.set(uid, { generation, returns: returns + 1 });
  }

  #awaitLeader(): void {
    if (this.#ahead().length === 0) {
      this.#callOff();
      this.#values.sync(undefined);
    } else this.#callOffRaise ??= this.#options.timers.after(raiseAfterMs, () => this.#raise());
  }

  #raise(): void {
    this.#callOffRaise = undefined;
    if (this.#options.leads()) return;
    this.#isOfLeader = false;
    this.#values.sync(new Map([...this.stored, ...this.#ahead()]));
  }

  /** Returns the specs that are newer here than in the store. */
  #ahead(): [uid: string, spec: StoredSpec][] {
    return [...this.#wanted].filter(
      ([uid, { generation }]) => generation > (this.#newest.get(uid)?.generation ?? 0),
    );
  }

  #callOff(): void {
    this.#callOffRaise?.();
    this.#callOffRaise = undefined;
  }

  #objectText(uid: string): string {
    const spec = this.#wanted.get(uid) ?? this.stored.get(uid);
    return spec === undefined ? uid : `${spec.namespace}/${spec.name}`;
  }
}
