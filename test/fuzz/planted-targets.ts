/** Targets with a defect in them, by which tests see that the fuzzer finds such. */
import type { FuzzTarget } from './fuzz-target.ts';

const kept: Uint8Array[] = [];

export const fuzzTargets: readonly FuzzTarget[] = [
  { name: 'sound', run: (input) => `length ${Math.min(8, input.length)}` },
  {
    name: 'crashing',
    run(input) {
      if (input[0] === 0x80 && input[1] === 0xff) throw new Error('planted');
      return `${input[0] === 0x80} ${input[1] === 0xff}`;
    },
  },
  {
    name: 'hanging',
    run(input) {
      while (input[0] === 0x20);
      return `${input.length > 0}`;
    },
  },
  {
    name: 'growing',
    run(input) {
      kept.push(new Uint8Array(10_000));
      return `${input.length > 0}`;
    },
  },
  {
    name: 'out-of-memory',
    run(input) {
      const texts: string[] = [];
      while (input[0] === 0x20) texts.push(`number ${texts.length}`);
      return `${texts.length}`;
    },
  },
];
