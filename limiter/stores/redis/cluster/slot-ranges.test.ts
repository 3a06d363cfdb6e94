import { describe, expect, it } from 'vitest';
import { parseSlotRanges } from './cluster-topology.ts';

const from = { host: 'here', port: 1 };
const parse = (reply: unknown) => parseSlotRanges(reply, from);

describe('parseSlotRanges', () => {
  it('reads the master of each range', () => {
    const replica = [Buffer.from('10.0.0.2'), 7001, Buffer.from('b'), []];
    expect(parse([[0, 5460, [Buffer.from('10.0.0.1'), 7000, Buffer.from('a'), []], replica]])).toEqual([
      { first: 0, last: 5460, master: { host: '10.0.0.1', port: 7000 } },
    ]);
  });

  it.each([[''], ['?'], [null]])('takes a host %j for that of the node that was asked', (text) => {
    const host = text === null ? null : Buffer.from(text);
    expect(parse([[7, 7, [host, 7000, 'a']]])).toEqual([
      { first: 7, last: 7, master: { host: 'here', port: 7000 } },
    ]);
  });

  it('reads no ranges', () => {
    expect(parse([])).toEqual([]);
  });

  it.each([
    ['OK'],
    [[1]],
    [[[0, 1]]],
    [[[0, 1, ['h']]]],
    [[['0', 1, ['h', 7000]]]],
    [[[-1, 1, [null, 7000]]]],
    [[[0, 16_384, [null, 7000]]]],
    [[[2, 1, [null, 7000]]]],
    [[[0, 1, [null, 65_536]]]],
    [[[0, 1, [7, 7000]]]],
  ])('gives nothing for %j', (reply) => {
    expect(parse(reply)).toBeUndefined();
  });
});
