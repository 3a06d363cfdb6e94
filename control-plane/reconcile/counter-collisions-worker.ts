/** The thread that looks for objects whose rules could count in one key. */
import { parentPort, workerData } from 'node:worker_threads';
import { type EncodedObjects, meetingsOf } from './counter-collisions.ts';

parentPort?.postMessage(meetingsOf(workerData as EncodedObjects));
