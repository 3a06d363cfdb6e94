/** Finds the rules that a list of actions may reach, or why it reaches none. An unknown value may be anything. */
import { compositeOf, patternMatches } from '../model.ts';
import { type PlacedRule, patternsOverlap, placedRules, rulesFor } from '../review/rule-level.ts';
import type { RateLimitAction, RateLimitConfig } from './read-actions.ts';

/** One entry of a descriptor: its key, if it is known, and its possible values. */
export interface PossibleEntry {
  key: string | undefined;
  /** Exact texts, or patterns in which each `*` stands for any text. */
  values: { exact: string } | { patterns: string[] };
  /** Whether the entry is left out if the request lacks it. */
  isOptional: boolean;
}

export function isUnknown(action: RateLimitAction): boolean {
  return action.type === 'extension' && action.descriptorKey === undefined;
}

/** Chosen: the number of entries of one descriptor that may be left out. Each of them doubles the number of descriptors to look at. */
const maxOptional = 6;

/** The possible forms of a descriptor, or undefined if unknown. */
export function variantsOf({ actions }: RateLimitConfig): PossibleEntry[][] | undefined {
  const entries = actions.map(entryOf);
  if (actions.some(isUnknown) || entries.filter(({ isOptional }) => isOptional).length > maxOptional)
    return undefined;
  let variants: PossibleEntry[][] = [[]];
  for (const entry of entries) {
    const longer = variants.map((variant) => [...variant, entry]);
    variants = entry.isOptional ? [...longer, ...variants] : longer;
  }
  return variants.filter((variant) => variant.length > 0);
}

const anyValue = { patterns: ['*'] };

function entryOf(action: RateLimitAction): PossibleEntry {
  switch (action.type) {
    case 'source_cluster':
    case 'destination_cluster':
    case 'remote_address':
      return { key: action.type, values: anyValue, isOptional: false };
    case 'masked_remote_address': {
      const patterns = [`*/${action.v4PrefixMaskLen}`, `*/${action.v6PrefixMaskLen}`];
      return { key: action.type, values: { patterns }, isOptional: false };
    }
    case 'generic_key':
    case 'header_value_match':
    case 'query_parameter_value_match': {
      const { descriptorKey, descriptorValue } = action;
      // A runtime flag of Envoy makes the values formats, as in access logs.
      const values = descriptorValue.includes('%') ? anyValue : { exact: descriptorValue };
      return { key: descriptorKey, values, isOptional: false };
    }
    case 'extension':
      return { key: action.descriptorKey, values: anyValue, isOptional: true };
    default:
      return { key: action.descriptorKey, values: anyValue, isOptional: action.skipIfAbsent };
  }
}

export function entryName({ key, values }: PossibleEntry): string {
  return 'exact' in values ? `${key}=${values.exact}` : `${key}`;
}

interface Way {
  found: PlacedRule[];
  depth: number;
  level: readonly PlacedRule[];
}

/** Keys of entries that name a reservation, and that say that it is committed. Rules with `reserve` are matched without them. */
const markers: readonly (string | undefined)[] = ['reservation_id', 'settle'];

/** Returns the marker of a request that reserves, or that commits at its end. Undefined if it does neither. */
export function markerOf({ actions, onStreamDone }: RateLimitConfig): 'reserves' | 'settles' | undefined {
  const keys = new Set(actions.map((action) => entryOf(action).key));
  const [id, settle] = markers;
  if (!keys.has(id)) return undefined;
  if (!keys.has(settle)) return 'reserves';
  return onStreamDone ? 'settles' : undefined;
}

/** Returns the rules that the descriptor may find, and how many of its entries found a rule. */
export function walk(top: readonly PlacedRule[], entries: readonly PossibleEntry[]): Way {
  if (!entries.some(({ key }) => key === markers[0])) return walkAll(top, entries);
  const others = entries.filter(({ key }) => !markers.includes(key));
  const { found, ...way } = walkAll(top, others);
  const reserving = found.filter(({ rule }) => rule.reserve !== undefined);
  return reserving.length > 0 ? { ...way, found: reserving } : walkAll(top, entries);
}

function walkAll(top: readonly PlacedRule[], entries: readonly PossibleEntry[]): Way {
  let level = top;
  let found: PlacedRule[] = [];
  for (const [depth, entry] of entries.entries()) {
    const next = found.length === 0 && depth === 0 ? [top] : childrenOf(found);
    level = next.flat();
    found = next.flatMap((rules) => possibleRules(rules, entry));
    if (found.length === 0) return { found, depth, level };
  }
  return { found, depth: entries.length, level };
}

function childrenOf(found: readonly PlacedRule[]): PlacedRule[][] {
  return found.map(({ rule, source, path }) => placedRules(rule.descriptors, source, path));
}

function possibleRules(level: readonly PlacedRule[], { key = '', values }: PossibleEntry): PlacedRule[] {
  if ('exact' in values) {
    const rules = level.map(({ rule }) => rule);
    const [first] = rulesFor(rules, { key, value: values.exact });
    // Several sources may have the same rule.
    return first === undefined
      ? []
      : level.filter(({ rule }) => compositeOf(rule) === compositeOf(first.rule));
  }
  const { patterns } = values;
  return level.filter(({ rule }) => {
    const composite = compositeOf(rule);
    if (composite === key) return true;
    if (composite.includes('*')) return patterns.some((one) => patternsOverlap(composite, `${key}_${one}`));
    const value = composite.slice(key.length + 1);
    return composite.startsWith(`${key}_`) && patterns.some((one) => patternMatches(one, value));
  });
}

/** The requests that it does not limit, and a hint. */
export function unmatchedWords(
  names: string,
  entries: readonly PossibleEntry[],
  { depth, level }: Way,
): [string, string] {
  const head = `this limits nothing: no rule matches the descriptor (${names})`;
  const { key } = entries[depth]!;
  if (level.length === 0) return [head, `rules end before "${key}": it has no rules below it`];
  const sameKey = level.filter(({ rule }) => rule.key === key).map(({ rule }) => rule.value);
  if (sameKey.length === 0)
    return [
      head,
      `"${key}" is not one of the keys ${depth === 0 ? 'of the first level' : 'there'}: ${keysOf(level)}`,
    ];
  return [head, `rules for "${key}" have the values ${firstFew(sameKey)}`];
}

export function keysOf(level: readonly PlacedRule[]): string {
  return firstFew(level.map(({ rule }) => rule.key));
}

export function firstFew(names: readonly string[]): string {
  const all = [...new Set(names)];
  return all.slice(0, 5).join(', ') + (all.length > 5 ? ' ...' : '');
}
