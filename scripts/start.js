// `npm start`: a limiter that counts in memory, with the rules in examples/. Plain JavaScript, see bin/program.js.
import { refuseOldNode } from '../bin/program.js';

refuseOldNode();
const { startDemo } = await import('./demo.ts');
await startDemo();
