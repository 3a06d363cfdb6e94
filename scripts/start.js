// `npm start`: a limiter that counts in memory, with the rules in examples/. Plain JavaScript, see bin/program.js.
import { exitOnOldNode } from '../bin/program.js';

exitOnOldNode();
const { startDemo } = await import('./demo.ts');
await startDemo();
