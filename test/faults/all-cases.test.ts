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

function isCase(value: unknown): value is FaultCase {
  return typeof value === 'object' && value !== null && 'prepare' in value;
}
