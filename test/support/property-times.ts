/** What properties take of a processor. hang-guard.ts allows a multiple of it; `npm run properties -- --write-times` writes it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The part of the cases that a property names which `npm test` runs, and for which the times are recorded. */
export const gateTimes = 0.5;

/** Seconds of the most expensive property of each file. */
export const propertyTimesFile: string = join(import.meta.dirname, 'property-times.json');

/** Chosen: few files have a property that takes more. The others have no row, so that the table changes rarely. */
export const minSeconds = 0.5;

const recorded = JSON.parse(readFileSync(propertyTimesFile, 'utf8')) as Record<string, number>;

export function recordedSeconds(file: string): number {
  return Math.max(minSeconds, recorded[file] ?? 0);
}
