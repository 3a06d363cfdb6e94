import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../../test/support/property-cases.ts';
import { LineQueue } from './line-queue.ts';

function drain(queue: LineQueue): string[] {
  const chunks: string[] = [];
  for (let chunk = queue.shift(); chunk !== undefined; chunk = queue.shift()) {
    chunks.push(Buffer.from(chunk).toString());
  }
  return chunks;
}

describe('LineQueue', () => {
  it('gives all lines back in order, in chunks that end with a line', () => {
    const line = fc.string({ unit: 'binary', maxLength: 30_000, size: 'max' }).map((text) => `${text}\n`);
    fc.assert(
      fc.property(fc.array(line, { maxLength: 40 }), (lines) => {
        const queue = new LineQueue(1e9);
        for (const each of lines) expect(queue.append(each)).toBe(true);
        expect(queue.bytes).toBe(Buffer.byteLength(lines.join('')));
        const chunks = drain(queue);
        expect(chunks.join('')).toBe(lines.join(''));
        for (const chunk of chunks) expect(chunk.endsWith('\n')).toBe(true);
        expect(queue.bytes).toBe(0);
      }),
      { numRuns: caseCount(30) },
    );
  });

  it('keeps nothing of a line beyond the bound, counted in bytes', () => {
    const queue = new LineQueue(10);
    expect(queue.append('öööö\n')).toBe(true);
    expect(queue.append('1\n')).toBe(false);
    expect(queue.append('\n')).toBe(true);
    expect(queue.append('\n')).toBe(false);
    expect(drain(queue)).toEqual(['öööö\n\n']);
  });

  it('has a full chunk after 64 KiB, not before', () => {
    const queue = new LineQueue(1e9);
    const line = `${'x'.repeat(999)}\n`;
    for (let i = 0; i < 60; i += 1) queue.append(line);
    expect(queue.hasFullChunk).toBe(false);
    for (let i = 0; i < 10; i += 1) queue.append(line);
    expect(queue.hasFullChunk).toBe(true);
    expect((queue.shift()?.length ?? 0) <= 65_536).toBe(true);
  });
});
