/**
 * Texts of a request that are longer than REQUEST_MAX_TEXT_BYTES. Rules match the whole text. Its beginning and a hash identify
 * the counter. People see a still shorter text. All code that finds a counter from a value calls this file. Apply `countedText`
 * once: the identity of an identity is another one.
 */
import { hash } from 'node:crypto';
import type { Entry } from './model.ts';

/** The default of REQUEST_MAX_TEXT_BYTES. */
export const defaultTextBytes = 16 * 1024;

/** The text between the beginning of a long text and 64 hexadecimal digits. */
const mark = '~sha256:';
/** Chosen: the bytes of a long text, and the digits of its hash, that metrics, logs and lists show. */
const shownBytes = 64;
const shownDigits = 8;
const digits = 64;

/** Returns whether the text is longer. A UTF-16 unit takes at most three bytes, so the length alone decides about most texts. */
export function isLongText(text: string, maxBytes: number): boolean {
  return text.length * 3 > maxBytes && Buffer.byteLength(text) > maxBytes;
}

/**
 * Returns the identity of a text: the text itself, or for a longer one the first `maxBytes` bytes, cut at a character,
 * `~sha256:`, and the SHA-256 of the whole, in UTF-8 with U+FFFD for invalid characters. That is longer than `maxBytes`, so no
 * shorter text can equal it.
 */
export function countedText(text: string, maxBytes: number): string {
  return isLongText(text, maxBytes) ? `${beginning(text, maxBytes)}${mark}${hash('sha256', text)}` : text;
}

/** The same of keys and values; the entries themselves where none is longer, as nearly always. */
export function countedEntries(entries: readonly Entry[], maxBytes: number): readonly Entry[] {
  return withTexts(entries, maxBytes, countedText);
}

/**
 * Returns what metrics, logs and lists show of a text: the text itself, or for a longer one 64 bytes, `~` and 8 digits of its
 * hash.
 */
export function shownText(text: string, maxBytes: number): string {
  if (!isLongText(text, maxBytes)) return text;
  return `${beginning(text, shownBytes)}~${hash('sha256', text).slice(0, shownDigits)}`;
}

/** The same of keys and values; the entries themselves where none is longer. */
export function shownEntries(entries: readonly Entry[], maxBytes: number): readonly Entry[] {
  return withTexts(entries, maxBytes, shownText);
}

/** Returns the shown beginning of a longer text and the hash of the whole text. Undefined for any other text. */
export function longTextPart(text: string, maxBytes: number): { text: string; sha256: string } | undefined {
  if (!isLongText(text, maxBytes)) return undefined;
  return { text: beginning(text, shownBytes), sha256: hash('sha256', text) };
}

/** The replacement of a long text in a key that does not mark where its parts end. */
export interface FoundLongText {
  /** The position in the key where the text begins, and where it ends. */
  readonly start: number;
  readonly end: number;
  /** The first bytes of the text, as many as its identity has. */
  readonly head: string;
  readonly sha256: string;
}

/** The identities of long texts in a key, each behind a `_`. */
export function longTextsIn(key: string, maxBytes: number): FoundLongText[] {
  const found: FoundLongText[] = [];
  if (key.length < mark.length + digits || !key.includes(mark)) return found;
  for (const { 0: whole, 1: sha256 = '', index } of key.matchAll(/~sha256:([0-9a-f]{64})/g)) {
    const before = Buffer.from(key.slice(0, index));
    // A character takes up to four bytes, and must not be cut.
    for (let start = before.length - maxBytes; start <= before.length - maxBytes + 3; start++) {
      if (start < 1 || before[start - 1] !== 0x5f) continue;
      const head = before.toString('utf8', start);
      found.push({ start: index - head.length, end: index + whole.length, head, sha256 });
      break;
    }
  }
  return found;
}

/** The beginning of a long text that is shown. */
export function shownBeginning(text: string): string {
  return beginning(text, shownBytes);
}

/** Returns how many keys and values are longer. */
export function countLongTexts(entries: readonly Entry[], maxBytes: number): number {
  let count = 0;
  for (const { key, value } of entries) {
    if (isLongText(key, maxBytes)) count += 1;
    if (isLongText(value, maxBytes)) count += 1;
  }
  return count;
}

/** A counter's key as people read it: of each long text in it what `shownText` shows. Other keys stay as they are. */
export function shownKey(key: string): string {
  if (key.length < mark.length + digits || !key.includes(mark)) return key;
  return key.replace(/(.*?)~sha256:([0-9a-f]{64})/gs, (_, before: string, all: string) => {
    return `${beginning(before, shownBytes)}~${all.slice(0, shownDigits)}`;
  });
}

function withTexts(
  entries: readonly Entry[],
  maxBytes: number,
  written: (text: string, maxBytes: number) => string,
): readonly Entry[] {
  for (let i = 0; i < entries.length; i++) {
    const { key, value } = entries[i]!;
    if (isLongText(key, maxBytes) || isLongText(value, maxBytes))
      return entries.map((one) => ({ key: written(one.key, maxBytes), value: written(one.value, maxBytes) }));
  }
  return entries;
}

/** Returns the first bytes of a text, without a character that is cut. */
function beginning(text: string, maxBytes: number): string {
  // Each unit takes at least one byte.
  const bytes = Buffer.from(text.slice(0, maxBytes + 1));
  if (bytes.length <= maxBytes) return text;
  let end = maxBytes;
  while ((bytes[end]! & 0xc0) === 0x80) end -= 1;
  return bytes.toString('utf8', 0, end);
}

/** Chosen: room for a path or a token. A key of the limiter then occupies at most 1 KiB. */
export const longestText = 512;
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
