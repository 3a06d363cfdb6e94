/** How a connection starts: the client's 24 bytes, then the server's SETTINGS. RFC 9113, section 3.4. */
import { clientPreface, initialWindowBytes, Setting } from './constants.ts';
import { writeSettings, writeWindowUpdate } from './frame-writer.ts';
import type { Http2Limits } from './limits.ts';
import type { OutputBuffer } from './output-buffer.ts';

/** Recognizes the client's preface, however it is cut. */
export class PrefaceReader {
  #matched = 0;

  get isComplete(): boolean {
    return this.#matched === clientPreface.length;
  }

  /** Returns where the preface ends in `bytes`, or -1 when they are something else. */
  read(bytes: Uint8Array): number {
    let at = 0;
    for (; at < bytes.length && this.#matched < clientPreface.length; at++) {
      if (bytes[at] !== clientPreface[this.#matched]) return -1;
      this.#matched += 1;
    }
    return at;
  }
}

/** SETTINGS_HEADER_TABLE_SIZE and SETTINGS_MAX_FRAME_SIZE keep their initial values. */
export function writeServerPreface(output: OutputBuffer, limits: Http2Limits): void {
  writeSettings(output, [
    [Setting.MAX_CONCURRENT_STREAMS, limits.maxConcurrentStreams],
    [Setting.INITIAL_WINDOW_SIZE, limits.streamWindowBytes],
    [Setting.MAX_HEADER_LIST_SIZE, limits.maxHeaderListBytes],
  ]);
  const more = limits.connectionWindowBytes - initialWindowBytes;
  if (more > 0) writeWindowUpdate(output, 0, more);
}
