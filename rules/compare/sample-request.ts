import type { Rule } from '../model.ts';
import type { Entry } from '../request.ts';
import type { DomainSide } from './comparison-domain-side.ts';

/** What stands for any value, in samples and so in names of counters and metrics. */
const fillings = ['<any>', '', '<x>', 'a', '0'];

/**
 * Entries that find the last of these rules, each being on the level below the one before; undefined when none of those
 * tried does, so that the rule is hardly ever found.
 */
export function sampleRequest(path: readonly Rule[], side: DomainSide): Entry[] | undefined {
  for (const filling of fillings) {
    const entries = path.map((rule) => entryFor(rule, filling));
    const found = side.walk(entries);
    const isFound = path.every((rule, i) => found[i] === rule);
    if (isFound) return entries;
  }
  return undefined;
}

function entryFor({ key, value }: Rule, filling: string): Entry {
  if (value !== '') return { key: key.replaceAll('*', filling), value: value.replaceAll('*', filling) };
  if (!key.includes('*')) return { key, value: filling };
  // A pattern without a value is compared with key and value joined.
  const [first = '', ...rest] = key.split('_');
  const fill = (text: string) => text.replaceAll('*', filling);
  return { key: fill(first), value: fill(rest.join('_')) };
}
