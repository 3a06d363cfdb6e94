/**
 * The thread that ends a process of tests whose main thread computes without end. It measures processor time, because a busy machine
 * makes everything take longer.
 */
import { workerData } from 'node:worker_threads';

/** Of one test. Chosen: the most expensive one takes two without a mutant. */
const maxSeconds = 10;

/** Changes whenever the main thread does something else. */
const turns = workerData;
let lastTurn = -1;
let start = process.cpuUsage();
setInterval(() => {
  const turn = Atomics.load(turns, 0);
  const { user, system } = process.cpuUsage(start);
  if (turn !== lastTurn) {
    lastTurn = turn;
    start = process.cpuUsage();
  } else if (user + system > maxSeconds * 1e6) process.kill(process.pid, 'SIGKILL');
}, 200);
