/**
 * The metric keys and their slots. Metrics of rules stay. Metrics made of values of requests are bounded in number: a new one replaces
 * an idle one. If none is idle, the new one counts in the overflow until there is room.
 */
import { sanitizeMetricKey } from '../../../rules/match-result.ts';
import { NameBudget } from './name-budget.ts';
import type { RuleMetric } from './rule-stats.ts';

interface Member extends RuleMetric {
  before: Member;
  after: Member;
}

/**
 * The metrics made of values of requests, in the order of their last use. Use is recorded once a period, so that a busy metric costs one
 * comparison. Within a period the order is that of the first use.
 */
class DetailedMetrics {
  readonly max: number;
  readonly #byName = new Map<string, Member>();
  /** The end of the list: it comes before the least recently used metric and after the most recently used one. */
  readonly #ends: Member;
  /** The current period. A metric that was not used in it is idle. */
  period = 1;

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

  all(): Iterable<RuleMetric> {
    return this.#byName.values();
  }

  /** Returns the metric and records its use. */
  get(name: string): RuleMetric | undefined {
    const member = this.#byName.get(name);
    if (member !== undefined && member.lastUse < this.period) this.#used(member);
    return member;
  }

  /** The name must be new. */
  add(name: string, slot: number): RuleMetric {
    const member = { key: name, slot, lastUse: this.period } as Member;
    this.#append(member);
    this.#byName.set(name, member);
    return member;
  }

  /** Records the use of a metric in this list. */
  use(metric: RuleMetric): void {
    this.#used(metric as Member);
  }

  /** Removes and returns the metric that was idle longest. Returns undefined if each was used in this period. */
  takeIdle(): RuleMetric | undefined {
    const oldest = this.#ends.after;
    if (oldest === this.#ends || oldest.lastUse >= this.period) return undefined;
    this.#remove(oldest);
    return oldest;
  }

  /** Removes and returns a metric, regardless of its last use. */
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
    member.lastUse = this.period;
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

/** Replaces metric keys and domains that do not fit. */
export const overflowKey = '_overflow';

export interface RuleMetricsOptions {
  maxDetailed: number;
  /** The memory of all names. */
  maxNameBytes: number;
  /** Whether the slots of a metric that left can be used again at once. Otherwise they wait for `reuse`. */
  reuseAtOnce: boolean;
  /** Adds adjacent slots for a new metric and returns the first. */
  addSlots(name: string): number;
  /** Frees slots: they have no metric from now on. */
  leaveSlots(first: number): void;
  /** Gives free slots to a metric, for which they count from 0. */
  reuseSlots(first: number, name: string): void;
}

export class RuleMetrics {
  /** The number of metrics that were replaced so far. */
  left = 0;
  /** Called each time a metric could not be created. */
  onRejected: () => void = () => {};
  readonly #options: RuleMetricsOptions;
  /** Metrics of rules, by metric key as given, and by name. */
  readonly #rules = new Map<string, RuleMetric>();
  readonly detailed: DetailedMetrics;
  readonly #detailedSlots = new Set<number>();
  readonly #budget: NameBudget;
  #free: number[] = [];
  /** Free slots that may not be used yet, in the order in which they were freed. */
  #waiting: number[] = [];

  constructor(options: RuleMetricsOptions) {
    this.#options = options;
    this.detailed = new DetailedMetrics(options.maxDetailed);
    this.#budget = new NameBudget(options.maxNameBytes);
  }

  /** The current number of metrics made of values of requests. */
  get size(): number {
    return this.detailed.size;
  }

  /** Returns the metric of a rule, if there is one. */
  find(key: string): RuleMetric | undefined {
    return this.#rules.get(key) ?? this.#rules.get(sanitizeMetricKey(key));
  }

  metric(key: string, perValue: boolean): RuleMetric {
    const known = this.#rules.get(key);
    if (known !== undefined) return known;
    if (!perValue) return this.#rule(key, sanitizeMetricKey(key));
    return this.detailed.get(key) ?? this.metricNamed(sanitizeMetricKey(key), true);
  }

  metricNamed(name: string, perValue: boolean): RuleMetric {
    const known = this.#rules.get(name);
    if (known !== undefined) return known;
    return perValue ? (this.detailed.get(name) ?? this.#newDetailed(name)) : this.#rule(name, name);
  }

  /** Returns the first slot of a metric that was not used in this period yet, or has left. */
  slotInUse(metric: RuleMetric): number {
    if (metric.lastUse < 0) return this.metricNamed(metric.key, true).slot;
    this.detailed.use(metric);
    return metric.slot;
  }

  isDetailed(first: number): boolean {
    return this.#detailedSlots.has(first);
  }

  reuse(count: number): void {
    this.#free.push(...this.#waiting.splice(0, count));
  }

  #rule(key: string, name: string): RuleMetric {
    if (!this.#budget.take(key)) return this.#overflow();
    const metric = this.#rules.get(name) ?? this.#promoted(name) ?? this.#addRule(name);
    this.#rules.set(key, metric);
    return metric;
  }

  #addRule(name: string): RuleMetric {
    const slot = this.#options.addSlots(name);
    const metric: RuleMetric = { key: name, slot, lastUse: Number.POSITIVE_INFINITY };
    this.#rules.set(name, metric);
    return metric;
  }

  /**
   * Makes a metric permanent if a rule has the name of a metric whose name contains values of requests, because both are the same series.
   */
  #promoted(name: string): RuleMetric | undefined {
    const metric = this.detailed.take(name);
    if (metric === undefined) return undefined;
    metric.lastUse = Number.POSITIVE_INFINITY;
    this.#detailedSlots.delete(metric.slot);
    this.#rules.set(name, metric);
    return metric;
  }

  #overflow(): RuleMetric {
    return this.#rules.get(overflowKey) ?? this.#addRule(overflowKey);
  }

  #newDetailed(name: string): RuleMetric {
    if (this.#hasRoom() && this.#budget.take(name)) return this.detailed.add(name, this.#slotFor(name));
    this.onRejected();
    return { key: name, slot: this.#overflow().slot, lastUse: -1 };
  }

  #slotFor(name: string): number {
    const free = this.#free.pop();
    if (free !== undefined) {
      this.#options.reuseSlots(free, name);
      return free;
    }
    const added = this.#options.addSlots(name);
    this.#detailedSlots.add(added);
    return added;
  }

  /** Returns false if no metric is idle, or if the maximum number of freed slots still waits for the thread that reads them. */
  #hasRoom(): boolean {
    const { max, size } = this.detailed;
    if (size < max) return true;
    if (this.#waiting.length >= this.detailed.max) return false;
    const idle = this.detailed.takeIdle();
    if (idle === undefined) return false;
    const { key, slot } = idle;
    this.#budget.give(key);
    this.#options.leaveSlots(slot);
    idle.slot = this.#overflow().slot;
    idle.lastUse = -1;
    this.left += 1;
    if (this.#options.reuseAtOnce) this.#free.push(slot);
    else this.#waiting.push(slot);
    return true;
  }
}
