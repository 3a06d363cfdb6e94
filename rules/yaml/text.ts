/** The characters of YAML: which a text may hold, how bytes become characters, and the meanings of escapes. */
import { isUtf8 } from 'node:buffer';

export class YamlSyntaxError extends Error {
  readonly problem: SyntaxProblem;

  constructor(problem: SyntaxProblem) {
    super(problem.text);
    this.problem = problem;
  }
}

/** A syntax error in the words of the Go service's YAML library. */
export interface SyntaxProblem {
  text: string;
  offset: number;
  /** False for errors that the library reports without a line. */
  hasLine?: boolean;
  /** The place where the library noticed the error, if that is on another line. */
  noticedAt?: number;
}

const byteOrderMark = 0xfeff;

/** Characters that YAML 1.1 never allows. */
const controlCharacter =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u0084\u0086-\u009f\ufffe\uffff]/;
/** Not allowed in JSON, whose texts may hold all others. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
const jsonControlCharacter = /[\u0000-\u0008\u000b\u000c\u000e-\u001f]/;

/** Finds the first character that a text must not contain. JSON forbids fewer characters. */
export function findControlCharacter(text: string, isJsonToo: boolean): SyntaxProblem | undefined {
  const found = (isJsonToo ? jsonControlCharacter : controlCharacter).exec(text);
  if (found === null) return undefined;
  return { text: 'control characters are not allowed', offset: found.index, hasLine: false };
}

/** The text of a YAML file: UTF-8, or UTF-16 with a byte order mark, which is not part of the text. */
export function decodeYaml(content: string | Uint8Array): string | SyntaxProblem {
  if (typeof content === 'string') {
    if (!content.isWellFormed())
      return { text: 'invalid Unicode character', offset: lonelySurrogate(content), hasLine: false };
    return content.charCodeAt(0) === byteOrderMark ? content.slice(1) : content;
  }
  const encoding = utf16Mark(content);
  if (encoding !== undefined) {
    const text = new TextDecoder(encoding).decode(content);
    const damage = text.indexOf('\ufffd');
    return damage < 0 ? text : { text: 'invalid UTF-16 surrogate', offset: damage, hasLine: false };
  }
  if (isUtf8(content)) return new TextDecoder().decode(content);
  return { ...invalidUtf8(content), hasLine: false };
}

function utf16Mark(content: Uint8Array): 'utf-16le' | 'utf-16be' | undefined {
  if (content[0] === 0xff && content[1] === 0xfe) return 'utf-16le';
  if (content[0] === 0xfe && content[1] === 0xff) return 'utf-16be';
  return undefined;
}

/** The first wrong character, and where it stands in the text. */
function invalidUtf8(content: Uint8Array): SyntaxProblem {
  let at = 0;
  let length = characterLength(content[0]!);
  while (length === 1 || (length > 1 && isUtf8(content.subarray(at, at + length)))) {
    at += length;
    length = characterLength(content[at]!);
  }
  const kind =
    length === 0 ? 'invalid leading' : at + length > content.length ? 'incomplete' : 'invalid trailing';
  const text = kind === 'incomplete' ? 'incomplete UTF-8 octet sequence' : `${kind} UTF-8 octet`;
  return { text, offset: new TextDecoder().decode(content.subarray(0, at)).length };
}

/** Returns the length by the first byte. 0 if no character begins with it. */
function characterLength(lead: number): number {
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

function lonelySurrogate(text: string): number {
  return /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.exec(text)?.index ?? 0;
}

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

/** The text that an escape stands for, and the offset behind it. */
export interface Escape {
  text: string;
  end: number;
}

/**
 * Reads the escape in double quotes whose backslash is at `offset`, other than that of a line break. It supports two things that
 * the Go service does not, because JSON has them: `\/` and surrogate pairs. Throws a `YamlSyntaxError`.
 */
export function readEscape(text: string, offset: number): Escape {
  const letter = text.charAt(offset + 1);
  const known = simple[letter];
  if (known !== undefined) return { text: known, end: offset + 2 };
  const digits = digitCounts[letter];
  if (digits === undefined) throw rejectedEscape('found unknown escape character', offset + 1);
  const end = offset + 2 + digits;
  const code = hexNumber(text.slice(offset + 2, end), digits);
  if (code < 0) throw rejectedEscape('did not find expected hexdecimal number', offset);
  if (code < 0xd800 || (code > 0xdfff && code <= 0x10ffff)) return { text: String.fromCodePoint(code), end };
  const low = code < 0xdc00 && letter === 'u' ? lowSurrogateAt(text, end) : -1;
  if (low < 0) throw rejectedEscape('found invalid Unicode character escape code', offset);
  return { text: String.fromCharCode(code, low), end: end + 6 };
}

function rejectedEscape(text: string, offset: number): YamlSyntaxError {
  return new YamlSyntaxError({ text, offset });
}

function lowSurrogateAt(text: string, offset: number): number {
  if (!text.startsWith('\\u', offset)) return -1;
  const code = hexNumber(text.slice(offset + 2, offset + 6), 4);
  return code >= 0xdc00 && code <= 0xdfff ? code : -1;
}

/** Returns the number. -1 if the text is anything other than that many digits. */
function hexNumber(text: string, digits: number): number {
  return text.length === digits && /^[0-9a-fA-F]+$/.test(text) ? Number.parseInt(text, 16) : -1;
}
