/**
 * The keys of counters in a store. `compatible` keys are those of the Go service, such as `bank_ip_192.0.2.7_1700000000`. They do not
 * show where a domain, a key or a value ends. `unambiguous` keys are Weir's. Limits that the Go service does not support always have them:
 *
 *     1{bank;ip=192.0.2.7;path~=/api/*}60:1700000000
 *
 * Such a key starts with the version of its format. In braces, which make them the hash tag of Redis, follow the domain and the counted
 * entries. Then follow the length of the window (`month` for a calendar month in UTC, `month@Europe/Zurich@15` for one in a time zone)
 * and its start. If the counter has no start, the name of its algorithm follows instead, such as `sliding`. `=` precedes a value, `~=` a
 * pattern that values share, and `~*=` a pattern for key and value together. Characters that are invisible, or have a meaning in a key,
 * are written as `%20` or `%u0085`. A part of more than 128 bytes becomes its first 32 bytes, `~` and the SHA-256 of its written form.
 * Entries of more than 1,024 bytes together become their first 32 bytes, `~~` and their SHA-256.
 *
 * In both forms, `countedText` shortens a text beyond REQUEST_MAX_TEXT_BYTES.
 */
import { hash } from 'node:crypto';

export const counterKeyForms = ['compatible', 'unambiguous'] as const;
/** The values of COUNTER_KEYS. */
export type CounterKeys = (typeof counterKeyForms)[number];

/** The separator between the key and the text of an entry: its value, a shared pattern of values, or a pattern of key and value. */
export const EntryMark = { value: '=', pattern: '~=', wholePattern: '~*=' } as const;
export type EntryMark = (typeof EntryMark)[keyof typeof EntryMark];

const version = '1';
/** Chosen: the length, in bytes, above which a domain, a key or a value is cut. */
const longestPart = 128;
/** Chosen: the length, in bytes, above which entries together are cut. Most entries of one limit have fewer than 100 bytes. */
const longestEntries = 1024;
/** The bytes that remain of a text that is cut. */
const headBytes = 32;

/** Lone surrogates are special, because all of them would be encoded as the same character. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is not to be in a key
const special = /[\x00-\x20%;={}~\x7f-\x9f\p{Surrogate}]/gu;
/** Whether a character is special, by its code below 256. */
const isSpecial = Uint8Array.from(
  { length: 256 },
  (_, code) => String.fromCharCode(code).search(special) + 1,
);

/** The stem of an unambiguous key: all but its window. `entries` are those of `countedEntry`, one behind the other. */
export function unambiguousStem(domain: string, entries: string): string {
  const shortened = isShort(entries, longestEntries) ? entries : `;${cut(entries.slice(1), '~~')}`;
  return `${version}{${keyPart(domain)}${shortened}}`;
}

/** Returns one entry in the form in which it is counted. */
export function countedEntry(key: string, mark: EntryMark, text: string): string {
  return `;${keyPart(key)}${mark}${keyPart(text)}`;
}

/** Returns a domain, a key, a value or a pattern in the form of an unambiguous key. */
export function keyPart(text: string): string {
  if (!isShort(text, longestPart)) return cut(escaped(text), '~');
  return isPlain(text) ? text : escaped(text);
}

/**
 * Returns whether no character must be escaped. For a typical part, a loop costs a third of the regular expression. The
 * expression decides about surrogate pairs.
 */
function isPlain(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 256 ? isSpecial[code] === 1 : (code & 0xf800) === 0xd800) return false;
  }
  return true;
}

/** Returns whether the text is short. A UTF-16 unit takes at most three bytes. */
function isShort(text: string, maxBytes: number): boolean {
  return text.length * 3 <= maxBytes || (text.length <= maxBytes && Buffer.byteLength(text) <= maxBytes);
}

function escaped(text: string): string {
  return text.replace(special, (character) => {
    const code = character.charCodeAt(0);
    const digits = code.toString(16).toUpperCase();
    return code < 0x80 ? `%${digits.padStart(2, '0')}` : `%u${digits.padStart(4, '0')}`;
  });
}

function cut(written: string, mark: string): string {
  return `${beginning(written)}${mark}${hash('sha256', written)}`;
}

/** Returns the beginning, with whole characters and whole escapes. */
function beginning(written: string): string {
  let bytes = 0;
  let end = 0;
  for (const [piece] of written.matchAll(/%u....|%..|./gsu)) {
    bytes += Buffer.byteLength(piece);
    if (bytes > headBytes) break;
    end += piece.length;
  }
  return written.slice(0, end);
}
