import { isUtf8 } from 'node:buffer';
import type { SyntaxProblem } from './cursor.ts';

const byteOrderMark = 0xfeff;

/** Not allowed anywhere in YAML 1.1. */
const controlCharacter =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u0084\u0086-\u009f\ufffe\uffff]/;
/** Not allowed in JSON, whose texts may hold all others. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
const jsonControlCharacter = /[\u0000-\u0008\u000b\u000c\u000e-\u001f]/;

/** The first character that a text may not hold; of JSON fewer are forbidden. */
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

/** The first wrong byte, and where it stands in the text. */
function invalidUtf8(content: Uint8Array): SyntaxProblem {
  let good = 0;
  let bad = content.length;
  while (bad - good > 1) {
    const middle = (good + bad) >> 1;
    if (isUtf8(content.subarray(0, characterStart(content, middle)))) good = middle;
    else bad = middle;
  }
  const at = characterStart(content, good);
  const lead = content[at] ?? 0;
  const length = characterLength(lead);
  const kind =
    length === 0 ? 'invalid leading' : at + length > content.length ? 'incomplete' : 'invalid trailing';
  const text = kind === 'incomplete' ? 'incomplete UTF-8 octet sequence' : `${kind} UTF-8 octet`;
  return { text, offset: new TextDecoder().decode(content.subarray(0, at)).length };
}

/** By the first byte; 0 when none begins with it. */
function characterLength(lead: number): number {
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/** Where the character begins that the byte at `offset` continues, or `offset` itself. */
function characterStart(content: Uint8Array, offset: number): number {
  for (let start = offset; start >= 0 && start > offset - 4; start--) {
    const byte = content[start] ?? 0;
    if (byte >= 0xc2) return start + characterLength(byte) > offset ? start : offset;
    if (byte < 0x80) break;
  }
  return offset;
}

function lonelySurrogate(text: string): number {
  return /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.exec(text)?.index ?? 0;
}
