/** Reads rules from a path, text or objects, as a limiter reads its rule files. */
import { readFileSync, statSync } from 'node:fs';
import { basename } from 'node:path';
import { fileLayout } from '../../limiter/config-source/file/change-watch.ts';
import { loadRules } from '../../limiter/config-source/file/load-rules.ts';
import { ruleSupport } from '../../limiter/settings/rule-support.ts';
import type { LimiterSettings } from '../../limiter/settings/settings.ts';
import { errorText, systemErrorReason } from '../../process/log/error-text.ts';
import type { RuleSource } from '../../rules/model.ts';
import { readRuleFiles } from '../../rules/reader/read-rule-files.ts';
import { withoutRules } from '../../rules/review/review-sources.ts';
import { formatRuleError, type RuleError } from '../../rules/rule-error.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import type { Rules } from './api.ts';

export type ReadRulesResult =
  | { readonly table: RuleTable; readonly warnings: readonly string[] }
  | { readonly errors: readonly string[] };

/** Chosen: a bound for a mistaken path. */
const maxBytes = 256 * 1024 * 1024;

interface NamedText {
  name: string;
  text: string | Uint8Array;
}

export function readRules(rules: Rules, settings: LimiterSettings): ReadRulesResult {
  const options = { mergeDomains: false, support: ruleSupport(settings) };
  if (typeof rules === 'string' && rules.trim() === '') return { errors: ['rules: the text is empty'] };
  const texts = typeof rules === 'string' && !isText(rules) ? textAt(rules) : textsOf(rules);
  if ('folder' in texts) {
    const [root, subdirectory, appDirectory] = [texts.folder, '', ''];
    const layout = fileLayout({ root, subdirectory, appDirectory, ignoreDotFiles: true, watchRoot: false });
    const { outcome, reviewed } = loadRules({ layout, maxBytes, ...options });
    if (!outcome.ok) return { errors: outcome.errors.map(formatRuleError) };
    const table = new RuleTable(outcome.bytes);
    // The folder may be half written, or the wrong one. Without rules, nothing would be limited.
    if (table.domainNames().length === 0)
      return { errors: [`${texts.folder}: the folder has no rule files`] };
    const { sources = [], warnings = [] } = reviewed?.() ?? {};
    const read = sources.map(({ source }) => source);
    return { table, warnings: warningsOf(read, warnings) };
  }
  if ('errors' in texts) return texts;
  const { sources, errors, warnings } = readRuleFiles(texts.files, options);
  if (errors.length > 0) return { errors: errors.map(formatRuleError) };
  return { table: new RuleTable(compileRules(sources)), warnings: warningsOf(sources, warnings) };
}

/** A domain without descriptors is accepted, as by the Go service, and limits nothing. */
function warningsOf(sources: readonly RuleSource[], warnings: readonly RuleError[]): string[] {
  const idle = sources.flatMap((source, index) =>
    withoutRules(source, index).map(({ text }) => `${source.name}: ${text}`),
  );
  return [...warnings.map(formatRuleError), ...idle];
}

/** Returns whether `rules` is the text of a rule file: it has several lines, or begins with a brace. Anything else is a path. */
function isText(rules: string): boolean {
  return /^\s*\{|\n/.test(rules);
}

function textsOf(rules: Rules): { files: NamedText[] } | { errors: string[] } {
  if (typeof rules === 'string') return { files: [{ name: 'rules', text: rules }] };
  const given: unknown[] = Array.isArray(rules) ? rules : [rules];
  if (given.length === 0) return { errors: ['rules: the list is empty'] };
  const [files, errors]: [NamedText[], string[]] = [[], []];
  for (const [index, file] of given.entries()) {
    const name = given.length === 1 ? 'rules' : `rules[${index}]`;
    if (typeof file !== 'object' || file === null)
      errors.push(
        `${name}: expected a path, the text of a rule file or an object, not ${file === null ? 'null' : typeof file}`,
      );
    else
      try {
        // JSON is YAML. An object with a method `toJSON` may have none.
        files.push({ name, text: JSON.stringify(file) ?? 'null' });
      } catch (error) {
        errors.push(`${name}: ${errorText(error)}`);
      }
  }
  return errors.length > 0 ? { errors } : { files };
}

function textAt(path: string): { files: NamedText[] } | { folder: string } | { errors: string[] } {
  try {
    if (statSync(path).isDirectory()) return { folder: path };
    return { files: [{ name: basename(path), text: readFileSync(path) }] };
  } catch (error) {
    return { errors: [`${path}: ${systemErrorReason(error)}`] };
  }
}
