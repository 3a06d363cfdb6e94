/**
 * All statistics of the process. A counter is a slot of one array: whoever counts holds the slot's number, and
 * adding is one array access. Sinks read the slots; names are put together only when something is written out.
 */
import { sanitizeMetricKey } from './metric-name.ts';
import { NameBudget } from './name-budget.ts';
import { type RuleStats, ruleStatNames } from './rule-stats.ts';
import { SortedNames } from './sorted-names.ts';

export type SlotKind = 'counter' | 'gauge';

/** A duration by name; what is recorded goes to the sinks at once and is kept nowhere. */
export interface Timer {
  readonly name: string;
  /** Counts up from 0 over all timers of a registry. */
  readonly index: number;
  record(value: number): void;
}

export type TimerListener = (timer: Timer, value: number) => void;

export interface StatsRegistryOptions {
  /** Bound of what names from requests may occupy; further ones are counted together. Defaults to 128 MiB. */
  maxRuleNameBytes?: number;
  /** Bound for the names of unknown domains. Defaults to 4 MiB. */
  maxDomainNameBytes?: number;
  /** The values are kept in memory that other threads can read; called with each array that takes the place of another. */
  onSharedValues?: (values: Float64Array<SharedArrayBuffer>) => void;
}

/** What a slot stands for, so that another registry can have it too. `name` is already sanitised. */
export interface SlotName {
  /** A rule has as many slots side by side as `ruleStatNames` says, the others one. */
  kind: 'rule' | 'domain' | SlotKind;
  name: string;
}

/** Stands in for the metric keys and domains that no longer fit. */
const overflowKey = '_overflow';

const rulePrefix = 'ratelimit.service.rate_limit.';
// What a slot is: 0..6 a rule's statistic, otherwise one of these.
const plainCounter = 255;
const plainGauge = 254;
/** A counter whose name came with a request. */
const domainCounter = 253;

export class StatsRegistry implements RuleStats {
  #values: Float64Array;
  #roles = new Uint8Array(1024);
  /** By slot; for a rule its sanitised metric key, at the first of its slots. */
  readonly #names: string[] = [];
  readonly #slots = new Map<string, number>();
  readonly #ruleSlots = new Map<string, number>();
  readonly #domainSlots = new Map<string, number>();
  readonly #ruleBudget: NameBudget;
  readonly #domainBudget: NameBudget;
  readonly #readers: { slot: number; read: () => number }[] = [];
  readonly #sorted = new SortedNames((slot) => this.nameOf(slot));
  readonly #timers = new Map<string, Timer>();
  readonly #timerListeners: TimerListener[] = [];
  readonly #onSharedValues: StatsRegistryOptions['onSharedValues'];

  constructor(options: StatsRegistryOptions = {}) {
    this.#ruleBudget = new NameBudget(options.maxRuleNameBytes ?? 128 * 1024 * 1024);
    this.#domainBudget = new NameBudget(options.maxDomainNameBytes ?? 4 * 1024 * 1024);
    this.#onSharedValues = options.onSharedValues;
    this.#values = this.#moved(new Float64Array(0), 1024);
  }

  /** Slots are numbered from 0 to here; the number only grows. */
  get slotCount(): number {
    return this.#names.length;
  }

  /** Slot of the counter of this name, which is made at the first call. The name is used as it is. */
  counter(name: string): number {
    return this.#slots.get(name) ?? this.#addSlot(name, plainCounter);
  }

  /** A counter that something else keeps: `read` gives its total so far. */
  counterFrom(name: string, read: () => number): void {
    this.#readers.push({ slot: this.counter(name), read });
  }

  gauge(name: string, read: () => number): void {
    const slot = this.#slots.get(name) ?? this.#addSlot(name, plainGauge);
    this.#readers.push({ slot, read });
  }

  timer(name: string): Timer {
    const known = this.#timers.get(name);
    if (known !== undefined) return known;
    const listeners = this.#timerListeners;
    const timer: Timer = {
      name,
      index: this.#timers.size,
      record(value) {
        for (let i = 0; i < listeners.length; i += 1) (listeners[i] as TimerListener)(timer, value);
      },
    };
    this.#timers.set(name, timer);
    return timer;
  }

  /** By index, from `first` on. */
  timerNames(first: number): string[] {
    return [...this.#timers.keys()].slice(first);
  }

  onTimer(listener: TimerListener): void {
    this.#timerListeners.push(listener);
  }

  add(slot: number, amount: number): void {
    this.#values[slot]! += amount;
  }

  ruleSlot(metricKey: string): number {
    return this.#ruleSlots.get(metricKey) ?? this.#newRuleSlot(metricKey, sanitizeMetricKey(metricKey));
  }

  domainNotFound(domain: string): void {
    this.add(this.#domainSlots.get(domain) ?? this.#newDomainSlot(domain), 1);
  }

  nameOf(slot: number): string {
    const role = this.#roles[slot] as number;
    if (role >= domainCounter) return this.#names[slot] as string;
    return `${rulePrefix}${this.#names[slot - role]}.${ruleStatNames[role]}`;
  }

  kindOf(slot: number): SlotKind {
    return this.#roles[slot] === plainGauge ? 'gauge' : 'counter';
  }

  /** Of the slots from `first` on, which begins a name, in their order. */
  slotNames(first: number): SlotName[] {
    const names: SlotName[] = [];
    for (let slot = first; slot < this.slotCount; slot += 1) {
      const role = this.#roles[slot] as number;
      const name = this.#names[slot] as string;
      if (role === plainGauge) names.push({ kind: 'gauge', name });
      else if (role === plainCounter) names.push({ kind: 'counter', name });
      else if (role === domainCounter) names.push({ kind: 'domain', name });
      else if (role === 0) names.push({ kind: 'rule', name });
    }
    return names;
  }

  /** The first slot of what another registry has under this name; made here, within the bounds of names, if need be. */
  slotOf({ kind, name }: SlotName): number {
    if (kind === 'counter') return this.counter(name);
    if (kind === 'gauge') return this.#slots.get(name) ?? this.#addSlot(name, plainGauge);
    if (kind === 'domain') return this.#slots.get(name) ?? this.#newDomainNameSlot(name);
    return this.#ruleSlots.get(name) ?? this.#newRuleSlot(name, name);
  }

  /** The value as of the last `refresh` for what is read from elsewhere; always current for the rest. */
  valueOf(slot: number): number {
    return this.#values[slot] as number;
  }

  /** Reads the gauges and the counters that are kept elsewhere. */
  refresh(): void {
    for (const { slot, read } of this.#readers) this.#values[slot] = read();
  }

  /** `<name>: <value>` for every counter and gauge, by name. Lazy, so that a writer can pause between lines. */
  *statsLines(): Generator<string> {
    this.refresh();
    for (const slot of this.#sorted.slots()) yield `${this.nameOf(slot)}: ${this.valueOf(slot)}`;
  }

  #newRuleSlot(metricKey: string, name: string): number {
    if (!this.#ruleBudget.take(metricKey)) {
      return this.#ruleSlots.get(overflowKey) ?? this.#addRule(overflowKey);
    }
    const slot = this.#ruleSlots.get(name) ?? this.#addRule(name);
    if (name !== metricKey) this.#ruleSlots.set(metricKey, slot);
    return slot;
  }

  #addRule(name: string): number {
    const first = this.slotCount;
    for (let role = 0; role < ruleStatNames.length; role += 1) this.#push(role === 0 ? name : '', role);
    for (let slot = first; slot < this.slotCount; slot += 1) this.#sorted.add(slot);
    this.#ruleSlots.set(name, first);
    return first;
  }

  #newDomainSlot(domain: string): number {
    const key = this.#domainBudget.take(domain) ? domain : overflowKey;
    const slot = this.#domainSlot(`${rulePrefix}${sanitizeMetricKey(key)}.domain_not_found`);
    this.#domainSlots.set(key, slot);
    return slot;
  }

  #newDomainNameSlot(name: string): number {
    const fits = this.#domainBudget.take(name);
    return this.#domainSlot(fits ? name : `${rulePrefix}${overflowKey}.domain_not_found`);
  }

  #domainSlot(name: string): number {
    return this.#slots.get(name) ?? this.#addSlot(name, domainCounter);
  }

  #addSlot(name: string, role: number): number {
    const slot = this.#push(name, role);
    this.#slots.set(name, slot);
    this.#sorted.add(slot);
    return slot;
  }

  #push(name: string, role: number): number {
    const slot = this.#names.length;
    if (slot === this.#values.length) this.#grow();
    this.#names.push(name);
    this.#roles[slot] = role;
    return slot;
  }

  #grow(): void {
    this.#values = this.#moved(this.#values, this.#values.length * 2);
    const roles = new Uint8Array(this.#values.length);
    roles.set(this.#roles);
    this.#roles = roles;
  }

  #moved(from: Float64Array, length: number): Float64Array {
    if (this.#onSharedValues === undefined) {
      const values = new Float64Array(length);
      values.set(from);
      return values;
    }
    const values = new Float64Array(new SharedArrayBuffer(length * Float64Array.BYTES_PER_ELEMENT));
    values.set(from);
    this.#onSharedValues(values);
    return values;
  }
}
