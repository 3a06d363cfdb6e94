/** Does nothing but notice how late its event loop is: what the machine does to any process. */
import './loop-pauses.ts';

console.log('idle');
setInterval(() => {}, 60_000);
process.on('SIGTERM', () => process.exit(0));
