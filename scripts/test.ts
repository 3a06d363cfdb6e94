/** `npm test`: gets the servers that the tests talk to, then runs every test; arguments go to vitest. */
import { mustRun, run } from './commands.ts';

mustRun('node', ['scripts/test-servers.ts']);
process.exitCode = run('vitest', ['run', ...process.argv.slice(2)]);
