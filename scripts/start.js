// `npm start`: a limiter that counts in memory, with the rules in examples/. Plain JavaScript, see bin/weir.js.
import { refuseOldNode } from '../bin/node-version.js';

refuseOldNode();
const { startDemo } = await import('./demo.ts');
await startDemo();
