/**
 * The tests of one file, once for each of some mutants of Lua, in one process. What vitest and the sources cost is paid once. A test that
 * fails ends its mutant.
 */
import { createHash } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, inject } from 'vitest';
import { chosenLua } from './lua-mutants.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Null is the Lua without a mutant. */
    luaBatch: { path: string; mutants: readonly (number | null)[] };
  }
}

interface Script {
  source: string;
  sha1: string;
}

/** With the marks of all mutants, in the order in which modules made them. */
const scripts: { readonly script: Script; readonly marked: string }[] = [];

function choose(script: Script, marked: string, chosen: number | undefined): void {
  script.source = chosenLua(marked, chosen);
  script.sha1 = createHash('sha1').update(script.source).digest('hex');
}

/** What `redisScript` does while mutants are tried. */
Object.assign(globalThis, {
  markedScript: (marked: string): Script => {
    const script = { source: '', sha1: '' };
    choose(script, marked, undefined);
    scripts.push({ script, marked });
    return script;
  },
});

function chooseAll(chosen: number | undefined): void {
  for (const { script, marked } of scripts) choose(script, marked, chosen);
}

const { path, mutants } = inject('luaBatch');
for (const [place, number] of mutants.entries()) {
  describe(`mutant ${number}`, async () => {
    let isNoticed = false;
    beforeAll(() => chooseAll(number ?? undefined));
    afterAll(() => chooseAll(undefined));
    beforeEach(({ skip }) => skip(isNoticed));
    afterEach(({ task }) => {
      isNoticed ||= task.result?.state === 'fail';
    });
    await import(/* @vite-ignore */ `${path}?mutant=${place}`);
  });
}
