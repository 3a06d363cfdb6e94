import { UsageError } from '../shared/flags.ts';

/**
 * Reads headers as programs write them down: a JSON object, or lines `name: value` as in `curl -D` and HTTP itself,
 * where a first line without a name is passed over and an empty line ends them. Names come out in lower case.
 */
export function parseHeaders(text: string, origin: string): Map<string, string> {
  return text.trimStart().startsWith('{') ? headersOfJson(text, origin) : headersOfLines(text, origin);
}

/** Reads one `name: value`. */
export function parseHeader(line: string, origin: string): [name: string, value: string] {
  const match = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*(.*?)[ \t]*$/.exec(line);
  if (match === null) throw new UsageError(`${origin} is not of the form "name: value"`);
  return [(match[1] as string).toLowerCase(), match[2] as string];
}

function headersOfLines(text: string, origin: string): Map<string, string> {
  const headers = new Map<string, string>();
  const lines = text.split(/\r?\n/);
  for (const [index, line] of lines.entries()) {
    if (line === '') break;
    const isStartLine = index === 0 && /^(?:HTTP\/\S+ \d|[A-Z]+ \S+ HTTP\/)/.test(line);
    if (!isStartLine) headers.set(...parseHeader(line, `${origin}: line ${index + 1}`));
  }
  return headers;
}

function headersOfJson(text: string, origin: string): Map<string, string> {
  const headers = new Map<string, string>();
  for (const [name, value] of Object.entries(parsedJson(text, origin))) {
    // Some frameworks give every header a list.
    const first: unknown = Array.isArray(value) ? value[0] : value;
    if (typeof first !== 'string' && typeof first !== 'number') {
      throw new UsageError(`${origin}: the header ${name} is no text`);
    }
    headers.set(name.toLowerCase(), String(first));
  }
  return headers;
}

function parsedJson(text: string, origin: string): object {
  try {
    return JSON.parse(text) as object;
  } catch (error) {
    throw new UsageError(`${origin}: neither JSON nor lines "name: value"`, { cause: error });
  }
}
