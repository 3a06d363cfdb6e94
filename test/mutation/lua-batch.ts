/**
 * The tests of one file, once for each of some mutants of Lua, in one process. What vitest and the sources cost is paid once. A test that
 * fails ends its mutant. A mutant that loops keeps its server busy without end, so the servers of a test end at its timeout.
 */
import type { ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { subscribe } from 'node:diagnostics_channel';
import { afterAll, afterEach, beforeAll, beforeEach, describe, inject, type RunnerTask } from 'vitest';
import { chosenLua } from './lua-mutants.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Null is the Lua without a mutant. */
    luaBatch: { path: string; mutants: readonly (number | null)[]; hookTimeoutMs: number };
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

/** The servers that the tests of this process have started. */
const servers = new Set<ChildProcess>();
subscribe('child_process', (message) => {
  const { process } = message as { process: ChildProcess };
  servers.add(process);
  process.once('exit', () => servers.delete(process));
});

let callOff = (): void => {};

function endServersIn(ms: number): void {
  callOff();
  const timer = setTimeout(() => {
    for (const server of servers) server.kill('SIGKILL');
  }, ms);
  callOff = () => clearTimeout(timer);
}

function mutantOf(task: RunnerTask): RunnerTask {
  const { suite } = task;
  return suite === undefined || suite === task.file ? task : mutantOf(suite);
}

/** Skips what has not started, with its hooks, which might wait for a server that has ended. */
function skipRest(task: RunnerTask): void {
  if (task.result === undefined) task.mode = 'skip';
  if (task.type === 'suite') for (const inner of task.tasks) skipRest(inner);
}

/** Chosen: the time for the hooks that stop the servers of a mutant that was noticed. */
const stopMs = 5_000;

const { path, mutants, hookTimeoutMs } = inject('luaBatch');
for (const [place, number] of mutants.entries()) {
  describe(`mutant ${number}`, async () => {
    beforeAll(() => {
      chooseAll(number ?? undefined);
      endServersIn(hookTimeoutMs);
    });
    afterAll(() => {
      callOff();
      chooseAll(undefined);
    });
    // This is the first hook before a test and the last one after it.
    beforeEach(({ task }) => endServersIn(task.timeout));
    afterEach(({ task }) => {
      const isNoticed = task.result?.state === 'fail';
      endServersIn(isNoticed ? stopMs : hookTimeoutMs);
      if (isNoticed) skipRest(mutantOf(task));
    });
    await import(/* @vite-ignore */ `${path}?mutant=${place}`);
  });
}
