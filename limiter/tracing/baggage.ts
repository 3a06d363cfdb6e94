/** W3C Baggage: what callers send along a trace. https://www.w3.org/TR/baggage/ */

/** Ours: so many bytes are looked at; the recommendation has at least as many passed on. */
const mostBytes = 8_192;

/** The values of those of `keys` that the header has, percent-decoded. */
export function baggageValues(header: string, keys: ReadonlySet<string>): [key: string, value: string][] {
  if (header === '' || keys.size === 0 || header.length > mostBytes) return [];
  const found: [string, string][] = [];
  for (const member of header.split(',')) {
    const [pair = ''] = member.split(';', 1);
    const equals = pair.indexOf('=');
    const key = pair.slice(0, equals).trim();
    if (equals > 0 && keys.has(key)) found.push([key, decoded(pair.slice(equals + 1).trim())]);
  }
  return found;
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
