import { UsageError } from './flags.ts';

/** Reads `key=value,key2=value2`, one descriptor; every pair has exactly one `=`, as the Go client has it. */
export function parseDescriptor(text: string): { entries: { key: string; value: string }[] } {
  const entries = text.split(',').map((pair) => {
    const parts = pair.split('=');
    const [key, value] = parts;
    if (parts.length !== 2 || key === undefined || value === undefined || key === '') {
      throw new UsageError(
        `invalid value "${text}" for --descriptors: "${pair}" is not of the form key=value`,
      );
    }
    return { key, value };
  });
  return { entries };
}
