/** Tags of statistics: EXTRA_TAGS, and those that single statistics have. */

/** Tags by key, each key once. Values are unchanged: each sink escapes them for its own format. */
export type Tags = readonly (readonly [key: string, value: string])[];

export const noTags: Tags = [];

// As in `sanitizeMetricKey`, with the dot that would end a segment of the name.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const tagsUnsafe = /[.:|\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

/** Returns tags in the order of their keys, without tags that have no key or value. If a key occurs twice, the later tag stays. */
export function orderedTags(...lists: Tags[]): Tags {
  const byKey = new Map<string, string>();
  for (const tags of lists) {
    for (const [key, value] of tags) {
      if (key !== '' && value !== '') byKey.set(key, value);
    }
  }
  return [...byKey].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** Returns the suffix of a name for statsd: `.__a=1.__b=2`, or nothing. */
export function tagsSuffix(tags: Tags): string {
  return tags.map(([key, value]) => `.__${key}=${value.replace(tagsUnsafe, '_')}`).join('');
}
