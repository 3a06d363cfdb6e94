/** The command line of `npm run faults`, and when a fault comes. Pure. */
import { seededRandom } from '../../bench/zipf.ts';
import { defineFlags, FlagError, type ScriptFlags } from '../support/script-flags.ts';
import type { FaultCase } from './fault-case.ts';
import type { FaultPace } from './fault-run.ts';

export interface FaultOptions {
  cases: readonly FaultCase[];
  /** Undefined: every fault comes and ends when those in the document did. */
  seed: number | undefined;
  write: boolean;
}

/** Describes the command line. `known`: the cases that it can name. */
export function faultFlags(known: readonly FaultCase[]): ScriptFlags<FaultOptions> {
  const names = known.map(({ name }) => name);
  return defineFlags({
    help: `Usage: npm run faults -- [case ...] [flags]

Runs a limiter under load while something happens to its store, all cases or the named ones, and prints the figures. Needs the
servers of npm run test:servers.

  --seed <n>  draws when each fault comes and how long it lasts, 1 to 2147483647 (default: after 2.3 s, for 2 s)
  --write     writes the figures into docs/reliability.md; for all cases, without --seed

The cases:

${known.map(({ name, what }) => `  ${name}: ${what}`).join('\n')}

Exit status: 0 when all bounds held, 1 when one did not, 2 for a wrong command line.
`,
    rows: {
      seed: { type: 'number', min: 1, max: 2 ** 31 - 1, whole: true },
      write: { type: 'boolean' },
    },
    takesWords: true,
    read: ({ seed, write }, chosen) => {
      const unknown = chosen.filter((name) => !names.includes(name));
      if (unknown.length > 0)
        throw new FlagError(`there is no case ${unknown.join(', ')}; there are ${names.join(', ')}`);
      if (write && (chosen.length > 0 || seed !== undefined))
        throw new FlagError(
          '--write takes all cases, and no --seed: the document has one table of comparable figures',
        );
      return {
        cases: known.filter(({ name }) => chosen.length === 0 || chosen.includes(name)),
        seed,
        write,
      };
    },
  });
}

const documentPace: FaultPace = { perSecond: 1000, quietMs: 1500, outageMs: 2000 };

/** Returns the pace of each case: with a seed, rest and outage last from 0.6 to 1.6 times as long. */
export function faultPaces(seed: number | undefined): () => FaultPace {
  if (seed === undefined) return () => documentPace;
  const random = seededRandom(seed);
  const drawn = (ms: number): number => Math.round(ms * (0.6 + random()));
  return () => ({
    ...documentPace,
    quietMs: drawn(documentPace.quietMs),
    outageMs: drawn(documentPace.outageMs),
  });
}
