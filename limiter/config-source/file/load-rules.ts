import { readFileSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { FileBoundError, readBoundedFile } from '../../../process/files/bounded-file.ts';
import { isSystemError, systemErrorCode, systemErrorReason } from '../../../process/log/error-text.ts';
import { isTestFile, looksLikeRules, readRuleFiles } from '../../../rules/reader/read-rule-files.ts';
import { unreadDocuments } from '../../../rules/reader/read-rule-texts.ts';
import type { ReviewedLoad, ReviewOptions } from '../../../rules/review/reviewed-load.ts';
import type { RuleError } from '../../../rules/rule-error.ts';
import { compileRules } from '../../../rules/table/compile-rules.ts';
import type { CheckOptions } from '../../../rules/validate-sources.ts';
import { type LoadOutcome, type MadeLoad, unplacedError } from '../config-source.ts';
import type { FileLayout } from './list-files.ts';
import { type FileListing, type ListedFile, listRuleFiles } from './list-files.ts';

/** Chosen: rule files by another name are few and small, and what stands beside rules may be anything. */
const maxBytes = 1024 * 1024;
const maxFiles = 1_000;

/** Warnings of files that nobody reads because of their names, and that hold rules: the Go service reads every file. */
export function passedOverRules(others: ReadonlyMap<string, string>, extensions: string): RuleError[] {
  return [...others].slice(0, maxFiles).flatMap(([name, path]): RuleError[] => {
    if (!holdsRules(path)) return [];
    const text = `holds rules and is not read: only ${extensions} are rule files`;
    return [unplacedError('passed-over', name, text)];
  });
}

/** False for what cannot be read: it is not ours. */
function holdsRules(path: string): boolean {
  try {
    return statSync(path).size <= maxBytes && looksLikeRules(readFileSync(path));
  } catch {
    return false;
  }
}

interface FileContents {
  files: { name: string; text: Uint8Array }[];
  errors: RuleError[];
  /** Names of files that were listed and are not there any more. */
  gone: string[];
}

/** Reads at most `maxBytes` in all, and passes over tests of rules. A file that cannot be read is an error: its rules must not vanish silently. */
export function readFiles(listed: readonly ListedFile[], maxBytes: number): FileContents {
  const contents: FileContents = { files: [], errors: [], gone: [] };
  let bytes = 0;
  for (const { name, path, bytes: size } of listed) {
    if (bytes + size > maxBytes) {
      const text = `the rule files up to this one hold ${bytes + size} bytes, the bound is ${maxBytes}`;
      contents.errors.push(unplacedError('too-large', name, text));
      return contents;
    }
    try {
      const text = readBoundedFile(path, { mostBytes: maxBytes - bytes });
      bytes += text.length;
      if (!isTestFile(path, text)) contents.files.push({ name, text });
    } catch (error) {
      if (error instanceof FileBoundError) {
        contents.errors.push(unplacedError('unreadable', name, error.message));
        continue;
      }
      if (!isSystemError(error)) throw error;
      if (systemErrorCode(error) === 'ENOENT') contents.gone.push(name);
      else contents.errors.push(unplacedError('unreadable', name, systemErrorReason(error)));
    }
  }
  return contents;
}

export interface RuleDirectory {
  listing: FileListing;
  contents: FileContents;
}

/** Chosen: swaps come minutes apart, and each of them is followed by a load of its own. */
const maxAttempts = 3;

/**
 * Lists and reads the rule files as one version: half of one must never be in force. A root that is a link is followed
 * once, so that a swap changes nothing under way; a swap of a Kubernetes volume's `..data`, or a file that was listed
 * and is gone, begins it again.
 */
function readConsistently(layout: FileLayout, maxBytes: number): RuleDirectory {
  for (let attempt = 1; ; attempt++) {
    const directory = textOr(layout.readDirectory, () => realpathSync(layout.readDirectory));
    const volumeVersion = (): string => textOr('', () => readlinkSync(join(directory, '..data')));
    const before = volumeVersion();
    const listing = listRuleFiles(layout, directory);
    const contents = readFiles(listing.files, maxBytes);
    if (contents.gone.length === 0 && volumeVersion() === before) return { listing, contents };
    if (attempt < maxAttempts) continue;
    const text = `changed while it was read, ${maxAttempts} times in a row`;
    contents.errors.push(unplacedError('unreadable', contents.gone[0] ?? layout.readDirectory, text));
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

/** What one load needs to know. Plain data: it goes to the loading thread. */
export interface LoadRequest extends ReviewOptions, CheckOptions {
  layout: FileLayout;
  /** Of all rule files together. */
  maxBytes: number;
}

/** From the paths to the bytes of a RuleTable. Blocks; run where nobody waits for answers. */
export function loadRules({
  layout,
  mergeDomains,
  support,
  maxBytes,
}: Omit<LoadRequest, keyof ReviewOptions>): MadeLoad<LoadOutcome> {
  const { listing, contents } = readConsistently(layout, maxBytes);
  const fileErrors = [...listing.errors, ...contents.errors];
  if (fileErrors.some((error) => error.code === 'too-large')) {
    return failed(fileErrors, fileErrors.length);
  }
  const { sources, places, errors, errorCount, warnings } = readRuleFiles(contents.files, {
    mergeDomains,
    support,
  });
  const total = fileErrors.length + errorCount;
  if (total > 0) return failed([...fileErrors, ...errors], total);
  const reviewed = (): ReviewedLoad => ({
    sources: sources.map((source) => ({ source, file: source.name, placeOf: places.get(source)! })),
    warnings: [
      ...listing.warnings,
      ...passedOverRules(listing.others, '*.yaml and *.yml'),
      ...warnings,
      ...contents.files.flatMap(({ name, text }) => unreadDocuments({ path: name, text })),
    ],
  });
  const bytes = compileRules(sources);
  return { outcome: { ok: true, bytes, domains: undefined, sources: sources.length }, reviewed };
}

function failed(errors: RuleError[], total: number): MadeLoad<LoadOutcome> {
  return { outcome: { ok: false, errors, total }, reviewed: undefined };
}
