/** Reads Booleans, numbers and durations like Go, so that every value that a Go service accepted has the same meaning here. */

/** Reads the words of Go's strconv.ParseBool; undefined for other texts. */
export function parseGoBool(text: string): boolean | undefined {
  if (/^(?:1|t|T|TRUE|true|True)$/.test(text)) return true;
  if (/^(?:0|f|F|FALSE|false|False)$/.test(text)) return false;
  return undefined;
}

// A base prefix may be followed by an underscore, and single ones may separate digits: Go's rule for base 0.
const integer =
  /^([+-]?)(?:0[xX]((?:_?[0-9a-fA-F])+)|0[bB]((?:_?[01])+)|0[oO]?((?:_?[0-7])+)|(0|[1-9](?:_?[0-9])*))$/;

/** Reads decimal, `0x`, `0o` (also just a leading 0) or `0b`; undefined for other texts. */
export function parseGoInteger(text: string): number | undefined {
  const match = integer.exec(text);
  if (match === null) return undefined;
  const [, sign, hex, binary, octal, decimal] = match;
  const value =
    decimal !== undefined
      ? Number(decimal.replaceAll('_', ''))
      : Number.parseInt((hex ?? binary ?? octal ?? '').replaceAll('_', ''), hex ? 16 : binary ? 2 : 8);
  return sign === '-' && value !== 0 ? -value : value;
}

/** Reads a decimal with or without exponent; undefined for other texts, including infinity and NaN. */
export function parseGoFloat(text: string): number | undefined {
  return /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(text) ? Number(text) : undefined;
}

const unitNs: Record<string, number> = {
  ns: 1,
  us: 1e3,
  // Go accepts both the micro sign and the Greek letter.
  '\u00b5s': 1e3,
  '\u03bcs': 1e3,
  ms: 1e6,
  s: 1e9,
  m: 60e9,
  h: 3600e9,
};
const part = /(\d+\.?\d*|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)/gy;

/** Reads `10s`, `1h30m`, `150us`, `-1.5s`, `0` as milliseconds, possibly with a fraction. */
export function parseGoDuration(text: string): number | undefined {
  const sign = text.startsWith('-') ? -1 : 1;
  const unsigned = /^[+-]/.test(text) ? text.slice(1) : text;
  if (unsigned === '0') return 0;
  let totalNs = 0;
  part.lastIndex = 0;
  let end = 0;
  for (let match = part.exec(unsigned); match !== null; match = part.exec(unsigned)) {
    totalNs += Number(match[1]) * (unitNs[match[2] as string] as number);
    end = part.lastIndex;
  }
  if (end === 0 || end !== unsigned.length) return undefined;
  return totalNs === 0 ? 0 : (sign * totalNs) / 1e6;
}

/** Returns the shortest text in Go's form: `10s`, `1h30m`, `0s`. For defaults and bounds, which are whole milliseconds. */
export function formatGoDuration(ms: number): string {
  if (ms === 0) return '0s';
  if (ms % 1000 !== 0) return `${ms}ms`;
  const hours = Math.floor(ms / 3_600_000);
  const minutes = Math.floor(ms / 60_000) % 60;
  const seconds = (ms / 1000) % 60;
  return `${hours ? `${hours}h` : ''}${minutes ? `${minutes}m` : ''}${seconds ? `${seconds}s` : ''}`;
}
