/** Callers' values can be as long as a request: longer texts are held as their beginning and a fingerprint. */
import { hash } from 'node:crypto';

/** Ours: room for a path or a token; a key of the limiter then occupies 1 KiB at most. */
export const longestText = 512;
const shownOfLonger = 448;

/** The text itself, or one of at most `longestText` characters that no other text has. */
export function boundedText(text: string): string {
  if (text.length <= longestText) return text;
  const fingerprint = hash('sha256', text).slice(0, 16);
  // A copy: a part of a text would keep the whole of it in memory.
  const head = Buffer.from(text.slice(0, shownOfLonger)).toString();
  return `${head}...(${text.length} characters, ${fingerprint})`;
}
