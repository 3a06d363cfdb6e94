/** Names of counters with their window, and of the metrics of limits that come with a request. */
import type { Entry } from '../../rules/request.ts';
import type { Window } from './windows.ts';

/** `stem`: prefix, domain and entries, as `stemOfValues` or the matcher wrote them. */
export function counterKey(stem: string, window: Window): string {
  return stem + window.keySuffix;
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
