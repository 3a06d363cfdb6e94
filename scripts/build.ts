/** `npm run build`: writes dist/ from the sources, for the package and the image. `npm run check` checks types. */
import { rmSync } from 'node:fs';
import { mustRun, projectRoot } from './commands.ts';

rmSync(`${projectRoot}dist`, { recursive: true, force: true });
mustRun('tsc', ['-p', 'tsconfig.build.json', '--noCheck']);
