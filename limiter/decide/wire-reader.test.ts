import { describe, expect, it } from 'vitest';
import { WireReader } from './wire-reader.ts';

describe('the end of the first fields', () => {
  const endOf = (bytes: number[], end: number): number => {
    const reader = new WireReader();
    reader.reset(Uint8Array.from(bytes));
    return reader.endOfFirstFields(end);
  };

  it('is where another field begins', () => {
    expect(endOf([0x0a, 1, 7, 0x0a, 0, 0x12, 0], 7)).toBe(5);
  });

  it('is within the bytes, though the message says that it is longer', () => {
    expect(endOf([0x0a, 0, 0x0a], 9)).toBe(2);
    expect(endOf([0x0a], 9)).toBe(0);
  });
});
