/** Makes the `rate_limits` from rules: the parts of a request that an Envoy has to describe so that it asks for these rules. */
import { compositeOf, type JsonObject, type Rule } from '../model.ts';
import { ruleName } from '../review/explain-descriptor.ts';
import { characterOutside, rulesFor } from '../review/rule-level.ts';

/** The part of a request from which Envoy takes the value of a key. */
export type KeySource =
  | { type: 'header' | 'query'; name: string }
  /** The rule's value itself, which the route says: `generic_key`. */
  | { type: 'generic' }
  /** The rule's value where a header, or a query parameter, matches. */
  | { type: 'header_match' | 'query_match'; name: string }
  /** A source whose key Envoy itself names. */
  | { type: OwnKey };

const ownKeys = ['remote_address', 'masked_remote_address', 'source_cluster', 'destination_cluster'] as const;
type OwnKey = (typeof ownKeys)[number];

/** One item of `rate_limits`. */
export interface NeededRateLimit {
  /** The item as Envoy reads it. */
  value: JsonObject & { actions: JsonObject[] };
  /** The match of the rule, such as `path=/search*, plan`. */
  rules: string[];
  /** Keys whose source is not stated, and the source that was assumed. */
  guessed: { key: string; source: KeySource }[];
}

/** Keys with a known source: Envoy's own, and those of its documentation and of our examples. */
const wellKnown: Readonly<Record<string, KeySource>> = {
  ...Object.fromEntries(ownKeys.map((type) => [type, { type }])),
  generic_key: { type: 'generic' },
  path: { type: 'header', name: ':path' },
  method: { type: 'header', name: ':method' },
  host: { type: 'header', name: ':authority' },
  authority: { type: 'header', name: ':authority' },
  user_agent: { type: 'header', name: 'user-agent' },
};

/** Keys that are the name of a header, with `-` or `_`. */
const headerKey = /^(?:x[-_][a-z0-9_-]+|user-agent|authorization|content[-_]type|referer|origin|cookie)$/i;

/** Returns the source of a key, as far as its name shows it. */
function sourceOf(key: string): { source: KeySource; isGuess: boolean } {
  const known = Object.hasOwn(wellKnown, key) ? wellKnown[key] : undefined;
  if (known !== undefined) return { source: known, isGuess: false };
  const name = key.toLowerCase().replaceAll('_', '-');
  if (headerKey.test(key)) return { source: { type: 'header', name }, isGuess: false };
  const part = name.replace(/[^a-z0-9]+/g, '-').replace(/^-+|-+$/g, '');
  const header = `x-${part === '' ? 'key' : part}`;
  const type = key === 'header_match' || key === 'query_match' ? key : 'header';
  return { source: { type, name: type === 'header' ? header : 'fill-in' }, isGuess: true };
}

/** Returns why Envoy cannot take this key from this source. Undefined if it can. */
export function sourceProblem(key: string, { type }: KeySource): string | undefined {
  if (!ownKeys.some((own) => own === type) || key === type) return undefined;
  return `Envoy calls this entry ${type}: give the rules that key`;
}

/**
 * Returns the descriptors that reach all rules with a limit, without repetition, in the order of the rules. `rules` are all rules
 * of one domain.
 */
export function neededRateLimits(
  rules: readonly Rule[],
  given: ReadonlyMap<string, KeySource>,
): NeededRateLimit[] {
  const needed = new Map<string, NeededRateLimit>();
  const visit = (level: readonly Rule[], above: { actions: Action[]; name: string }): void => {
    for (const rule of level) {
      const action = actionFor(level, rule, given);
      if (action === undefined) continue;
      const name = above.name + ruleName({ rule });
      const actions = [...above.actions, action];
      const described = actions.map((one) => one.value);
      for (const value of hasEffect(rule) ? callsFor(rule, described) : []) {
        const text = JSON.stringify(value);
        const one = needed.get(text);
        if (one !== undefined) one.rules.push(name);
        else needed.set(text, { value, rules: [name], guessed: actions.flatMap(({ guess }) => guess ?? []) });
      }
      visit(rule.descriptors, { actions, name: `${name}, ` });
    }
  };
  visit(rules, { actions: [], name: '' });
  return [...needed.values()];
}

/** The key in Envoy's metadata that holds the cost of a request. A filter has to set it. */
export const costMetadata = { namespace: 'weir', key: 'cost' } as const;

const reservationId = { request_headers: { header_name: 'x-request-id', descriptor_key: 'reservation_id' } };
const settle = { generic_key: { descriptor_key: 'settle', descriptor_value: 'true' } };

/** Returns the calls for a rule. A rule with `reserve` needs two: before a request, and when it is over. */
function callsFor({ reserve }: Rule, actions: JsonObject[]): NeededRateLimit['value'][] {
  if (reserve === undefined) return [{ actions }];
  const { namespace, key } = costMetadata;
  const reserved = [...actions, reservationId];
  return [
    { actions: reserved },
    {
      actions: [...reserved, settle],
      apply_on_stream_done: true,
      hits_addend: { format: `%DYNAMIC_METADATA(${namespace}:${key})%` },
    },
  ];
}

/** Returns whether a request fares differently because of it. An exception from another rule is reached as that rule is. */
export function hasEffect({ limits }: Rule): boolean {
  return limits.some(({ unlimited, replaces }) => !unlimited || replaces.length > 0);
}

interface Action {
  value: JsonObject;
  guess: { key: string; source: KeySource } | undefined;
}

/** Returns undefined for a rule that no value finds, because other rules come before it. */
function actionFor(
  level: readonly Rule[],
  rule: Rule,
  given: ReadonlyMap<string, KeySource>,
): Action | undefined {
  const { key } = rule;
  const chosen = given.get(key);
  const { source, isGuess } = chosen === undefined ? sourceOf(key) : { source: chosen, isGuess: false };
  const value = actionValue(level, rule, source);
  return value && { value, guess: isGuess ? { key, source } : undefined };
}

function actionValue(level: readonly Rule[], rule: Rule, source: KeySource): JsonObject | undefined {
  const { key } = rule;
  if (source.type === 'header') return { request_headers: { header_name: source.name, descriptor_key: key } };
  if (source.type === 'query')
    return { query_parameters: { query_parameter_name: source.name, descriptor_key: key } };
  if (source.type === 'masked_remote_address') return { masked_remote_address: masks(rule.value) };
  if (source.type !== 'generic' && source.type !== 'header_match' && source.type !== 'query_match')
    return { [source.type]: {} };
  const value = valueFor(level, rule);
  if (value === undefined) return undefined;
  const entry = { descriptor_key: key, descriptor_value: value };
  if (source.type === 'generic') return { generic_key: entry };
  const matcher = { name: source.name, present_match: true };
  return source.type === 'header_match'
    ? { header_value_match: { ...entry, headers: [matcher] } }
    : { query_parameter_value_match: { ...entry, query_parameters: [matcher] } };
}

/**
 * Returns the masks of a value. Envoy sends the range as `192.0.2.0/24`, so rules for ranges state the length of the prefix.
 * Otherwise the masks are those of Envoy's examples.
 */
function masks(value: string): JsonObject {
  const length = Number(/\/(\d{1,3})$/.exec(value)?.[1] ?? Number.NaN);
  const isV6 = value.includes(':');
  return {
    v4_prefix_mask_len: !isV6 && length <= 32 ? length : 24,
    v6_prefix_mask_len: isV6 && length <= 128 ? length : 64,
  };
}

/** Returns a value, never empty, for which the matcher takes this rule of its level. Undefined if rules before it take all values. */
export function valueFor(level: readonly Rule[], rule: Rule): string | undefined {
  const composite = compositeOf(rule);
  if (rule.value !== '' && !composite.includes('*')) return rule.value;
  const odd = characterOutside(level.map(compositeOf).join(''));
  const fills = ['', 'default', 'x', 'other', odd];
  const pattern = rule.value === '' ? '*' : rule.value;
  const values = fills.map((fill) => pattern.replaceAll('*', fill));
  return values.find((value) => value !== '' && rulesFor(level, { key: rule.key, value })[0]?.rule === rule);
}
