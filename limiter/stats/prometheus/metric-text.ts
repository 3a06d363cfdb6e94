/** Names, labels and values in the text format 0.0.4. */

/**
 * Turns a statistic's name into the name of a metric. Characters other than letters, digits and `_` become `_`, several dashes in a row
 * become one, and a leading digit gets a `_` before it.
 */
export function metricName(name: string): string {
  const escaped = name.replace(/-+/g, '-').replace(/[^A-Za-z0-9_]/gu, '_');
  return /^[0-9]/.test(escaped) ? `_${escaped}` : escaped;
}

/** Returns `a="1",b="2"`, sorted by name; empty without labels. */
export function labelText(labels: ReadonlyMap<string, string>): string {
  return [...labels]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}="${escapedValue(value)}"`)
    .join(',');
}

export function helpText(help: string): string {
  return help.replace(/\\/g, '\\\\').replace(/\n/g, '\\n');
}

export function valueText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf';
  if (value === Number.NEGATIVE_INFINITY) return '-Inf';
  return String(value);
}

function escapedValue(value: string): string {
  return value.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n').toWellFormed();
}
