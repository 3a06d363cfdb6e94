import { describe, expect, it } from 'vitest';
import { OutputBuffer } from './frame-writer.ts';

function write(output: OutputBuffer, text: string): void {
  const at = output.reserve(text.length);
  output.bytes.write(text, at, 'latin1');
  output.end = at + text.length;
}

describe('the output', () => {
  it('hands over what was gathered, once and in one piece', () => {
    const output = new OutputBuffer();
    expect(output.take()).toBeUndefined();
    write(output, 'one ');
    write(output, 'x'.repeat(5000));
    write(output, ' two');
    expect(output.length).toBe(5008);
    expect(Buffer.from(output.take() as Uint8Array).toString()).toBe(`one ${'x'.repeat(5000)} two`);
    expect(output.take()).toBeUndefined();
  });

  it('never changes what it handed over', () => {
    const output = new OutputBuffer();
    const taken: [Uint8Array, string][] = [];
    for (let i = 0; i < 2000; i++) {
      const text = `${i} `.repeat(1 + (i % 50));
      write(output, text);
      taken.push([output.take() as Uint8Array, text]);
      if (i % 100 === 0) output.rest();
    }
    for (const [bytes, text] of taken) expect(Buffer.from(bytes).toString()).toBe(text);
  });

  it('keeps no slab for a connection that is quiet', () => {
    const output = new OutputBuffer();
    write(output, 'x');
    output.take();
    output.rest();
    expect(output.bytes.length).toBeGreaterThan(0);
    output.rest();
    expect(output.bytes.length).toBe(0);
    write(output, 'again');
    expect(Buffer.from(output.take() as Uint8Array).toString()).toBe('again');
  });

  it('keeps what waits, however long', () => {
    const output = new OutputBuffer();
    write(output, 'waits');
    for (let i = 0; i < 3; i++) output.rest();
    expect(Buffer.from(output.take() as Uint8Array).toString()).toBe('waits');
  });
});
