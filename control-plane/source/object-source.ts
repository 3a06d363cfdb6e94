import type { ConfigObject } from '../model/config-object.ts';

/** Where RateLimitConfigs come from. */
export interface ObjectSource {
  /** Throws when the place cannot be watched at all; a server that is away is an outage instead. */
  start(listener: SourceListener): void | Promise<void>;
  /** As last known, in no order; empty before the first complete list. */
  objects(): readonly ConfigObject[];
  /** Settles when nothing of it runs any more; the listener is not called after that. */
  close(): Promise<void>;
}

export interface SourceListener {
  /** The first complete list is in: from now on what is missing is not there. Comes once. */
  listed(): void;
  /** `objects` may have changed. Comes only after `listed`, maybe several times for one change. */
  changed(): void;
  /** The objects may be out of date from now on. Comes once an outage, and again when its reason is another one. */
  unreachable(reason: string): void;
  reachable(): void;
  /** `namespace/name` and why it cannot be read; what was read of it before stays. */
  skipped(object: string, reason: string): void;
  /** `limits.yaml:12:3` and what is wrong there, once for each time that the file changes. Directories only. */
  problem(place: string, text: string): void;
}
