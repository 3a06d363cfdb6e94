import { readdirSync } from 'node:fs';
import { expect, it } from 'vitest';
import { allCases } from './all-cases.ts';
import type { FaultCase } from './fault-case.ts';

const folder = new URL('./cases/', import.meta.url);

it('every case of every file is in the table, once', async () => {
  const found: FaultCase[] = [];
  for (const file of readdirSync(folder)) {
    const exported = Object.values(await import(new URL(file, folder).href)) as unknown[];
    for (const value of exported) if (Array.isArray(value)) found.push(...value.filter(isCase));
  }
  expect(allCases.map(({ name }) => name).toSorted()).toEqual(found.map(({ name }) => name).toSorted());
  expect(new Set(allCases.map(({ name }) => name)).size).toBe(allCases.length);
});

it('a case outside of the gate names one that runs there', () => {
  const inGate = allCases.filter(({ guardedBy }) => guardedBy === undefined).map(({ name }) => name);
  const guards = allCases.flatMap(({ guardedBy }) => guardedBy ?? []);
  expect(guards.filter((name) => !inGate.includes(name))).toEqual([]);
});

function isCase(value: unknown): value is FaultCase {
  return typeof value === 'object' && value !== null && 'prepare' in value;
}
