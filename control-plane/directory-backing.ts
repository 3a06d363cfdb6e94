import type { Backing, BackingListener } from './backing.ts';
import { objectKey, UnreadSpec } from './model/config-object.ts';
import type { Decision } from './model/decision.ts';
import type { LimiterReport, ReplicaReport } from './model/fleet-snapshot.ts';
import { isUnread } from './model/reasons.ts';
import { WriteLedger } from './model/write-ledger.ts';
import { sameStatus } from './reconcile/conditions.ts';
import { noPolicy } from './reconcile/decide.ts';
import { nothingInForce } from './reconcile/rejections.ts';
import { DirectorySource, type DirectorySourceOptions } from './source/directory-source.ts';

export interface DirectoryBackingOptions extends DirectorySourceOptions {
  replica: string;
  listener: BackingListener;
}

/** A directory of manifests and no other replica: this one always leads, and statuses stay in memory. */
export class DirectoryBacking implements Backing {
  readonly source: DirectorySource;
  readonly leads = true;
  readonly controllerName = undefined;
  /** Anyone who has the folder says whose a domain is; there are no RateLimitFleets. */
  readonly policy = noPolicy;
  readonly statusWriter: Backing['statusWriter'];
  readonly #options: DirectoryBackingOptions;
  #limiters: readonly LimiterReport[] = [];

  constructor(options: DirectoryBackingOptions) {
    this.#options = options;
    this.source = new DirectorySource(options);
    this.statusWriter = {
      // The source shows a status at once, and nobody else writes any.
      writes: new WriteLedger({ clock: options.clock, isSame: sameStatus }),
      write: async ({ uid }, status) => {
        this.source.setStatus(uid, status);
        return { is: 'written' };
      },
    };
  }

  get leader(): string {
    return this.#options.replica;
  }

  start(): void {
    this.#options.metrics.all.leader.set(1);
    this.#options.listener.keptChanged(new Map());
    this.#options.listener.startedLeading();
  }

  publish(limiters: readonly LimiterReport[]): void {
    this.#limiters = limiters;
    this.#options.listener.reportsChanged();
  }

  reports(): readonly ReplicaReport[] {
    return [{ replica: this.#options.replica, limiters: this.#limiters }];
  }

  /** There is nobody to read them: the log says the same. */
  recordEvent(): void {}

  /** A reason ends with what is in force, which only limiters know at a start. */
  unread({ outcomes }: Decision): string[] {
    return [...outcomes.values()].flatMap(({ object, accepted, served }) => {
      if (accepted.status || !isUnread(accepted.reason) || served !== undefined) return [];
      const message = accepted.message.replace(new RegExp(`; ${nothingInForce}$`), '');
      if (object.spec instanceof UnreadSpec) return [message];
      return [`${this.source.placeOf(object)}: ${objectKey(object)}: ${message}`];
    });
  }

  /** A restart reads the manifests anew, and serves nothing while some are wrong: see `unread`. */
  keep(): void {}

  decided(): void {}

  async close(): Promise<void> {}
}
