import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { projectRoot } from '../../scripts/commands.ts';
import { LoadedDeadline, machineLoad } from './machine-load.ts';

const folders = ['bench', 'cli', 'control-plane', 'limiter', 'process', 'replay', 'rules', 'test'];
/** Waits of vitest end after a second, and the machine's best speed says nothing about its load. */
const unscaled = /\b(?:expect\.poll|vi\.waitFor|vi\.waitUntil)\(|[tT]imeout\w*[:( ].*machineSlowness\(\)/;

it('no test waits for a time that does not follow the load of the machine', () => {
  const files = folders.flatMap((folder) =>
    readdirSync(join(projectRoot, folder), { recursive: true, encoding: 'utf8' }).map((path) =>
      join(folder, path),
    ),
  );
  // Those of support/ show in a test of their own what such a wait leads to.
  const tests = files.filter((path) => path.endsWith('.ts') && !path.startsWith('test/support/'));
  expect(tests.length).toBeGreaterThan(500);
  const waiting = tests.filter((path) => unscaled.test(readFileSync(join(projectRoot, path), 'utf8')));
  expect(waiting).toEqual([]);
});

it('a deadline does not pass before its time', () => {
  expect(machineLoad()).toBeGreaterThanOrEqual(1);
  expect(new LoadedDeadline(60_000).isOver).toBe(false);
  expect(new LoadedDeadline(-1).isOver).toBe(true);
});
