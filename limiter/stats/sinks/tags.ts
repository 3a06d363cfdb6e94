/** Tags of statistics: EXTRA_TAGS, and those that a few statistics have of their own. Reference section 8.2. */

/** By key, no key twice. Values are as they were given: each sink makes them safe for its own format. */
export type Tags = readonly (readonly [key: string, value: string])[];

export const noTags: Tags = [];

// As in `metric-name.ts`, with the dot that would end a segment of the name.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const unsafe = /[.:|\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

/** In order of their keys, those without key or value left out; of two with one key the later one stays. */
export function orderedTags(...lists: Tags[]): Tags {
  const byKey = new Map<string, string>();
  for (const tags of lists) {
    for (const [key, value] of tags) {
      if (key !== '' && value !== '') byKey.set(key, value);
    }
  }
  return [...byKey].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** What stands behind a name for statsd: `.__a=1.__b=2`, or nothing. */
export function tagsSuffix(tags: Tags): string {
  return tags.map(([key, value]) => `.__${key}=${value.replace(unsafe, '_')}`).join('');
}
