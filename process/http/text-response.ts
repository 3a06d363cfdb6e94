/** Answers of plain text, worded and headed as the Go service's. */
import type { ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';

const plainText = 'text/plain; charset=utf-8';

/** What was wrong with a request; the body stays as callers of the Go service know it. */
const detailHeader = 'Weir-Error';
/** Chosen: enough for a sentence with a name in it. */
const longestDetail = 256;

export function sendText(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { 'Content-Type': plainText, 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
}

/** `detail` is for the caller: it goes into a header. */
export function sendError(response: ServerResponse, status: number, body: string, detail?: string): void {
  writeErrorHead(response, status, detail);
  response.end(`${body}\n`);
}

/** Headers of an error whose body the caller of this function writes, and ends when it sees fit. */
export function writeErrorHead(response: ServerResponse, status: number, detail?: string): void {
  response.statusCode = status;
  response.setHeader('Content-Type', plainText);
  response.setHeader('X-Content-Type-Options', 'nosniff');
  if (detail !== undefined) writeDetail(response, detail);
}

/** Beside a body that says nothing of it. */
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
 * Writes many lines without holding up the event loop: other callers are answered between two slices.
 * Lines come without their newline. Stops early when the reader goes away; a reader that is slow is waited for.
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
  /** Decoded, as it was sent. */
  path: string;
  /** The same without empty, `.` and `..` segments. Another one than `path` calls for a redirect. */
  clean: string;
  query: URLSearchParams;
  /** Where the redirect goes. */
  location: string;
}

/**
 * Which path a request asks for, with the rules of Go's router.
 * Undefined when the target is damaged.
 */
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

/** Of a path that is another request's, behind one of ours: as it was sent. */
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
