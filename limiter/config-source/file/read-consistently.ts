import { readlinkSync, realpathSync } from 'node:fs';
import { join } from 'node:path';

import type { FileLayout } from './file-layout.ts';
import { fileProblem } from './file-problem.ts';
import { type FileListing, listRuleFiles } from './list-files.ts';
import { type FileContents, readFiles } from './read-files.ts';

export interface RuleDirectory {
  listing: FileListing;
  contents: FileContents;
}

/** We chose it: swaps come minutes apart, and each of them is followed by a load of its own. */
const maxAttempts = 3;

/**
 * Lists and reads the rule files as one version: half of one must never be in force. A root that is a link is followed
 * once, so that a swap changes nothing under way; a swap of a Kubernetes volume's `..data`, or a file that was listed
 * and is gone, begins it again.
 */
export function readConsistently(layout: FileLayout, maxBytes: number): RuleDirectory {
  for (let attempt = 1; ; attempt++) {
    const directory = textOr(layout.readDirectory, () => realpathSync(layout.readDirectory));
    const volumeVersion = (): string => textOr('', () => readlinkSync(join(directory, '..data')));
    const before = volumeVersion();
    const listing = listRuleFiles(layout, directory);
    const contents = readFiles(listing.files, maxBytes);
    if (contents.gone.length === 0 && volumeVersion() === before) return { listing, contents };
    if (attempt < maxAttempts) continue;
    const text = `changed while it was read, ${maxAttempts} times in a row`;
    contents.errors.push(fileProblem('unreadable', contents.gone[0] ?? layout.readDirectory, text));
    return { listing, contents };
  }
}

/** A link that is not there leads nowhere else; listing says what is wrong. */
function textOr(otherwise: string, read: () => string): string {
  try {
    return read();
  } catch {
    return otherwise;
  }
}
