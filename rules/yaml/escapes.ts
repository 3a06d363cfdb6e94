const simple: Partial<Record<string, string>> = {
  '0': '\0',
  a: '\x07',
  b: '\b',
  t: '\t',
  '\t': '\t',
  n: '\n',
  v: '\v',
  f: '\f',
  r: '\r',
  e: '\x1b',
  ' ': ' ',
  '"': '"',
  "'": "'",
  '/': '/',
  '\\': '\\',
  N: '\x85',
  _: '\xa0',
  L: '\u2028',
  P: '\u2029',
};

const digitCounts: Partial<Record<string, number>> = { x: 2, u: 4, U: 8 };

/** What an escape stands for, and the offset behind it. */
export interface Escape {
  text: string;
  end: number;
}

/**
 * Reads the escape in double quotes whose backslash is at `offset`, other than that of a line break. A string is what
 * is wrong with it, in the words of the Go service. More than that one knows: `\/` and pairs of surrogates, as JSON
 * has them.
 */
export function readEscape(text: string, offset: number): Escape | string {
  const letter = text.charAt(offset + 1);
  const known = simple[letter];
  if (known !== undefined) return { text: known, end: offset + 2 };
  const digits = digitCounts[letter];
  if (digits === undefined) return 'found unknown escape character';
  const end = offset + 2 + digits;
  const code = hexNumber(text.slice(offset + 2, end), digits);
  if (code < 0) return 'did not find expected hexdecimal number';
  if (code < 0xd800 || (code > 0xdfff && code <= 0x10ffff)) return { text: String.fromCodePoint(code), end };
  const low = code < 0xdc00 && letter === 'u' ? lowSurrogateAt(text, end) : -1;
  if (low < 0) return 'found invalid Unicode character escape code';
  return { text: String.fromCharCode(code, low), end: end + 6 };
}

function lowSurrogateAt(text: string, offset: number): number {
  if (!text.startsWith('\\u', offset)) return -1;
  const code = hexNumber(text.slice(offset + 2, offset + 6), 4);
  return code >= 0xdc00 && code <= 0xdfff ? code : -1;
}

/** -1 when the text is anything else than that many digits. */
function hexNumber(text: string, digits: number): number {
  return text.length === digits && /^[0-9a-fA-F]+$/.test(text) ? Number.parseInt(text, 16) : -1;
}
