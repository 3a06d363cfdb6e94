/** The path of a match through the rules, and the texts that follow from it: metric key, counter stem, place. */
import { type CounterKeys, countedEntry, EntryMark, unambiguousStem } from '../counter-keys.ts';
import { countedEntries, countedText, shownEntries, shownText } from '../long-text.ts';
import type { NameForm } from '../match-result.ts';
import type { Entry } from '../model.ts';
import { type RuleNodes, ruleFlag } from './rule-table-format.ts';

const detailedMetric = ruleFlag('detailedMetric');
/** The flag of rules whose values share one counter. */
export const sharingFlag = ruleFlag('shareThreshold');
const valueToMetric = ruleFlag('valueToMetric');

/** The `_` between the key and value of a composite. */
export const underscore = 0x5f;

/** How an entry matched its rule. */
export const MatchKind = { exact: 0, wildcard: 1, keyOnly: 2 } as const;

/**
 * The rules that the entries of a descriptor matched, written by the matcher. The path makes the metric key and counter stem of the
 * match, also with share_threshold. As in the Go service, both contain the request's own key, and only detailed_metric writes a trailing
 * `_`. If a wildcard matched a request key that differs from the rule's (`k_*` matches key `k_a`), the whole composite is the pattern.
 */
export class MatchPath {
  readonly #rules: RuleNodes;
  readonly #nodes: Int32Array;
  readonly #kinds: Uint8Array;
  /** Whether the metric key that was requested last contains the request's own text. */
  metricPerValue = false;

  constructor(rules: RuleNodes, maxDepth: number) {
    this.#rules = rules;
    this.#nodes = new Int32Array(maxDepth);
    this.#kinds = new Uint8Array(maxDepth);
  }

  set(i: number, node: number, kind: number): void {
    this.#nodes[i] = node;
    this.#kinds[i] = kind;
  }

  kind(i: number): number {
    return this.#kinds[i]!;
  }

  /** Returns the path as `listedRules` writes it. */
  rulePath(domain: string, depth: number): string {
    let path = domain;
    for (let i = 0; i < depth; i++) path += `.${this.#rules.readComposite(this.#nodes[i]!)}`;
    return path;
  }

  metricKey(
    domain: string,
    entries: readonly Entry[],
    { sanitizeDescriptorMetricDots: undotted, maxTextBytes }: NameForm,
  ): string {
    const shown = shownEntries(entries, maxTextBytes);
    this.metricPerValue = false;
    const leaf = this.#nodes[entries.length - 1]!;
    const detailed = (this.#rules.flags(leaf) & detailedMetric) !== 0;
    const shares = detailed && this.#sharesAny(entries.length);
    let metric = shownText(domain, maxTextBytes);
    for (let i = 0; i < entries.length; i++) {
      const { key } = entries[i]!;
      const { key: shownKey, value } = shown[i]!;
      const whole = detailed ? this.#detailedSegment(i, key, value, shares) : this.#segment(i, key, value);
      const segment = withKey(shownKey, whole, key);
      metric += `.${undotted ? segment.replaceAll('.', '_') : segment}`;
    }
    return metric;
  }

  /** Returns the stem of the counter, without prefix and window. */
  counterStem(domain: string, entries: readonly Entry[], form: CounterKeys, maxTextBytes: number): string {
    const name = countedText(domain, maxTextBytes);
    const counted = countedEntries(entries, maxTextBytes);
    if (form === 'unambiguous') return this.#unambiguousStem(name, entries, counted);
    let stem = `${name}_`;
    for (let i = 0; i < entries.length; i++) {
      const { key, value } = counted[i]!;
      const own = entries[i]!.key;
      stem += this.#isShared(i) ? `${withKey(key, this.#keyAndPattern(i, own), own)}_` : `${key}_${value}_`;
    }
    return stem;
  }

  /**
   * Returns the unambiguous stem. A value that equals the text of a pattern matches its rule like any other value and shares their
   * counter. So a caller does not get a separate counter by sending it.
   */
  #unambiguousStem(domain: string, entries: readonly Entry[], counted: readonly Entry[]): string {
    let text = '';
    for (let i = 0; i < entries.length; i++) {
      const { key, value } = counted[i]!;
      const isShared = this.#kinds[i] !== MatchKind.keyOnly && (this.#flags(i) & sharingFlag) !== 0;
      text += isShared
        ? this.#sharedEntry(i, entries[i]!.key, key)
        : countedEntry(key, EntryMark.value, value);
    }
    return unambiguousStem(domain, text);
  }

  #sharedEntry(i: number, key: string, counted: string): string {
    const composite = this.#rules.composite(this.#nodes[i]!);
    if (!beginsWithKey(composite, key)) return countedEntry(counted, EntryMark.wholePattern, composite);
    return countedEntry(counted, EntryMark.pattern, composite.slice(key.length + 1));
  }

  #sharesAny(depth: number): boolean {
    for (let i = 0; i < depth; i++) {
      if (this.#isShared(i)) return true;
    }
    return false;
  }

  #detailedSegment(i: number, key: string, value: string, shares: boolean): string {
    if (shares && this.#isShared(i)) return this.#keyAndLiteral(i, key);
    if (this.#kinds[i] !== MatchKind.exact) this.metricPerValue = true;
    return shares ? keyAndValue(key, value) : `${key}_${value}`;
  }

  #segment(i: number, key: string, value: string): string {
    const kind = this.#kinds[i]!;
    if (kind === MatchKind.exact) return keyAndValue(key, value);
    const hasValue = (this.#flags(i) & valueToMetric) !== 0;
    if (kind === MatchKind.keyOnly && !hasValue) return key;
    if (kind === MatchKind.wildcard && !hasValue) return this.#keyAndPattern(i, key);
    if (this.#isShared(i)) return this.#keyAndLiteral(i, key);
    this.metricPerValue = true;
    return keyAndValue(key, value);
  }

  #flags(i: number): number {
    return this.#rules.flags(this.#nodes[i]!);
  }

  #isShared(i: number): boolean {
    return this.#kinds[i] === MatchKind.wildcard && (this.#flags(i) & sharingFlag) !== 0;
  }

  /** Returns `key_<pattern>`. */
  #keyAndPattern(i: number, key: string): string {
    const composite = this.#rules.composite(this.#nodes[i]!);
    if (beginsWithKey(composite, key)) return composite;
    this.metricPerValue = true;
    return `${key}_${composite}`;
  }

  /** Returns `key_<pattern up to its first *>`. If the only `*` is in the request's own key, returns the whole pattern. */
  #keyAndLiteral(i: number, key: string): string {
    const composite = this.#rules.composite(this.#nodes[i]!);
    const isRulesKey = beginsWithKey(composite, key);
    if (!isRulesKey) this.metricPerValue = true;
    const from = isRulesKey ? key.length + 1 : 0;
    const star = composite.indexOf('*', from);
    return keyAndValue(key, star < 0 ? composite.slice(from) : composite.slice(from, star));
  }
}

function keyAndValue(key: string, value: string): string {
  return value === '' ? key : `${key}_${value}`;
}

/** Returns a text that begins with the request's key. If the key is long, the text contains its identity instead. */
function withKey(written: string, text: string, key: string): string {
  return written === key ? text : written + text.slice(key.length);
}

function beginsWithKey(composite: string, key: string): boolean {
  return composite.startsWith(key) && composite.charCodeAt(key.length) === underscore;
}
