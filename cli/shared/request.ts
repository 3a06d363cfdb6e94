/** Reads a request as every command spells it: `shop path=/search plan=gold`, with a `+` between descriptors. */
import type { Entry } from '../../rules/model.ts';
import { UsageError } from './flags.ts';

export interface GivenRequest {
  domain: string;
  /** Each descriptor has at least one entry. */
  descriptors: Entry[][];
}

/** Reads a domain, then entries. `command` begins the messages. @throws UsageError */
export function readRequest([domain, ...words]: readonly string[], command: string): GivenRequest {
  if (domain === undefined || domain === '') throw new UsageError(`${command} needs a domain`);
  const descriptors: Entry[][] = [];
  for (let from = 0; from < words.length; ) {
    const plus = words.indexOf('+', from);
    const end = plus === -1 ? words.length : plus;
    if (end === from || end === words.length - 1)
      throw new UsageError('a + separates two descriptors, each of them key=value ...');
    descriptors.push(words.slice(from, end).map(readEntry));
    from = end + 1;
  }
  return { domain, descriptors };
}

/** Reads one descriptor or, without entries, the whole domain. @throws UsageError */
export function readDescriptor(
  words: readonly string[],
  command: string,
): { domain: string; entries: Entry[] } {
  const { domain, descriptors } = readRequest(words, command);
  const [entries = [], another] = descriptors;
  if (another !== undefined) throw new UsageError(`${command} takes one descriptor, without a +`);
  return { domain, entries };
}

/** Reads one entry. The key ends at the first `=`, so `path=/search?q=1` is one entry. @throws UsageError */
export function readEntry(text: string): Entry {
  const end = text.indexOf('=');
  if (end < 1) throw new UsageError(`"${text}" is not of the form key=value`);
  return { key: text.slice(0, end), value: text.slice(end + 1) };
}

/** Formats entries as commands spell them. */
export function entryTexts(entries: readonly Entry[]): string[] {
  return entries.map(({ key, value }) => `${key}=${value}`);
}
