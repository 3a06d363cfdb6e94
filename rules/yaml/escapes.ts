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

/** What is wrong with an escape, in the words of the Go service, and where. */
export interface EscapeProblem {
  problem: string;
  offset: number;
}

/**
 * Reads the escape in double quotes whose backslash is at `offset`, other than that of a line break. Knows two
 * things that the Go service does not, because JSON has them: `\/` and pairs of surrogates.
 */
export function readEscape(text: string, offset: number): Escape | EscapeProblem {
  const letter = text.charAt(offset + 1);
  const known = simple[letter];
  if (known !== undefined) return { text: known, end: offset + 2 };
  const digits = digitCounts[letter];
  if (digits === undefined) return { problem: 'found unknown escape character', offset: offset + 1 };
  const end = offset + 2 + digits;
  const code = hexNumber(text.slice(offset + 2, end), digits);
  if (code < 0) return { problem: 'did not find expected hexdecimal number', offset };
  if (code < 0xd800 || (code > 0xdfff && code <= 0x10ffff)) return { text: String.fromCodePoint(code), end };
  const low = code < 0xdc00 && letter === 'u' ? lowSurrogateAt(text, end) : -1;
  if (low < 0) return { problem: 'found invalid Unicode character escape code', offset };
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
