/** Builds the key of a counter in the store, and the metric key of a limit that comes with a request. */
import { type CounterKeys, countedEntry, EntryMark, unambiguousStem } from '../../rules/counter-keys.ts';
import { countedEntries, countedText, shownEntries, shownText } from '../../rules/long-text.ts';
import { defaultNames, type NameForm } from '../../rules/match-result.ts';
import type { Entry } from '../../rules/model.ts';
import type { Window } from './windows.ts';

/** Returns the key of a counter. `stem`: prefix, domain and entries, as `stemOfValues` or the matcher wrote them. */
export function counterKey(stem: string, window: Window): string {
  return stem + window.keySuffix;
}

/** The stem of a key in which every entry counts with its value: no rule has a pattern in place of it. */
export function stemOfValues(
  form: CounterKeys,
  domain: string,
  entries: readonly Entry[],
  maxTextBytes: number,
): string {
  const name = countedText(domain, maxTextBytes);
  let text = form === 'compatible' ? `${name}_` : '';
  for (const { key, value } of countedEntries(entries, maxTextBytes)) {
    text += form === 'compatible' ? `${key}_${value}_` : countedEntry(key, EntryMark.value, value);
  }
  return form === 'compatible' ? text : unambiguousStem(name, text);
}

/** Returns the metric key of a limit in the request. `_` occurs only before a value. */
export function overrideMetricKey(
  domain: string,
  entries: readonly Entry[],
  { sanitizeDescriptorMetricDots: undotted, maxTextBytes }: NameForm = defaultNames,
): string {
  const segments = shownEntries(entries, maxTextBytes).map(({ key, value }) => {
    const segment = value === '' ? key : `${key}_${value}`;
    return undotted ? segment.replaceAll('.', '_') : segment;
  });
  return `${shownText(domain, maxTextBytes)}.${segments.join('.')}`;
}
