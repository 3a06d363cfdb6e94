import { readFileSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { FileBoundError, readBoundedFile } from '../../../process/files/bounded-file.ts';
import { isSystemError, systemErrorCode, systemErrorReason } from '../../../process/log/error-text.ts';
import { isTestFile, looksLikeRules, readRuleFiles } from '../../../rules/reader/read-rule-files.ts';
import type { RuleError } from '../../../rules/rule-error.ts';
import { compileRules } from '../../../rules/table/compile-rules.ts';
import type { SourceCheckOptions } from '../../../rules/validate-sources.ts';
import { type LoadOutcome, type MadeLoad, unplacedError } from '../config-source.ts';
import type { ReviewedLoad, ReviewOptions } from '../load-review.ts';
import { type FileLayout, type FileListing, type ListedFile, listRuleFiles } from './list-files.ts';

/** Chosen: rule files with another extension are few and small, and any other file may be in the same directory. */
const maxBytes = 1024 * 1024;
const maxFiles = 1_000;

/** Warns of files that hold rules and are not read because of their names. The Go service reads every file. */
export function passedOverRules(others: ReadonlyMap<string, string>, extensions: string): RuleError[] {
  return [...others].slice(0, maxFiles).flatMap(([name, path]): RuleError[] => {
    if (!holdsRules(path)) return [];
    const text = `has rules but is not read: only ${extensions} are rule files`;
    return [unplacedError('ignored-file', name, text)];
  });
}

/** Returns false if the file cannot be read. */
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
  /** Names of files that were listed and no longer exist. */
  gone: string[];
}

/**
 * Reads at most `maxBytes` in total and skips tests of rules. A file that cannot be read is an error, because its rules must not vanish
 * silently.
 */
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
      const text = readBoundedFile(path, { maxBytes: maxBytes - bytes });
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

/** Chosen: swaps are minutes apart, and a new load follows each of them. */
const maxAttempts = 3;

/**
 * Lists and reads the rule files as one version, so that files of two versions are never in force together. If the root is a link, it
 * is followed once, so that a swap does not affect this load. The load starts again after a swap of a Kubernetes volume's
 * `..data`, or if a listed file has gone.
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

/** Returns `otherwise` if `read` throws. A link to a missing target leads nowhere else, and listing the files reports the error. */
function textOr(otherwise: string, read: () => string): string {
  try {
    return read();
  } catch {
    return otherwise;
  }
}

/** The request for one load, as plain data for the thread. */
export interface LoadRequest extends ReviewOptions, SourceCheckOptions {
  layout: FileLayout;
  /** The maximum size of all rule files together. */
  maxBytes: number;
}

/** Reads the files and compiles the bytes of a RuleTable. It blocks, so it runs in a thread that answers no calls. */
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
  const read = readRuleFiles(contents.files, { mergeDomains, support });
  const { sources, located, errors, errorCount, warnings } = read;
  const total = fileErrors.length + errorCount;
  if (total > 0) return failed([...fileErrors, ...errors], total);
  const reviewed = (): ReviewedLoad => ({
    sources: located,
    warnings: [...listing.warnings, ...passedOverRules(listing.others, '*.yaml and *.yml'), ...warnings],
  });
  const bytes = compileRules(sources);
  return { outcome: { ok: true, bytes, domains: undefined, sources: sources.length }, reviewed };
}

function failed(errors: RuleError[], total: number): MadeLoad<LoadOutcome> {
  return { outcome: { ok: false, errors, total }, reviewed: undefined };
}
