/** Reads unambiguous counter keys: so tests show that they say all that was counted. */
import type { EntryMark } from '../../rules/counter-keys.ts';

/** A domain, a key, a value or a pattern that was read out of a key. */
interface CounterPart {
  /** Of what was too long, the beginning. */
  text: string;
  /** Of what was too long, in hexadecimal digits, as it would stand in a key; undefined where the text is whole. */
  sha256: string | undefined;
}

interface ParsedCounterKey {
  prefix: string;
  domain: CounterPart;
  /** A part alone where the entries were too long together: their beginning, as it stands in the key. */
  entries: readonly { key: CounterPart; mark: EntryMark; text: CounterPart }[] | CounterPart;
  /** Undefined for a month of the calendar. */
  windowSeconds: number | undefined;
  windowStartSeconds: number;
}

const wholeKey = /^([^{}]*)1\{([^{};]*)(?:;([^{}]*))?\}(month|\d+):(\d+)$/s;
const cutEntries = /^(.*)~~([0-9a-f]{64})$/s;
const oneEntry = /^([^=~]*(?:~[0-9a-f]{64})?)(=|~=|~\*=)([^=~]*(?:~[0-9a-f]{64})?)$/s;
const onePart = /^([^~]*)(?:~([0-9a-f]{64}))?$/s;

/** What an unambiguous key says; undefined for what is none. */
export function parseCounterKey(key: string): ParsedCounterKey | undefined {
  const [, prefix, domain, entries, length, start] = wholeKey.exec(key) ?? [];
  if (prefix === undefined || domain === undefined) return undefined;
  const parsed = entries === undefined ? [] : parseEntries(entries);
  if (parsed === undefined) return undefined;
  return {
    prefix,
    domain: parsePart(domain),
    entries: parsed,
    windowSeconds: length === 'month' ? undefined : Number(length),
    windowStartSeconds: Number(start),
  };
}

function parseEntries(written: string): ParsedCounterKey['entries'] | undefined {
  const [, kept, sha256] = cutEntries.exec(written) ?? [];
  if (kept !== undefined) return { text: kept, sha256 };
  const entries = [];
  for (const one of written.split(';')) {
    const [, key, mark, text] = oneEntry.exec(one) ?? [];
    if (key === undefined || text === undefined) return undefined;
    entries.push({ key: parsePart(key), mark: mark as EntryMark, text: parsePart(text) });
  }
  return entries;
}

function parsePart(written: string): CounterPart {
  const [, text = '', sha256] = onePart.exec(written) ?? [];
  const whole = text.replace(/%u([0-9A-F]{4})|%([0-9A-F]{2})/g, (_, wide, narrow) =>
    String.fromCharCode(Number.parseInt(wide ?? narrow, 16)),
  );
  return { text: whole, sha256 };
}
