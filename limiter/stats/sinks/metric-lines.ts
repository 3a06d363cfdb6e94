/** What a metric is called on the wire: what stands before its value, and what stands behind it. Reference section 8.3. */

import type { Mogrifiers } from './mogrifier.ts';
import type { Tags } from './tags.ts';

export interface LineParts {
  /** `name:` */
  before: string;
  /** `|c|#key:value,key2:value2` */
  after: string;
}

export type WireType = 'c' | 'g' | 'ms';

// A comma would begin a tag, the others end a name, a value or a line.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const unsafeInTags = /[,|\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: likewise
const unsafeInNames = /[:|\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

/** The tags of the metric come first, EXTRA_TAGS among them, those of the mogrifier behind them. */
export function lineParts(plainName: string, tags: Tags, type: WireType, mogrifiers: Mogrifiers): LineParts {
  const mogrified = mogrifiers.apply(plainName);
  const all = [...tags, ...mogrified.tags].map(([key, value]) => `${inTag(key)}:${inTag(value)}`);
  const tagText = all.length === 0 ? '' : `|#${all.join(',')}`;
  return { before: `${mogrified.name.replace(unsafeInNames, '_')}:`, after: `|${type}${tagText}` };
}

/** A key or value of a tag, made safe. */
export function inTag(text: string): string {
  return text.replace(unsafeInTags, '_');
}
