import { describe, expect, it } from 'vitest';

import { fuzzFlags } from './fuzz-options.ts';
import { FuzzTally } from './fuzz-tally.ts';
import { fuzzTargets } from './targets.ts';

describe('npm run fuzz', () => {
  it('continues without an end, a minute a turn', () => {
    expect(fuzzFlags.parse(['hpack', '--seed', '7'])).toMatchObject({
      ...{ targets: ['hpack'], seconds: 60, rounds: Number.POSITIVE_INFINITY, seed: 7 },
      ...{ save: false, replay: undefined },
    });
    expect(fuzzFlags.parse(['--seconds', '0.2', '--rounds', '3'])).toMatchObject({ seconds: 0.2, rounds: 3 });
    expect(fuzzFlags.parse(['-h'])).toBeUndefined();
  });

  it.each([
    [['--seconds', '0'], '--seconds is a number from 0.1 to 86400, not "0"'],
    [['--seconds', 'x'], '--seconds is a number from 0.1 to 86400, not "x"'],
    [['--seconds', '86401'], '--seconds is a number from 0.1 to 86400, not "86401"'],
    [['--rounds', '0'], '--rounds is a whole number from 1 to 1000000, not "0"'],
    [['--rounds', '1.5'], '--rounds is a whole number from 1 to 1000000, not "1.5"'],
    [['--rounds', 'Infinity'], '--rounds is a whole number from 1 to 1000000, not "Infinity"'],
    [['--seed', '-1'], "Option '--seed' argument is ambiguous"],
    [['--seed=-1'], '--seed is a whole number from 0 to 4294967295, not "-1"'],
  ])('rejects %j', (args, message) => {
    expect(() => fuzzFlags.parse(args)).toThrow(message);
  });

  it('has every target in its help', () => {
    expect(fuzzFlags.help).toContain(`\n  ${fuzzTargets.map(({ name }) => name).join(', ')} `);
  });
});

it('sums up the turns of each target', () => {
  const tally = new FuzzTally();
  tally.add('hpack', { runs: 10, outcomes: 3, blocks: 40 });
  tally.add('connection', { runs: 5, outcomes: 2, blocks: 7 });
  tally.add('hpack', { runs: 20, outcomes: 4, blocks: 39 });
  expect(tally.summary(61.4, false)).toBe(
    [
      'fuzz: 61 s, nothing found',
      '  hpack: 30 inputs, 4 outcomes, 40 blocks, in 2 turns',
      '  connection: 5 inputs, 2 outcomes, 7 blocks, in 1 turn',
    ].join('\n'),
  );
});
