import { formatRuleError } from '../../rules/rule-error.ts';
import type { RuleInput } from './read-input.ts';

/** How many errors a command shows whose business is not checking. */
const shown = 10;

/** Prints on standard error why the rules cannot be used; returns whether there is anything wrong. */
export function printInputErrors({ path, errors, errorCount, sources }: RuleInput): boolean {
  if (errorCount === 0 && sources.length > 0) return false;
  if (errorCount === 0) process.stderr.write(`weir: ${path}: holds no rules\n`);
  for (const error of errors.slice(0, shown)) process.stderr.write(`weir: ${formatRuleError(error)}\n`);
  if (errorCount > shown)
    process.stderr.write(`... and ${errorCount - shown} more; "weir check" shows all\n`);
  return true;
}
