/** The thread of one load: reads, checks and compiles the files, returns the bytes, reviews the rules, and ends. */
import { workerData } from 'node:worker_threads';
import { endLoad } from '../load-thread.ts';
import { type LoadRequest, loadRules } from './load-rules.ts';

const request = workerData as LoadRequest;
const load = loadRules(request);
const { outcome } = load;
endLoad(load, { ...request, transfer: outcome.ok ? [outcome.bytes] : [] });
