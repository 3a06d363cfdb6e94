/**
 * Metric key and counter stem of a match: reference sections 3.2 and 3.3, with rule 11 of the specification for
 * share_threshold. As in the Go service the request's own key stands in both, and `_` with nothing behind it is
 * written only by detailed_metric. Where a wildcard matched a request key that is not the rule's (`k_*` matches key
 * `k_a`), the whole composite is the pattern.
 */

import { NodeFlag } from '../bytes/rule-table-format.ts';
import type { Entry } from '../request.ts';
import type { RuleNodes } from './rule-table-nodes.ts';

/** How an entry found its rule. */
export const MatchKind = { exact: 0, wildcard: 1, keyOnly: 2 } as const;

/** The rule each entry of a descriptor found, written by the matcher. */
export class MatchPath {
  readonly #rules: RuleNodes;
  readonly #nodes: Int32Array;
  readonly #kinds: Uint8Array;

  constructor(rules: RuleNodes, maxDepth: number) {
    this.#rules = rules;
    this.#nodes = new Int32Array(maxDepth);
    this.#kinds = new Uint8Array(maxDepth);
  }

  set(i: number, node: number, kind: number): void {
    this.#nodes[i] = node;
    this.#kinds[i] = kind;
  }

  metricKey(domain: string, entries: readonly Entry[]): string {
    const leaf = this.#nodes[entries.length - 1]!;
    if ((this.#rules.flags(leaf) & NodeFlag.detailedMetric) !== 0) return this.#detailedKey(domain, entries);
    let metric = domain;
    for (let i = 0; i < entries.length; i++) {
      const { key, value } = entries[i]!;
      metric += `.${this.#segment(i, key, value)}`;
    }
    return metric;
  }

  /** Without prefix and window. */
  counterStem(domain: string, entries: readonly Entry[]): string {
    let stem = `${domain}_`;
    for (let i = 0; i < entries.length; i++) {
      const { key, value } = entries[i]!;
      stem += this.#isShared(i) ? `${this.#keyAndPattern(i, key)}_` : `${key}_${value}_`;
    }
    return stem;
  }

  #detailedKey(domain: string, entries: readonly Entry[]): string {
    let sharesAny = false;
    for (let i = 0; i < entries.length; i++) sharesAny ||= this.#isShared(i);
    let metric = domain;
    for (let i = 0; i < entries.length; i++) {
      const { key, value } = entries[i]!;
      if (!sharesAny) metric += `.${key}_${value}`;
      else metric += `.${this.#isShared(i) ? this.#keyAndLiteral(i, key) : keyAndValue(key, value)}`;
    }
    return metric;
  }

  #segment(i: number, key: string, value: string): string {
    const kind = this.#kinds[i]!;
    if (kind === MatchKind.exact) return keyAndValue(key, value);
    const valueToMetric = (this.#flags(i) & NodeFlag.valueToMetric) !== 0;
    if (kind === MatchKind.keyOnly) return valueToMetric ? keyAndValue(key, value) : key;
    if (!valueToMetric) return this.#keyAndPattern(i, key);
    return this.#isShared(i) ? this.#keyAndLiteral(i, key) : keyAndValue(key, value);
  }

  #flags(i: number): number {
    return this.#rules.flags(this.#nodes[i]!);
  }

  #isShared(i: number): boolean {
    return this.#kinds[i] === MatchKind.wildcard && (this.#flags(i) & NodeFlag.shareThreshold) !== 0;
  }

  /** `key_<pattern>`. */
  #keyAndPattern(i: number, key: string): string {
    const composite = this.#rules.composite(this.#nodes[i]!);
    return beginsWithKey(composite, key) ? composite : `${key}_${composite}`;
  }

  /** `key_<pattern up to its first *>`. */
  #keyAndLiteral(i: number, key: string): string {
    const composite = this.#rules.composite(this.#nodes[i]!);
    const from = beginsWithKey(composite, key) ? key.length + 1 : 0;
    return keyAndValue(key, composite.slice(from, composite.indexOf('*', from)));
  }
}

function keyAndValue(key: string, value: string): string {
  return value === '' ? key : `${key}_${value}`;
}

function beginsWithKey(composite: string, key: string): boolean {
  return composite.startsWith(key) && composite.charCodeAt(key.length) === underscore;
}
const underscore = 0x5f;
