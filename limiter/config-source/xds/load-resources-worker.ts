/** The thread of one large response: decodes, checks and compiles, hands the bytes over, and ends. */
import { parentPort, workerData } from 'node:worker_threads';
import { loadResources, type ResourcesRequest } from './load-resources.ts';

const outcome = loadResources(workerData as ResourcesRequest);
parentPort?.postMessage(outcome, outcome.ok && outcome.rules !== undefined ? [outcome.rules.bytes] : []);
