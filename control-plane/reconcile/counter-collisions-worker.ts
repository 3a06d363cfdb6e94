/** The thread that searches for objects whose rules could count in one key. */
import { parentPort, workerData } from 'node:worker_threads';
import { collisionsOf, type EncodedObjects } from './counter-collisions.ts';

parentPort?.postMessage(collisionsOf(workerData as EncodedObjects));
