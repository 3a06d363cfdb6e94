import { describe, expect, it } from 'vitest';
import { LineIndex } from './places.ts';

describe('LineIndex', () => {
  const text = 'ab\ncd\r\n\re';
  it.each([
    [0, 1, 1],
    [2, 1, 3],
    [3, 2, 1],
    [5, 2, 3],
    [7, 3, 1],
    [8, 4, 1],
    [9, 4, 2],
  ])('places offset %i at %i:%i', (offset, line, column) => {
    expect(new LineIndex(text).placeOf(offset)).toEqual({ line, column });
  });
});
