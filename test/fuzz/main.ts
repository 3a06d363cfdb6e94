/**
 * `npm run fuzz`: every target in turn, until something is found or Ctrl-C.
 * `npm run fuzz -- hpack --seconds 3600 --seed 7 --rounds 1`; `--save` keeps inputs with new outcomes in the corpus.
 * `npm run fuzz -- --replay test/fuzz/corpus/hpack/crash-0123456789ab.bin` runs one input.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readCorpus, saveInput, targetOf } from './corpus.ts';
import type { FuzzTarget } from './fuzz-target.ts';
import type { FuzzResult } from './fuzz-worker.ts';
import { fuzzTarget } from './fuzzing.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '60' },
    rounds: { type: 'string', default: 'Infinity' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    save: { type: 'boolean', default: false },
    replay: { type: 'string' },
    corpus: { type: 'string', default: fileURLToPath(new URL('./corpus', import.meta.url)) },
    targets: { type: 'string', default: fileURLToPath(new URL('./targets.ts', import.meta.url)) },
  },
});
const targetsUrl = new URL(`file://${resolve(values.targets)}`).href;
const { fuzzTargets } = (await import(targetsUrl)) as { fuzzTargets: readonly FuzzTarget[] };
const known = fuzzTargets.map(({ name }) => name);
const chosen = positionals.length > 0 ? positionals : known;
const unknown = chosen.find((name) => !known.includes(name));
if (unknown !== undefined) {
  console.error(`there is no target ${unknown}; there are ${known.join(', ')}`);
  process.exit(2);
}

/** Prints what happened, keeps an input that found something; whether it did. */
function report(target: string, seed: number, result: FuzzResult): boolean {
  const { finding, runs, outcomes, blocks, novel } = result;
  if (finding === undefined) {
    if (values.save) for (const input of novel) saveInput(values.corpus, target, 'new', input);
    console.log(
      `${target}: ${runs} inputs, ${outcomes} outcomes, ${blocks} blocks, seed ${seed}: nothing found`,
    );
    return false;
  }
  const path = saveInput(values.corpus, target, finding.kind, finding.input);
  console.log(`${target}: ${finding.kind} after ${runs} inputs, seed ${seed}: ${finding.message}`);
  console.log(`replay it with: npm run fuzz -- --replay ${path}`);
  return true;
}

async function replay(path: string): Promise<void> {
  const [target, corpus] = [targetOf(resolve(path)), [Uint8Array.from(readFileSync(path))]];
  const { finding } = await fuzzTarget({ targetsUrl, target, corpus, seed: 0, seconds: 0 });
  console.log(
    finding === undefined ? `${target}: nothing found` : `${target}: ${finding.kind}: ${finding.message}`,
  );
  process.exitCode = finding === undefined ? 0 : 1;
}

async function fuzzInTurn(): Promise<void> {
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const target of chosen) {
      const seed = Number(values.seed) + round;
      const corpus = [...readCorpus(values.corpus, target), ...(found.get(target) ?? [])];
      const result = await fuzzTarget({ targetsUrl, target, corpus, seed, seconds: Number(values.seconds) });
      if (report(target, seed, result)) process.exit(1);
      found.set(target, [...(found.get(target) ?? []), ...result.novel].slice(-2000));
    }
  }
}

/** Inputs with new outcomes: they begin the next round. */
const found = new Map<string, Uint8Array[]>();
if (values.replay === undefined) await fuzzInTurn();
else await replay(values.replay);
