import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { caseCount, countCases, propertySeed } from '../support/property-cases.ts';
import { readCorpus } from './corpus.ts';
import { findPlanted } from './find-planted.ts';
import { fuzzTarget } from './fuzzing.ts';
import { mutated } from './mutation.ts';
import { Random } from './random.ts';
import { fuzzTargets } from './targets.ts';

/** Chosen: so many take about a third of a second of a processor, and reach what is counted below with any seed. */
const inputsOfShortRun = 800;

describe('a short run finds nothing', () => {
  it.each(fuzzTargets.map(({ name }) => name))('in %s', async (target) => {
    const corpus = readCorpus(fileURLToPath(new URL('./corpus', import.meta.url)), target);
    expect(corpus.length).toBeGreaterThan(4);
    const inputs = Math.max(inputsOfShortRun, caseCount(inputsOfShortRun));
    const result = await fuzzTarget({
      ...{
        targetsUrl: new URL('./targets.ts', import.meta.url).href,
        target,
        corpus,
        seed: propertySeed,
        inputs,
      },
    });
    countCases(result.runs);
    if (result.finding !== undefined) {
      const { kind, message, input } = result.finding;
      expect.fail(
        `${kind}, seed ${propertySeed}: ${message}\nthe input: ${Buffer.from(input).toString('hex')}`,
      );
    }
    // Where the corpus leads at least: less means that the target looks at nothing.
    expect(result.runs).toBeGreaterThanOrEqual(inputs);
    expect(result.outcomes).toBeGreaterThan(8);
    expect(result.blocks).toBeGreaterThan(10);
  });
});

/** fuzz.nightly.test.ts has the other kinds. */
describe('a planted defect is found', () => {
  it('as a crash', async () => {
    const { finding } = await findPlanted('crashing');
    expect(finding).toMatchObject({ kind: 'crash', message: expect.stringMatching(/^Error: planted\n/) });
    expect(Buffer.from(finding!.input).toString('hex')).toMatch(/^80ff/);
  });
});

it('makes the same inputs of the same seed, and others of another', () => {
  const inputs = (seed: number): string[] => {
    const random = new Random(seed);
    const input = Buffer.from('some bytes to begin with');
    return Array.from({ length: 50 }, () =>
      mutated(input, { other: input, random, maxBytes: 100 }).toString('hex'),
    );
  };
  expect(inputs(1)).toEqual(inputs(1));
  expect(inputs(2)).not.toEqual(inputs(1));
  expect(inputs(1).every((hex) => hex.length <= 200)).toBe(true);
  expect(new Set(inputs(1)).size).toBeGreaterThan(40);
});
