import { fileURLToPath } from 'node:url';
import { defineFlags, FlagError } from '../support/script-flags.ts';

const path = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

export const fuzzFlags = defineFlags({
  help: `Usage: npm run fuzz -- [target ...] [flags]

Mutates inputs of what parses bytes from the network, each target in turn, until something is found or Ctrl-C, which
ends with a summary. An input must not crash, take 10 s of a processor, or leave memory behind.

  hpack, connection, grpc-message, rate-limit-request, delta-xds   the targets (default all of them)
  --seconds <n>      how long one target has its turn, 0.1 to 86400 (default 60)
  --rounds <n>       turns of every target, 1 to 1000000 (default: no end)
  --seed <n>         of the first round, 0 to 4294967295; a round has the next one (default: by the clock)
  --progress <n>     seconds between two lines about the progress, 0.1 to 3600 (default 10)
  --save             keep inputs with new outcomes in the corpus
  --replay <file>    run this one input, as a finding reports
  --corpus <folder>  inputs to begin with, a folder a target; findings go there (default test/fuzz/corpus)
  --targets <file>   the module that exports them (default test/fuzz/targets.ts)

Such a line says: inputs run, different outcomes and blocks of code reached so far.
Exit status: 0 when nothing was found, 1 when something was, 2 for a wrong command line.
`,
  rows: {
    seconds: { type: 'number', min: 0.1, max: 86_400, default: 60 },
    rounds: { type: 'number', min: 1, max: 1_000_000, whole: true, default: Number.POSITIVE_INFINITY },
    seed: { type: 'number', min: 0, max: 4_294_967_295, whole: true, default: Date.now() % 1_000_000 },
    progress: { type: 'number', min: 0.1, max: 3600, default: 10 },
    save: { type: 'boolean' },
    replay: { type: 'string' },
    corpus: { type: 'string', default: path('./corpus') },
    targets: { type: 'string', default: path('./targets.ts') },
  },
  takesWords: true,
  read: ({ corpus: corpusFolder, targets: targetsFile, ...others }, targets) => {
    return { ...others, corpusFolder, targetsFile, targets };
  },
});

/** @throws FlagError when one of them is not there */
export function chosenTargets(wanted: readonly string[], known: readonly string[]): readonly string[] {
  const unknown = wanted.find((name) => !known.includes(name));
  if (unknown === undefined) return wanted.length > 0 ? wanted : known;
  throw new FlagError(`there is no target ${unknown}; there are ${known.join(', ')}`);
}
