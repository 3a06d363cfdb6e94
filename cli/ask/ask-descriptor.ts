import { UsageError } from '../shared/flags.ts';

/** Reads `key=value,key2=value2`, one descriptor. A pair ends its key at the first `=`: `path=/search?q=1` is one. */
export function parseDescriptor(text: string): { entries: { key: string; value: string }[] } {
  const entries = text.split(',').map((pair) => {
    const end = pair.indexOf('=');
    if (end < 1) {
      throw new UsageError(
        `invalid value "${text}" for --descriptors: "${pair}" is not of the form key=value`,
      );
    }
    return { key: pair.slice(0, end), value: pair.slice(end + 1) };
  });
  return { entries };
}
