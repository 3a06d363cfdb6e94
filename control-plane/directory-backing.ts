import type { Backing } from './backing.ts';
import { objectKey, UnreadSpec } from './model/config-object.ts';
import type { Decision } from './model/decision.ts';
import type { LimiterReport } from './model/fleet-snapshot.ts';
import { isUnread } from './model/reasons.ts';
import { WriteLedger } from './model/write-ledger.ts';
import { sameStatus } from './reconcile/conditions.ts';
import { noPolicy } from './reconcile/decide.ts';
import { nothingInForce } from './reconcile/rejections.ts';
import { DirectorySource, type DirectorySourceOptions } from './source/directory-source.ts';
import type { Learn } from './world.ts';

export interface DirectoryBackingOptions extends DirectorySourceOptions {
  replica: string;
  learn: Learn;
}

/** A directory of manifests and no other replica: this one always leads, and statuses stay in memory. */
export class DirectoryBacking implements Backing {
  readonly source: DirectorySource;
  readonly leads = true;
  readonly controllerName = undefined;
  readonly statusWriter: Backing['statusWriter'];
  readonly #options: DirectoryBackingOptions;

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
    // Anyone who has the folder says whose a domain is. There are no RateLimitFleets.
    this.#options.learn({ policy: noPolicy, kept: new Map(), leads: true });
    this.publish([]);
  }

  publish(limiters: readonly LimiterReport[]): void {
    const { learn, replica } = this.#options;
    learn({ reports: [{ replica, limiters }] });
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
  share(): void {}

  async close(): Promise<void> {}
}
