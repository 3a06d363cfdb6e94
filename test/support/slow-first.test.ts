import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { projectRoot } from '../../scripts/commands.ts';
import { slowFiles } from './slow-first.ts';

it('the slow files are there', () => {
  expect(slowFiles.filter((path) => !existsSync(join(projectRoot, path)))).toEqual([]);
});
