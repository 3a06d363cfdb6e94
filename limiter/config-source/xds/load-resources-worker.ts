/**
 * The thread of one large response. It decodes, checks and compiles the response, hands the bytes over, reviews the rules, and
 * ends.
 */
import { workerData } from 'node:worker_threads';
import { endLoad } from '../load-thread.ts';
import { loadResources, type ResourcesRequest } from './load-resources.ts';

const request = workerData as ResourcesRequest;
const load = loadResources(request);
const rules = load.outcome.ok ? load.outcome.rules : undefined;
endLoad(load, { ...request, transfer: rules === undefined ? [] : [rules.bytes] });
