import { loadAll, YAMLException } from 'js-yaml';
import { kubectlSchema } from './kubectl-schema.ts';

/** A document's value; `empty` when it holds nothing but comments. */
export type YamlDocument =
  | { ok: true; value: unknown }
  | { ok: false; empty: true }
  | { ok: false; empty: false; text: string; line: number; column: number };

/** Reads the text of one document. Lines and columns count from 1. Never throws. */
export function readYamlDocument(text: string): YamlDocument {
  let values: unknown[];
  try {
    values = loadAll(text, { schema: kubectlSchema });
  } catch (error) {
    if (!(error instanceof YAMLException)) return unreadable(`yaml: ${error}`);
    return unreadable(`yaml: ${error.reason}`, error.mark);
  }
  const [value = null, ...others] = values;
  if (others.length > 0) return unreadable("documents must be separated by a line of '---'");
  if (value === null) return { ok: false, empty: true };
  if (!isExpansionBounded(value, 10 * text.length + 10_000)) {
    return unreadable('aliases make the document more than ten times as large as it is written');
  }
  return { ok: true, value };
}

function unreadable(
  text: string,
  mark: { line: number; column: number } = { line: 0, column: 0 },
): YamlDocument {
  return { ok: false, empty: false, text, line: mark.line + 1, column: mark.column + 1 };
}

/** Whether there are at most `limit` values when each alias counts as what it stands for. */
function isExpansionBounded(value: unknown, limit: number): boolean {
  const open: unknown[] = [value];
  for (let count = 0; count < limit; count++) {
    const next = open.pop();
    if (typeof next === 'object' && next !== null) {
      for (const member of Object.values(next)) open.push(member);
      if (open.length > limit) return false;
    }
    if (open.length === 0) return true;
  }
  return false;
}
