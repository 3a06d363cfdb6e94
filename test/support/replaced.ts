import { expect } from 'vitest';

/** Every text is there, and is replaced wherever it is. */
export function replaced(text: string, replacements: Record<string, string>): string {
  return Object.entries(replacements).reduce((result, [from, to]) => {
    expect(result).toContain(from);
    return result.replaceAll(from, to);
  }, text);
}
