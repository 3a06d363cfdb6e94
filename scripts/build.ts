/** `npm run build`: dist/ from the sources, for the package and the image. */
import { rmSync } from 'node:fs';
import { mustRun, projectRoot } from './commands.ts';

rmSync(`${projectRoot}dist`, { recursive: true, force: true });
mustRun('tsc', ['-p', 'tsconfig.build.json']);
