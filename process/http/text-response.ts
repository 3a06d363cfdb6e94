/** Answers of plain text, worded and headed as the Go service's. */
import type { ServerResponse } from 'node:http';

const plainText = 'text/plain; charset=utf-8';

/** What was wrong with a request; the body stays as callers of the Go service know it. */
const detailHeader = 'Weir-Error';
/** Ours: enough for a sentence with a name in it. */
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
  if (detail !== undefined) response.setHeader(detailHeader, headerText(detail));
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
