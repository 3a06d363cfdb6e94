import { expect, it } from 'vitest';
import { newRevision, positionOf } from './own-objects.ts';

it('revisions of one moment differ by chance, and those of one chance by the time', () => {
  const at = (ms: number) => ({ nowMs: () => ms, monotonicMs: () => 0 });
  const revisions = [0.25, 0.5, 0.75].flatMap((chance) =>
    [1, 2].map((ms) => newRevision(at(ms), () => chance)),
  );
  expect(new Set(revisions).size).toBe(6);
});

it.each([
  ['1/1', 1, 1],
  ['12/99999', 12, 99_999],
])('the part %s is read', (text, part, parts) => {
  expect(positionOf({ data: { revision: 'r', part: text }, binaryData: {}, name: 'm' })).toEqual([
    part,
    parts,
  ]);
});

it.each([undefined, '', '1', '0/1', '1/0', '01/1', '-1/1', 'x1/1', '1/1x', '1/100000', '1 / 1'])(
  'a ConfigMap whose part is %j is none',
  (part) => {
    const data = part === undefined ? { revision: 'r' } : { revision: 'r', part };
    expect(positionOf({ data, binaryData: {}, name: 'm' })).toBeUndefined();
  },
);
