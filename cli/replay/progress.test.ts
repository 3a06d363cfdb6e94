import { describe, expect, it } from 'vitest';
import { Progress } from './progress.ts';

function drawn(
  options: { isTTY: boolean; totalBytes: number | undefined },
  use: (at: (ms: number) => void, progress: Progress) => void,
) {
  let nowMs = 0;
  const texts: string[] = [];
  const output = { isTTY: options.isTTY, write: (text: string) => texts.push(text) };
  const progress = new Progress({ output, nowMs: () => nowMs, totalBytes: options.totalBytes });
  use((ms) => {
    nowMs = ms;
  }, progress);
  return texts;
}

describe('Progress', () => {
  it('draws a bar in one line of a terminal, ten times a second at most', () => {
    const texts = drawn({ isTTY: true, totalBytes: 1_000 }, (at, progress) => {
      at(50);
      progress.update(100, 10);
      at(1_000);
      progress.update(2_000, 500);
      at(1_050);
      progress.update(2_100, 510);
    });
    expect(texts).toEqual([
      `\r\x1b[K[${'#'.repeat(15)}${' '.repeat(15)}]  50% 2,000 requests, 2,000 per second`,
    ]);
  });

  it('counts if the size is unknown', () => {
    const texts = drawn({ isTTY: true, totalBytes: undefined }, (at, progress) => {
      at(500);
      progress.update(10, 10);
    });
    expect(texts).toEqual(['\r\x1b[K10 requests']);
  });

  it('says no speed of what took less than a second', () => {
    const texts = drawn({ isTTY: false, totalBytes: 1_000 }, (at, progress) => {
      at(12.3);
      progress.finish(13);
      at(999);
      progress.finish(1);
      at(1_000);
      progress.finish(1);
    });
    expect(texts).toEqual([
      '13 requests replayed in 13 ms\n',
      '1 request replayed in 999 ms\n',
      '1 request replayed in 1.0 s, 1 per second\n',
    ]);
  });

  it('writes nothing but the last line without a terminal', () => {
    const texts = drawn({ isTTY: false, totalBytes: 1_000 }, (at, progress) => {
      at(2_000);
      progress.update(10, 10);
      progress.finish(3_000_000);
    });
    expect(texts).toEqual(['3,000,000 requests replayed in 2.0 s, 1,500,000 per second\n']);
  });
});
