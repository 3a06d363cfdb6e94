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

/** The beginning of a long text that is shown. */
export function shownBeginning(text: string): string {
  return beginning(text, shownBytes);
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
