/**
 * The metrics that are made of values of requests, in the order of their last use. Use is noted once a period, so that
 * a busy metric costs one comparison: within a period the order is that of the first use.
 */

import { EventEmitter } from 'node:events';
import { write } from 'node:fs';
import type { RuleMetric } from './rule-stats.ts';

interface Member extends RuleMetric {
  before: Member;
  after: Member;
}

export class DetailedMetrics {
  readonly max: number;
  readonly #byName = new Map<string, Member>();
  /** Before the least recently used and behind the most recently used one. */
  readonly #ends: Member;
  #period = 1;

  constructor(max: number) {
    this.max = max;
    const ends = { key: '', slot: 0, lastUse: Number.POSITIVE_INFINITY } as Member;
    ends.before = ends;
    ends.after = ends;
    this.#ends = ends;
  }

  get size(): number {
    return this.#byName.size;
  }

  get period(): number {
    return this.#period;
  }

  /** What was not used since the last call but one is idle from now on. */
  nextPeriod(): void {
    this.#period += 1;
  }

  /** The metric, now in use. */
  get(name: string): RuleMetric | undefined {
    const member = this.#byName.get(name);
    if (member !== undefined && member.lastUse < this.#period) this.#used(member);
    return member;
  }

  /** The name must be new. */
  add(name: string, slot: number): RuleMetric {
    const member = { key: name, slot, lastUse: this.#period } as Member;
    this.#append(member);
    this.#byName.set(name, member);
    return member;
  }

  /** Notes that a metric that is here is in use. */
  use(metric: RuleMetric): void {
    this.#used(metric as Member);
  }

  /** The one that was idle for longest, taken out; undefined when each was used in this period. */
  takeIdle(): RuleMetric | undefined {
    const oldest = this.#ends.after;
    if (oldest === this.#ends || oldest.lastUse >= this.#period) return undefined;
    this.#remove(oldest);
    return oldest;
  }

  /** Taken out whatever its last use. */
  take(name: string): RuleMetric | undefined {
    const member = this.#byName.get(name);
    if (member !== undefined) this.#remove(member);
    return member;
  }

  #remove(member: Member): void {
    this.#unlink(member);
    this.#byName.delete(member.key);
  }

  #used(member: Member): void {
    member.lastUse = this.#period;
    this.#unlink(member);
    this.#append(member);
  }

  #unlink({ before, after }: Member): void {
    before.after = after;
    after.before = before;
  }

  #append(member: Member): void {
    const last = this.#ends.before;
    member.before = last;
    member.after = this.#ends;
    last.after = member;
    this.#ends.before = member;
  }
}

// Writes to a file descriptor off the event loop, one piece at a time: process.stdout would hold up the whole process
// while nobody empties the pipe behind it.

/** What is needed of a stream. It emits `drain` when it likes to have more. */
export interface OutputStream extends EventEmitter {
  /** False when it has more to write than it likes. */
  write(text: string): boolean;
  /** Settles when all is written, or cannot be. */
  settled(): Promise<void>;
}

/** As much may wait before it says that it has enough. */
const waitingLength = 64 * 1024;
/** After a reader that is not ready. */
const retryMs = 50;

export class DescriptorOutput extends EventEmitter implements OutputStream {
  readonly #descriptor: number;
  #waiting = '';
  #isWriting = false;
  #isBroken = false;
  #settle: (() => void)[] = [];

  constructor(descriptor: number) {
    super();
    this.#descriptor = descriptor;
  }

  write(text: string): boolean {
    if (this.#isBroken) return true;
    this.#waiting += text;
    if (!this.#isWriting) this.#writeWaiting();
    return this.#waiting.length <= waitingLength;
  }

  settled(): Promise<void> {
    if (!this.#isWriting) return Promise.resolve();
    return new Promise((resolve) => this.#settle.push(resolve));
  }

  #writeWaiting(): void {
    if (this.#waiting === '') {
      this.#isWriting = false;
      this.emit('drain');
      for (const settle of this.#settle.splice(0)) settle();
      return;
    }
    this.#isWriting = true;
    const bytes = Buffer.from(this.#waiting);
    this.#waiting = '';
    this.#writeBytes(bytes);
  }

  #writeBytes(bytes: Buffer): void {
    write(this.#descriptor, bytes, (error, written) => {
      if (error?.code === 'EAGAIN') {
        setTimeout(() => this.#writeBytes(bytes), retryMs);
        return;
      }
      // Nobody will ever read what is written now.
      if (error) this.#isBroken = true;
      if (this.#isBroken) this.#waiting = '';
      if (error || written === bytes.length) this.#writeWaiting();
      else this.#writeBytes(bytes.subarray(written));
    });
  }
}
