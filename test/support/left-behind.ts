/**
 * The setup of all tests: a file whose tests pass leaves no program and nothing in the temporary folder. Each process of tests has its
 * own temporary folder, which its programs inherit. Programs are recognized by that folder in their environment.
 */
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, type RunnerTestSuite } from 'vitest';
import { deleteWithUs } from './end-with-us.ts';
import { LoadedDeadline } from './machine-load.ts';

/** For programs that end because the program that started them has ended. Chosen. */
const endingMs = 2_000;
/** More than the machine's load can make of it. */
const hookTimeoutMs = 120_000;

/** Files that share a process also share the folder. */
const shared = globalThis as { temporaryFolder?: string };
shared.temporaryFolder ??= ownTemporaryFolder();
const folder = shared.temporaryFolder;
/** If no test of a file runs, its hooks do not run either, and its folders stay. */
const entriesBefore = new Set(readdirSync(folder));

function ownTemporaryFolder(): string {
  const created = mkdtempSync(join(tmpdir(), 'weir-tests-of-process-'));
  // Servers that root starts may become other users.
  chmodSync(created, 0o755);
  deleteWithUs(created);
  process.env['TMPDIR'] = created;
  return created;
}

/** Running programs of this process and their command lines, by process ID. None if the system has no /proc. */
function programs(): Map<string, string> {
  const found = new Map<string, string>();
  if (!existsSync('/proc/self/environ')) return found;
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    if (Number(pid) === process.pid) continue;
    try {
      const environment = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
      if (!environment.includes(`TMPDIR=${folder}`)) continue;
      found.set(pid, readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim());
    } catch {
      // The process has ended, or belongs to another user.
    }
  }
  return found;
}

interface Left {
  programs: Map<string, string>;
  entries: string[];
}

/** Waits for programs that are ending, and for the folders that end with them. */
async function whatIsLeft(startsPrograms: boolean): Promise<Left> {
  const deadline = new LoadedDeadline(endingMs);
  for (;;) {
    const left = {
      programs: startsPrograms ? programs() : new Map<string, string>(),
      entries: readdirSync(folder).filter((name) => !entriesBefore.has(name)),
    };
    if (left.programs.size + left.entries.length === 0 || deadline.isOver) return left;
    await sleep(20);
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has ended.
  }
}

/** A failed try may leave what the next one does not. */
function hasFailedTry({ tasks }: Pick<RunnerTestSuite, 'tasks'>): boolean {
  return tasks.some((task) =>
    task.type === 'suite' ? hasFailedTry(task) : (task.result?.errors?.length ?? 0) > 0,
  );
}

// Registered before the hooks of the file, so it runs after them.
// biome-ignore lint/correctness/noEmptyPattern: vitest reads which fixtures a hook needs from its first parameter.
afterAll(async ({}, suite) => {
  // Tests beside the sources start no programs, and a look at all processes takes 5 ms.
  const left = await whatIsLeft(suite.file.projectName !== 'unit');
  for (const pid of left.programs.keys()) kill(Number(pid));
  for (const name of left.entries) rmSync(join(folder, name), { recursive: true, force: true });
  const lines = [
    ...[...left.programs].map(([pid, command]) => `the program ${pid}: ${command}`),
    ...left.entries.map((name) => `${name} in the temporary folder`),
  ];
  if (lines.length > 0 && !hasFailedTry(suite))
    throw new Error(`The tests of this file pass, but leave:\n${lines.join('\n')}`);
}, hookTimeoutMs);
