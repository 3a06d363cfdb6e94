/** The thread of one load: reads, checks and compiles, hands the bytes over, and ends. */
import { parentPort, workerData } from 'node:worker_threads';
import { type LoadRequest, loadRules } from './load-rules.ts';

const outcome = loadRules(workerData as LoadRequest);
parentPort?.postMessage(outcome, outcome.ok ? [outcome.bytes] : []);
