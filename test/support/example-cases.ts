import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { projectRoot } from './documents.ts';

export const examplesFolder: string = join(projectRoot, 'examples');

/** Names of the folders in examples/ that are a case: they have a manifest of their own. */
export const exampleCases: readonly string[] = readdirSync(examplesFolder)
  .filter((name) => existsSync(join(examplesFolder, name, 'manifest.yaml')))
  .sort();

/** Text of a file of an example. */
export function readExample(...path: string[]): string {
  return readFileSync(join(examplesFolder, ...path), 'utf8');
}

/** Text of the rules of a case. */
export function exampleRules(name: string): string {
  return readExample(name, 'rules', `${name}.yaml`);
}
