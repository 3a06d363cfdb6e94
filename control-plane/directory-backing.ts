import type { Backing } from './backing.ts';
import type { ConfigObject, ConfigStatus } from './model/config-object.ts';
import { noVersions } from './model/object-versions.ts';
import { noPolicy } from './reconcile/decide.ts';
import { DirectorySource, type DirectorySourceOptions } from './source/directory-source.ts';
import type { UpdateWorld } from './world.ts';

export interface DirectoryBackingOptions extends DirectorySourceOptions {
  replica: string;
  learn: UpdateWorld;
}

/** A directory of manifests without other replicas: this replica always leads, and statuses are only in memory. */
export class DirectoryBacking implements Backing {
  readonly source: DirectorySource;
  readonly controllerName = undefined;
  readonly statusWriter: Backing['statusWriter'];
  readonly replicas: Backing['replicas'];
  /** Nothing reads events here; the log has the same information. */
  readonly events = { record: () => {} };
  readonly #options: DirectoryBackingOptions;

  constructor(options: DirectoryBackingOptions) {
    this.#options = options;
    this.source = new DirectorySource(options);
    this.statusWriter = {
      // The source shows a status at once, and there is no other writer. There are no fleets.
      write: async ({ object, status }) => {
        this.source.setStatus(object.uid, status as ConfigStatus);
        return { is: 'written' };
      },
    };
    const { learn, replica } = options;
    this.replicas = {
      leads: true,
      leader: replica,
      publish: (limiters) => learn({ reports: [{ replica, limiters }] }),
      confirm: (then) => then(),
    };
  }

  start(): void {
    this.#options.metrics.all.leader.set(1);
    // The owner of the folder decides about domains. There are no RateLimitFleets.
    this.#options.learn({ policy: noPolicy, acceptedSpecs: new Map(), leads: true });
    this.replicas.publish([], noVersions);
  }

  placeOf(object: ConfigObject): string | undefined {
    return this.source.placeOf(object);
  }

  /** After a restart, the control plane reads the manifests again, and serves nothing while some are invalid: see `placeOf`. */
  share(): void {}

  async close(): Promise<void> {}
}
