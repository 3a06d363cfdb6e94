import { hash } from 'node:crypto';

/** Chosen: room for a path or a token; a key of the limiter then occupies 1 KiB at most. */
export const longestText = 512;
/** The characters for the end of a shortened text: the length of the whole text and its fingerprint. */
const markCharacters = 64;

/**
 * Callers' values can be as long as a request: longer texts are held as their beginning and a fingerprint. The text itself,
 * or one of at most `longest` characters that no other text has.
 */
export function boundedText(text: string, longest = longestText): string {
  if (text.length <= longest) return text;
  const fingerprint = hash('sha256', text).slice(0, 16);
  // A copy: a part of a text would keep the whole of it in memory.
  const head = Buffer.from(text.slice(0, longest - markCharacters)).toString();
  return `${head}...(${text.length} characters, ${fingerprint})`;
}
