/** Texts of callers that a capability remembers. */
import { hash } from 'node:crypto';

/** Chosen: room for a path or a token. A key of the limiter then occupies at most 1 KiB. */
const longestText = 512;
/** The characters for the end of a shortened text: the length of the whole text and its fingerprint. */
const markCharacters = 64;

/**
 * Returns the text, or a text of at most `longest` characters that no other text has: its beginning and a fingerprint. Callers'
 * values can be as long as a request.
 */
export function boundedText(text: string, longest = longestText): string {
  if (text.length <= longest) return text;
  const fingerprint = hash('sha256', text).slice(0, 16);
  // Copies the beginning: a slice would keep the whole text in memory.
  const head = Buffer.from(text.slice(0, longest - markCharacters)).toString();
  return `${head}...(${text.length} characters, ${fingerprint})`;
}
