/** Writes many lines without holding up the event loop: other callers are answered between two slices. */
import type { ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Ours: a slice of this many lines, or characters, takes about a millisecond. */
const sliceLines = 512;
const sliceChars = 64 * 1024;

/** Lines come without their newline. Stops early when the reader goes away; a reader that is slow is waited for. */
export async function sendLines(
  response: ServerResponse,
  lines: Iterable<string>,
  contentType = 'text/plain; charset=utf-8',
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
