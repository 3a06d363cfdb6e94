import { type BigIntStats, lstatSync, readlinkSync, statSync } from 'node:fs';

/**
 * Tells two files at one path apart. The time of birth is part of it because file systems give the number of a
 * removed inode to the next file at once.
 */
export type FileIdentity = string;

/** Of what the path leads to, symbolic links followed. Throws when there is nothing. */
export function targetIdentity(path: string): FileIdentity {
  return identity(statSync(path, { bigint: true }));
}

/** Of the path itself, and where it leads for a symbolic link; undefined when there is nothing to be seen. */
export function entryIdentity(path: string): FileIdentity | undefined {
  try {
    const stats = lstatSync(path, { bigint: true });
    return stats.isSymbolicLink() ? `${identity(stats)} ${readlinkSync(path)}` : identity(stats);
  } catch {
    return undefined;
  }
}

export function identity(stats: BigIntStats): FileIdentity {
  return `${stats.dev}:${stats.ino}:${stats.birthtimeNs}`;
}
