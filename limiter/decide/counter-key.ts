/** Names of counters in a store: the Go service's, so that both can count side by side. Reference section 3.3. */
import type { Entry } from '../../rules/request.ts';
import type { Window } from './windows.ts';

/** `stem`: prefix, domain and entries, as `overrideStem` or the matcher wrote them. */
export function counterKey(stem: string, window: Window): string {
  return stem + window.keySuffix;
}

/** The stem where a limit comes with the request: no rule, hence no pattern in place of a value. */
export function overrideStem(domain: string, entries: readonly Entry[]): string {
  let stem = `${domain}_`;
  for (const { key, value } of entries) stem += `${key}_${value}_`;
  return stem;
}

/**
 * The metric key where a limit comes with the request; `_` only before a value. Reference section 3.1, step 2.
 * `undotted`: dots of keys and values become `_`.
 */
export function overrideMetricKey(domain: string, entries: readonly Entry[], undotted = false): string {
  const segments = entries.map(({ key, value }) => {
    const segment = value === '' ? key : `${key}_${value}`;
    return undotted ? segment.replaceAll('.', '_') : segment;
  });
  return `${domain}.${segments.join('.')}`;
}
