import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DatagramLines, datagramBytes } from './line-queue.ts';

function gathered(lines: readonly string[]): { packets: string[]; kept: string[] } {
  const packets: string[] = [];
  const queue = new DatagramLines((packet) => packets.push(Buffer.from(packet).toString()));
  const kept = lines.filter((line) => queue.append(line));
  queue.flush();
  return { packets, kept };
}

describe('DatagramLines', () => {
  it('fills a packet to its last byte', () => {
    const line = 'x'.repeat(715);
    expect(gathered([line, `${line}y`, 'z']).packets).toEqual([`${line}\n${line}y`, 'z']);
    expect(gathered([line, `${line}yy`]).packets).toEqual([line, `${line}yy`]);
  });

  it('rejects a line that no packet can hold', () => {
    const long = 'é'.repeat(datagramBytes / 2);
    expect(gathered([long, `${long}x`, 'b']).kept).toEqual([long, 'b']);
  });

  it('sends nothing when there is nothing', () => {
    expect(gathered([]).packets).toEqual([]);
  });

  it('says how many lines it forgets', () => {
    const packets: Uint8Array[] = [];
    const queue = new DatagramLines((packet) => packets.push(packet));
    queue.append('a');
    queue.append('b');
    expect([queue.clear(), queue.clear()]).toEqual([2, 0]);
    queue.append('c');
    queue.flush();
    expect([queue.clear(), packets.map(String)]).toEqual([0, [String(Buffer.from('c'))]]);
  });

  it('keeps all lines in order, in packets of at most 1432 bytes', () => {
    const line = fc.string({ unit: fc.constantFrom('a', 'é', '€', '😀'), minLength: 1, maxLength: 500 });
    fc.assert(
      fc.property(fc.array(line, { maxLength: 30 }), (lines) => {
        const { packets, kept } = gathered(lines);
        expect(packets.every((packet) => Buffer.byteLength(packet) <= datagramBytes)).toBe(true);
        expect(packets.flatMap((packet) => packet.split('\n'))).toEqual(kept);
        expect(kept).toEqual(lines.filter((text) => Buffer.byteLength(text) <= datagramBytes));
      }),
    );
  });
});
