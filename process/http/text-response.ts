/** Answers of plain text with the texts and headers of the Go service. */
import type { ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';

const plainText = 'text/plain; charset=utf-8';

/** The header with the problem of a request; the body is the one that callers of the Go service know. */
const detailHeader = 'Weir-Error';
/** Chosen: enough for a sentence with a name in it. */
const longestDetail = 256;

export function sendText(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { 'Content-Type': plainText, 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
}

/** `detail` is for the caller: it is sent in a header. */
export function sendError(response: ServerResponse, status: number, body: string, detail?: string): void {
  writeErrorHead(response, status, detail);
  response.end(`${body}\n`);
}

/** Writes the headers of an error. The caller of this function writes the body and ends the response. */
export function writeErrorHead(response: ServerResponse, status: number, detail?: string): void {
  response.statusCode = status;
  response.setHeader('Content-Type', plainText);
  response.setHeader('X-Content-Type-Options', 'nosniff');
  if (detail !== undefined) writeDetail(response, detail);
}

/** Adds a detail to an answer whose body does not contain it. */
export function writeDetail(response: ServerResponse, detail: string): void {
  response.setHeader(detailHeader, headerText(detail));
}

export function sendNotFound(response: ServerResponse): void {
  sendError(response, 404, '404 page not found');
}

export function sendRedirect(response: ServerResponse, location: string): void {
  response.writeHead(301, { Location: location, 'Content-Length': 0 });
  response.end();
}

function headerText(detail: string): string {
  const cut = detail.length > longestDetail ? `${detail.slice(0, longestDetail)}...` : detail;
  return cut.replace(/[^ -~]/g, '?');
}

/** Chosen: a slice of this many lines, or characters, takes about a millisecond. */
const sliceLines = 512;
const sliceChars = 64 * 1024;

/**
 * Writes many lines, in slices between which other callers are answered. Lines have no newline. It stops early if the reader
 * disconnects, and waits for a slow reader.
 */
export async function sendLines(
  response: ServerResponse,
  lines: Iterable<string>,
  contentType = plainText,
): Promise<void> {
  response.setHeader('Content-Type', contentType);
  const gone = new Promise<void>((resolve) => response.once('close', resolve));
  for (const slice of slices(lines)) {
    if (response.destroyed) return;
    if (!response.write(slice)) await Promise.race([drained(response), gone]);
    await nextTurn();
  }
  response.end();
}

function* slices(lines: Iterable<string>): Generator<string> {
  let text = '';
  let count = 0;
  for (const line of lines) {
    text += `${line}\n`;
    if (++count < sliceLines && text.length < sliceChars) continue;
    yield text;
    text = '';
    count = 0;
  }
  if (text !== '') yield text;
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => response.once('drain', resolve));
}

export interface RequestPath {
  /** The decoded path as sent. */
  path: string;
  /** The same without empty, `.` and `..` segments. If it differs from `path`, a redirect is needed. */
  clean: string;
  query: URLSearchParams;
  /** The target of the redirect. */
  location: string;
}

/** Returns the path of a request by the rules of Go's router. Undefined if the target is damaged. */
export function requestPath(target: string): RequestPath | undefined {
  const origin = target.startsWith('/') ? target : targetOfProxyRequest(target);
  if (origin === undefined) return undefined;
  const mark = origin.indexOf('?');
  const encoded = mark === -1 ? origin : origin.slice(0, mark);
  const search = mark === -1 ? '' : origin.slice(mark);
  const path = decoded(encoded);
  if (path === undefined) return undefined;
  const clean = cleanPath(path);
  return { path, clean, query: new URLSearchParams(search), location: encodeURI(clean) + search };
}

/** Returns a path of which the end belongs to another request: as it was sent. */
export function foreignPath(target: string): RequestPath {
  const [path = ''] = target.split('?', 1);
  return { path, clean: path, query: new URLSearchParams(target.slice(path.length)), location: target };
}

/** RFC 9112, section 3.2.2: a server takes the absolute form, too. */
function targetOfProxyRequest(target: string): string | undefined {
  const match = /^https?:\/\/[^/?#]+(.*)$/i.exec(target);
  if (match === null) return undefined;
  const rest = match[1] ?? '';
  return rest.startsWith('/') ? rest : `/${rest}`;
}

function decoded(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
}

function cleanPath(path: string): string {
  const segments: string[] = [];
  for (const segment of path.split('/')) {
    if (segment === '..') segments.pop();
    else if (segment !== '' && segment !== '.') segments.push(segment);
  }
  const clean = `/${segments.join('/')}`;
  return path.endsWith('/') && clean !== '/' ? `${clean}/` : clean;
}
