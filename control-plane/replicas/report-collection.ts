/** The reports of all replicas, put together from the ConfigMaps that hold them. */
import { errorText } from '../../process/log/process-error-text.ts';
import type { ReplicaReport } from '../model/limiter-report.ts';
import type { ConfigMap } from './config-map.ts';
import { decodeReport, type ReportPart, readReportPart } from './report-encoding.ts';

export interface ReportCollectionListener {
  changed(): void;
  /** The replica's report before stays. */
  damaged(replica: string, reason: string): void;
}

export class ReportCollection {
  readonly #listener: ReportCollectionListener;
  readonly #reports = new Map<string, ReplicaReport>();
  /** By replica: the revision that was decoded last, or could not be. */
  readonly #revisions = new Map<string, string>();
  #newest: readonly ConfigMap[] | undefined;
  #running: Promise<void> | undefined;

  constructor(listener: ReportCollectionListener) {
    this.#listener = listener;
  }

  /** By replica, whether it lives or not. */
  get reports(): ReadonlyMap<string, ReplicaReport> {
    return this.#reports;
  }

  get isBusy(): boolean {
    return this.#running !== undefined;
  }

  /** Settles when these, or newer ones, are decoded. */
  update(maps: readonly ConfigMap[]): Promise<void> {
    this.#newest = maps;
    this.#running ??= this.#decode().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #decode(): Promise<void> {
    for (let maps = this.#takeNewest(); maps !== undefined; maps = this.#takeNewest()) {
      const byReplica = Map.groupBy(
        maps.flatMap((map) => readReportPart(map) ?? []),
        ({ replica }) => replica,
      );
      let hasChanged = this.#removeAllBut(byReplica);
      for (const [replica, parts] of byReplica) {
        if (await this.#decodeOne(replica, parts)) hasChanged = true;
      }
      if (hasChanged) this.#listener.changed();
    }
  }

  #takeNewest(): readonly ConfigMap[] | undefined {
    const maps = this.#newest;
    this.#newest = undefined;
    return maps;
  }

  #removeAllBut(present: ReadonlyMap<string, unknown>): boolean {
    const gone = [...this.#revisions.keys()].filter((replica) => !present.has(replica));
    for (const replica of gone) {
      this.#revisions.delete(replica);
      this.#reports.delete(replica);
    }
    return gone.length > 0;
  }

  async #decodeOne(replica: string, found: readonly ReportPart[]): Promise<boolean> {
    const parts = wholeReport(found);
    const revision = parts?.[0]?.revision;
    if (parts === undefined || revision === undefined || revision === this.#revisions.get(replica))
      return false;
    this.#revisions.set(replica, revision);
    try {
      this.#reports.set(replica, await decodeReport(parts));
      return true;
    } catch (error) {
      this.#listener.damaged(replica, errorText(error));
      return false;
    }
  }
}

/** In their order; undefined while some part of the newest revision is missing. */
function wholeReport(parts: readonly ReportPart[]): ReportPart[] | undefined {
  const first = parts.find(({ part }) => part === 1);
  if (first === undefined) return undefined;
  const same = parts.filter(({ revision }) => revision === first.revision).sort((a, b) => a.part - b.part);
  return same.length === first.parts ? same : undefined;
}
