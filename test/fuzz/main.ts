/** `npm run fuzz`: every target in turn, until something is found or Ctrl-C. fuzz-options.ts says what it takes. */
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { explaining, FlagError, scriptFlags } from '../support/script-flags.ts';
import { readCorpus, saveInput, targetOf } from './corpus.ts';
import { chosenTargets, fuzzFlags } from './fuzz-options.ts';
import { FuzzTally, progressText } from './fuzz-tally.ts';
import type { FuzzTarget } from './fuzz-target.ts';
import type { FuzzResult } from './fuzz-worker.ts';
import { fuzzTarget } from './fuzzing.ts';

const { help } = fuzzFlags;
const options = scriptFlags(fuzzFlags);
const targetsUrl = new URL(`file://${resolve(options.targetsFile)}`).href;
const { fuzzTargets } = (await import(targetsUrl)) as { fuzzTargets: readonly FuzzTarget[] };
const known = fuzzTargets.map(({ name }) => name);

/** Prints what happened, keeps an input that found something; whether it did. */
function report(target: string, seed: number, result: FuzzResult): boolean {
  const { finding, runs, novel } = result;
  if (finding === undefined) {
    if (options.save) for (const input of novel) saveInput(options.corpusFolder, target, 'new', input);
    console.log(`${target}: ${progressText(result)}, seed ${seed}: nothing found`);
    return false;
  }
  const path = saveInput(options.corpusFolder, target, finding.kind, finding.input);
  console.log(`${target}: ${finding.kind} after ${runs} inputs, seed ${seed}: ${finding.message}`);
  console.log(`replay it with: npm run fuzz -- --replay ${path}`);
  return true;
}

async function replay(path: string): Promise<boolean> {
  const target = explaining(help, () => {
    if (!existsSync(path)) throw new FlagError(`--replay: there is no file ${path}`);
    return chosenTargets([targetOf(resolve(path))], known)[0]!;
  });
  const corpus = [Uint8Array.from(readFileSync(path))];
  const { finding } = await fuzzTarget({ targetsUrl, target, corpus, seed: 0, seconds: 0 });
  console.log(
    finding === undefined ? `${target}: nothing found` : `${target}: ${finding.kind}: ${finding.message}`,
  );
  return finding !== undefined;
}

/** Whether something was found. */
async function fuzzInTurn(chosen: readonly string[], signal: AbortSignal): Promise<boolean> {
  const tally = new FuzzTally();
  const startMs = performance.now();
  let isFound = false;
  for (let round = 0; round < options.rounds && !isFound; round++) {
    for (const target of chosen) {
      if (isFound || signal.aborted) break;
      const seed = options.seed + round;
      const corpus = [...readCorpus(options.corpusFolder, target), ...(novelInputs.get(target) ?? [])];
      const result = await fuzzTarget({
        ...{ targetsUrl, target, corpus, seed, seconds: options.seconds, signal },
        progressMs: 1000 * options.progress,
        progress: (reached) => console.log(`${target}: ${progressText(reached)}, so far`),
      });
      isFound = report(target, seed, result);
      tally.add(target, result);
      novelInputs.set(target, [...(novelInputs.get(target) ?? []), ...result.novel].slice(-2000));
    }
    if (signal.aborted) break;
  }
  console.log(tally.summary((performance.now() - startMs) / 1000, isFound));
  return isFound;
}

/** Ctrl-C ends the turn, another the process: not one of the same moment, as npm hands on what the terminal sends as well. */
function endOnInterrupt(): AbortSignal {
  const controller = new AbortController();
  let firstMs = Number.POSITIVE_INFINITY;
  process.on('SIGINT', () => {
    controller.abort();
    firstMs = Math.min(firstMs, performance.now());
    if (performance.now() - firstMs > 500) process.exit(130);
  });
  return controller.signal;
}

/** Inputs with new outcomes: they begin the next round. */
const novelInputs = new Map<string, Uint8Array[]>();
const isFound =
  options.replay === undefined
    ? await fuzzInTurn(
        explaining(help, () => chosenTargets(options.targets, known)),
        endOnInterrupt(),
      )
    : await replay(options.replay);
process.exit(isFound ? 1 : 0);
