import type { ConfigStatus } from './config-status.ts';

/** A RateLimitConfig as its source has it. Never changed: a change of the object is a new value. */
export interface ConfigObject {
  namespace: string;
  name: string;
  /** The same for one object from its creation to its deletion. */
  uid: string;
  /** Grows with every change of `spec`. */
  generation: number;
  /** Milliseconds since 1970; 0 where the source has no such time. */
  createdMs: number;
  /** When somebody last changed anything but the status; undefined where the source has no such time. */
  editedMs?: number;
  /** As it was read, unchecked. */
  spec: unknown;
  /** What the leader wrote last, as far as it can be read; undefined before the first time. */
  status: ConfigStatus | undefined;
}

/** `namespace/name`: how messages, resources and reports name an object. */
export function objectKey({ namespace, name }: Pick<ConfigObject, 'namespace' | 'name'>): string {
  return `${namespace}/${name}`;
}

/** Older objects first: by creation, then namespace, then name. */
export function byAge(a: ConfigObject, b: ConfigObject): number {
  return a.createdMs - b.createdMs || compare(a.namespace, b.namespace) || compare(a.name, b.name);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
