/**
 * Objects of one fleet whose rules could count in one compatible key. The search takes a second of CPU time for 100,000 rules, so
 * it runs in a thread (`counter-collisions-worker.ts`) with bounded memory.
 */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { decodeResource } from '../../rules/reader/resource.ts';
import {
  type CollisionBounds,
  collidingCounters,
  collisionBounds,
} from '../../rules/review/colliding-counters.ts';

/** Two objects, or one object twice, by their positions in the input, and the key of one rule of each. */
export interface ObjectCollision {
  first: { object: number; keys: string };
  second: { object: number; keys: string };
}

/** The rules of each object in the form that limiters get, one after another. It is plain data, because it is sent to the thread. */
export interface EncodedObjects {
  bytes: Uint8Array;
  /** The position where the rules of each object end. */
  ends: readonly number[];
}

/** Chosen: 100,000 rules need a third of it. */
const maxHeapMiB = 256;
/** Chosen: the number of pairs of objects that are reported. */
const bounds: CollisionBounds = { ...collisionBounds, pairs: 1_000, onePerSources: true };

export function encodedObjects(rules: readonly Uint8Array[]): EncodedObjects {
  const ends: number[] = [];
  let end = 0;
  for (const { length } of rules) {
    end += length;
    ends.push(end);
  }
  const bytes = new Uint8Array(end);
  for (const [index, one] of rules.entries()) bytes.set(one, ends[index]! - one.length);
  return { bytes, ends };
}

/** Blocks for a time proportional to the number of rules. */
export function collisionsOf({ bytes, ends }: EncodedObjects): ObjectCollision[] {
  const sources = ends.map((end, index) => decodeResource(bytes.subarray(ends[index - 1] ?? 0, end)));
  return collidingCounters(sources, bounds).pairs.map(({ first, second }) => ({
    first: { object: first.source, keys: first.keys },
    second: { object: second.source, keys: second.keys },
  }));
}

export interface CollisionSearch {
  /** Rejects if the thread failed or was stopped. */
  readonly found: Promise<ObjectCollision[]>;
  stop(): void;
}

export function searchInThread(objects: EncodedObjects): CollisionSearch {
  const { promise, resolve, reject } = Promise.withResolvers<ObjectCollision[]>();
  try {
    // The extension is `.ts` when run from source, and `.js` in the package.
    const program = new URL(`./counter-collisions-worker${extname(import.meta.url)}`, import.meta.url);
    const worker = new Worker(program, {
      name: 'counter-collisions',
      workerData: objects,
      resourceLimits: { maxOldGenerationSizeMb: maxHeapMiB },
    });
    worker.on('message', resolve);
    worker.on('error', reject);
    worker.on('exit', () => reject(new Error('the thread ended without a result')));
    return { found: promise, stop: () => void worker.terminate() };
  } catch (error) {
    reject(error);
    return { found: promise, stop: () => {} };
  }
}
