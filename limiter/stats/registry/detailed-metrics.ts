/**
 * The metrics that are made of values of requests, in the order of their last use. Use is noted once a period, so that
 * a busy metric costs one comparison: within a period the order is that of the first use.
 */
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
