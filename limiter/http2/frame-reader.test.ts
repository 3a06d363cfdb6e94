import { describe, expect, it } from 'vitest';

import { data, frame, ping } from '../../test/support/http2-frame-script.ts';
import { FrameReader, type FrameSink } from './frame-reader.ts';
import { readUint32 } from './frame-writer.ts';

/** Records the frames that it reads and their positions. */
class Listener implements FrameSink {
  readonly reported: string[] = [];
  readonly places: Uint8Array[] = [];
  stopAfter = Number.POSITIVE_INFINITY;

  onFrame(bytes: Uint8Array, at: number, end: number): boolean {
    const [, , , type, flags] = bytes.subarray(at);
    const payload = Buffer.from(bytes.subarray(at + 9, end)).toString('latin1');
    this.reported.push(`${type} ${flags} ${readUint32(bytes, at + 5)} ${payload}`);
    this.places.push(bytes);
    return this.reported.length < this.stopAfter;
  }
}

const frames = Buffer.concat([ping('abcdefgh'), frame(4, 1, 0), data(0x7fff_ffff, 'body', 1), data(3, '')]);
const reported = ['6 0 0 abcdefgh', '4 1 0 ', '0 1 2147483647 body', '0 0 3 '];

describe('the frame reader', () => {
  it('reads the same however the bytes are cut in three', () => {
    for (let first = 0; first <= frames.length; first++) {
      for (let second = first; second <= frames.length; second++) {
        const listener = new Listener();
        const reader = new FrameReader(listener);
        reader.read(frames.subarray(0, first), 0);
        reader.read(frames.subarray(first, second), 0);
        reader.read(frames.subarray(second), 0);
        expect(listener.reported).toEqual(reported);
      }
    }
  });

  it('reads byte by byte', () => {
    const listener = new Listener();
    const reader = new FrameReader(listener);
    for (let at = 0; at < frames.length; at++) reader.read(Uint8Array.of(frames[at] as number), 0);
    expect(listener.reported).toEqual(reported);
  });

  it('copies nothing of frames that are whole', () => {
    const listener = new Listener();
    new FrameReader(listener).read(frames, 0);
    expect(listener.places.every((bytes) => bytes === frames)).toBe(true);
  });

  it('keeps nothing of the bytes that it was given', () => {
    const listener = new Listener();
    const reader = new FrameReader(listener);
    const piece = Buffer.from(frames.subarray(0, 12));
    reader.read(piece, 0);
    piece.fill(0);
    reader.read(frames.subarray(12), 0);
    expect(listener.reported).toEqual(reported);
  });

  it('reads no further than its sink wants, whole or cut', () => {
    for (const cut of [0, 5, 12]) {
      const listener = new Listener();
      listener.stopAfter = 1;
      const reader = new FrameReader(listener);
      reader.read(frames.subarray(0, cut), 0);
      reader.read(frames.subarray(cut), 0);
      expect(listener.reported).toEqual(reported.slice(0, 1));
    }
  });

  it('rejects a frame as soon as its header says that it is too large', () => {
    const large = frame(0, 0, 1, Buffer.alloc(16_385)).subarray(0, 9);
    for (const cut of [0, 4, 8]) {
      const reader = new FrameReader(new Listener());
      expect(() => {
        reader.read(large.subarray(0, cut), 0);
        reader.read(large.subarray(cut), 0);
      }).toThrow('HTTP/2 connection error: frame_size_error');
    }
  });
});
