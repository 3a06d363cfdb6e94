/**
 * Reads Envoy's `rate_limits` (envoy.config.route.v3.RateLimit, v1.37) from parsed YAML or JSON. Names are in snake_case or
 * camelCase, as in protobuf's JSON. Scalars have their types or are texts.
 */

import { type CostBudget, expressionProblem } from '../../process/regex/expression.ts';
import { isObject } from '../model.ts';
import { quoted, similarName } from '../rule-error.ts';
import type { DocumentPath, PathProblem } from '../yaml/places.ts';

/** One item of `rate_limits`: the descriptor that its actions make, one entry each, or none where an action yields none. */
export interface RateLimitConfig {
  actions: RateLimitAction[];
  stage: number;
  disableKey: string;
  /** Whether it has `limit`, whose value comes from the request's metadata. */
  hasOwnLimit: boolean;
  /** Whether it has `hits_addend`: how much this descriptor counts. */
  hasOwnHits: boolean;
  /** Whether it is charged when the request is over, as with `apply_on_stream_done`. */
  onStreamDone: boolean;
}

export type RateLimitAction =
  | { type: 'source_cluster' }
  | { type: 'destination_cluster' }
  | { type: 'request_headers'; headerName: string; descriptorKey: string; skipIfAbsent: boolean }
  | { type: 'query_parameters'; queryParameterName: string; descriptorKey: string; skipIfAbsent: boolean }
  | { type: 'remote_address' }
  | { type: 'masked_remote_address'; v4PrefixMaskLen: number; v6PrefixMaskLen: number }
  | { type: 'generic_key'; descriptorKey: string; descriptorValue: string }
  | {
      type: 'header_value_match';
      descriptorKey: string;
      descriptorValue: string;
      expectMatch: boolean;
      headers: ValueMatcher[];
    }
  | {
      type: 'query_parameter_value_match';
      descriptorKey: string;
      descriptorValue: string;
      expectMatch: boolean;
      queryParameters: ValueMatcher[];
    }
  /** Actions whose value only Envoy knows: `metadata`, `dynamic_metadata` (deprecated) and extensions. */
  | { type: 'metadata'; descriptorKey: string; defaultValue: string; skipIfAbsent: boolean }
  | { type: 'extension'; name: string; descriptorKey: string | undefined };

/** HeaderMatcher and QueryParameterMatcher, which have the same fields. */
export interface ValueMatcher {
  name: string;
  /** `present` checks whether there is a value at all. */
  match:
    | { type: 'exact' | 'prefix' | 'suffix' | 'contains' | 'regex'; text: string; ignoreCase: boolean }
    | { type: 'range'; start: number; end: number }
    | { type: 'present'; present: boolean };
  invert: boolean;
  treatMissingAsEmpty: boolean;
}

/**
 * Adds mistakes to `problems`, and leaves the wrong parts out of the result. Never throws. `budget` limits the cost of the
 * regular expressions. Without it, the rate limits come from an Envoy, which accepted them. The function then ignores expressions
 * and unknown fields, and unknown actions or matchers become `extension`.
 */
export function readRateLimits(
  value: unknown,
  path: DocumentPath,
  problems: PathProblem[],
  budget?: CostBudget,
): RateLimitConfig[] {
  return new ActionsReader(problems, budget).rateLimits({ name: 'rate_limits', path, value });
}

/** A value with the name and the place that problems report. */
interface Given {
  name: string;
  path: DocumentPath;
  value: unknown;
}

/** Fields by their names in snake_case. */
type Fields = Map<string, Given>;
type MatcherTest = ValueMatcher['match'];

const greatestStage = 10;
/** The fields of each action that is read. */
export const actionFields: Record<string, readonly string[]> = {
  source_cluster: [],
  destination_cluster: [],
  request_headers: ['header_name', 'descriptor_key', 'skip_if_absent'],
  query_parameters: ['query_parameter_name', 'descriptor_key', 'skip_if_absent'],
  remote_address: [],
  masked_remote_address: ['v4_prefix_mask_len', 'v6_prefix_mask_len'],
  generic_key: ['descriptor_value', 'descriptor_key'],
  header_value_match: ['descriptor_value', 'descriptor_key', 'expect_match', 'headers'],
  query_parameter_value_match: ['descriptor_value', 'descriptor_key', 'expect_match', 'query_parameters'],
  metadata: ['descriptor_key', 'metadata_key', 'default_value', 'source', 'skip_if_absent'],
  dynamic_metadata: ['descriptor_key', 'metadata_key', 'default_value'],
  extension: ['name', 'typed_config'],
};
const knownActions = Object.keys(actionFields);
export const stringTests = ['exact', 'prefix', 'suffix', 'contains', 'safe_regex'];
export const headerTests = [
  'exact_match',
  'safe_regex_match',
  'range_match',
  'present_match',
  'prefix_match',
  'suffix_match',
  'contains_match',
  'string_match',
];
export const queryTests = ['string_match', 'present_match'];

class ActionsReader {
  readonly #problems: PathProblem[];
  readonly #budget: CostBudget | undefined;

  constructor(problems: PathProblem[], budget: CostBudget | undefined) {
    this.#problems = problems;
    this.#budget = budget;
  }

  rateLimits(given: Given): RateLimitConfig[] {
    return this.#list(given).flatMap((one) => this.#rateLimit(one) ?? []);
  }

  #rateLimit(given: Given): RateLimitConfig | undefined {
    const known = ['actions', 'stage', 'disable_key', 'limit', 'hits_addend', 'apply_on_stream_done'];
    const fields = this.#fields(given, known);
    if (fields === undefined) return undefined;
    const actions = fields.get('actions');
    if (actions === undefined) return this.#reject(given, 'expected actions, which make the descriptor');
    return {
      actions: this.#list(actions, 1).flatMap((one) => this.#action(one) ?? []),
      stage: this.#whole(fields.get('stage'), 0, greatestStage) ?? 0,
      disableKey: this.#text(fields.get('disable_key')) ?? '',
      hasOwnLimit: fields.has('limit'),
      hasOwnHits: fields.has('hits_addend'),
      onStreamDone: this.#flag(fields.get('apply_on_stream_done')) ?? false,
    };
  }

  #action(given: Given): RateLimitAction | undefined {
    const reported = this.#problems.length;
    const fields = this.#fields(given, knownActions, true);
    if (fields === undefined) return undefined;
    const [first, second] = fields;
    if (first === undefined && this.#problems.length > reported) return undefined;
    if (first === undefined) return this.#reject(given, `expected one of ${knownActions.join(', ')}`);
    const [type, chosen] = first;
    if (second !== undefined)
      return this.#reject(second[1], `an action is one thing: ${chosen.name} or ${second[1].name}`, true);
    return this.#actionOf(type, chosen);
  }

  #actionOf(type: string, given: Given): RateLimitAction | undefined {
    const known = actionFields[type];
    const fields = this.#fields(given, known ?? []);
    if (fields === undefined) return undefined;
    // Without tolerance for unknown parts, these actions are errors.
    if (known === undefined) return this.#extension(type, given.value);
    switch (type) {
      case 'source_cluster':
      case 'destination_cluster':
      case 'remote_address':
        return { type };
      case 'request_headers': {
        const headerName = this.#headerName(given, fields.get('header_name'));
        const descriptorKey = this.#needed(given, fields, 'descriptor_key');
        return { type, headerName, descriptorKey, skipIfAbsent: this.#isSet(fields, 'skip_if_absent') };
      }
      case 'query_parameters': {
        const queryParameterName = this.#needed(given, fields, 'query_parameter_name');
        const descriptorKey = this.#needed(given, fields, 'descriptor_key');
        return {
          type,
          queryParameterName,
          descriptorKey,
          skipIfAbsent: this.#isSet(fields, 'skip_if_absent'),
        };
      }
      case 'masked_remote_address':
        return {
          type,
          v4PrefixMaskLen: this.#whole(fields.get('v4_prefix_mask_len'), 0, 32) ?? 32,
          v6PrefixMaskLen: this.#whole(fields.get('v6_prefix_mask_len'), 0, 128) ?? 128,
        };
      case 'generic_key':
        return { type, ...this.#keyAndValue(given, fields, type) };
      case 'header_value_match':
      case 'query_parameter_value_match':
        return this.#valueMatch(type, given, fields);
      case 'extension':
        return this.#extension(this.#needed(given, fields, 'name'), fields.get('typed_config')?.value);
      default:
        return {
          type: 'metadata',
          descriptorKey: this.#needed(given, fields, 'descriptor_key'),
          defaultValue: this.#text(fields.get('default_value')) ?? '',
          skipIfAbsent: this.#isSet(fields, 'skip_if_absent'),
        };
    }
  }

  #valueMatch(
    type: 'header_value_match' | 'query_parameter_value_match',
    given: Given,
    fields: Fields,
  ): RateLimitAction {
    const isOfHeaders = type === 'header_value_match';
    const defaultKey = isOfHeaders ? 'header_match' : 'query_match';
    const base = {
      ...this.#keyAndValue(given, fields, defaultKey),
      expectMatch: this.#flag(fields.get('expect_match')) ?? true,
    };
    const list = fields.get(isOfHeaders ? 'headers' : 'query_parameters');
    if (list === undefined) this.#reject(given, `expected ${isOfHeaders ? 'headers' : 'query_parameters'}`);
    const read = this.#list(list, 1).map((one) => this.#matcher(one, isOfHeaders));
    if (read.includes('unknown')) return { type: 'extension', name: type, descriptorKey: base.descriptorKey };
    const matchers = read.filter((one) => typeof one === 'object');
    return isOfHeaders
      ? { type: 'header_value_match', ...base, headers: matchers }
      : { type: 'query_parameter_value_match', ...base, queryParameters: matchers };
  }

  #matcher(given: Given, isOfHeader: boolean): ValueMatcher | 'unknown' | undefined {
    const tests = isOfHeader ? headerTests : queryTests;
    const others = isOfHeader ? ['name', 'invert_match', 'treat_missing_header_as_empty'] : ['name'];
    const fields = this.#fields(given, [...others, ...tests], true);
    if (fields === undefined) return undefined;
    const name = isOfHeader
      ? this.#headerName(given, fields.get('name'))
      : this.#needed(given, fields, 'name');
    const [test, second] = [...fields].flatMap(([key, field]) =>
      others.includes(key) ? [] : [{ key, field }],
    );
    if (second !== undefined)
      return this.#reject(
        second.field,
        `one test is allowed: ${test?.field.name} or ${second.field.name}`,
        true,
      );
    const match =
      test === undefined ? { type: 'present' as const, present: true } : this.#test(test.key, test.field);
    if (match === 'unknown' || match === undefined) return match;
    return {
      name,
      match,
      invert: this.#isSet(fields, 'invert_match'),
      treatMissingAsEmpty: this.#isSet(fields, 'treat_missing_header_as_empty'),
    };
  }

  #test(key: string, given: Given): MatcherTest | 'unknown' | undefined {
    switch (key) {
      case 'present_match':
        return { type: 'present', present: this.#flag(given) ?? true };
      case 'range_match': {
        const fields = this.#fields(given, ['start', 'end']);
        const [min, max] = [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];
        return (
          fields && {
            type: 'range',
            start: this.#whole(fields.get('start'), min, max) ?? 0,
            end: this.#whole(fields.get('end'), min, max) ?? 0,
          }
        );
      }
      case 'safe_regex_match':
        return this.#regex(given);
      case 'string_match':
        return this.#stringMatch(given);
      case 'exact_match': {
        const text = this.#text(given);
        // Any value matches an empty prefix.
        if (text === '') return { type: 'prefix', text, ignoreCase: false };
        return text === undefined ? undefined : { type: 'exact', text, ignoreCase: false };
      }
      case 'prefix_match':
      case 'suffix_match':
      case 'contains_match':
        return this.#plainTest(key.slice(0, -'_match'.length), given, false);
      default:
        return 'unknown';
    }
  }

  #stringMatch(given: Given): MatcherTest | 'unknown' | undefined {
    const fields = this.#fields(given, [...stringTests, 'ignore_case'], true);
    if (fields === undefined) return undefined;
    const ignoreCase = this.#isSet(fields, 'ignore_case');
    fields.delete('ignore_case');
    const [test, second] = [...fields];
    if (test === undefined)
      return this.#reject(given, `${given.name}: expected one of ${stringTests.join(', ')}`);
    if (second !== undefined)
      return this.#reject(second[1], `one test is allowed: ${test[1].name} or ${second[1].name}`, true);
    const [type, field] = test;
    if (type === 'safe_regex') return this.#regex(field);
    return stringTests.includes(type) ? this.#plainTest(type, field, ignoreCase) : 'unknown';
  }

  #plainTest(type: string, given: Given, ignoreCase: boolean): MatcherTest | undefined {
    const text = this.#text(given);
    if (text === undefined) return undefined;
    if (text === '' && type !== 'exact')
      return this.#reject(given, `${given.name}: expected text, this is empty`);
    return { type: type as 'exact' | 'prefix' | 'suffix' | 'contains', text, ignoreCase };
  }

  #regex(given: Given): MatcherTest | undefined {
    const fields = this.#fields(given, ['regex', 'google_re2']);
    if (fields === undefined) return undefined;
    const regex = fields.get('regex');
    const text = this.#text(regex);
    if (regex === undefined || text === '') return this.#reject(given, `${given.name}: expected regex`);
    if (text === undefined) return undefined;
    const problem = this.#budget && expressionProblem(text, this.#budget);
    if (problem !== undefined) return this.#reject(regex, `${regex.name}: ${quoted(text)}: ${problem}`);
    return { type: 'regex', text, ignoreCase: false };
  }

  /** Reads an action whose value only Envoy can make. Its key may be in the field that most extensions use. */
  #extension(name: string, config: unknown): RateLimitAction {
    const { descriptor_key, descriptorKey = descriptor_key } = isObject(config) ? config : {};
    return {
      type: 'extension',
      name,
      descriptorKey: typeof descriptorKey === 'string' && descriptorKey !== '' ? descriptorKey : undefined,
    };
  }

  #keyAndValue(given: Given, fields: Fields, defaultKey: string) {
    return {
      // An empty text means no text, as everywhere in protobuf.
      descriptorKey: this.#text(fields.get('descriptor_key')) || defaultKey,
      descriptorValue: this.#needed(given, fields, 'descriptor_value'),
    };
  }

  #headerName(owner: Given, given: Given | undefined): string {
    const name = this.#text(given);
    if (given === undefined || name === '') {
      const missing = owner.name === 'request_headers' ? 'header_name' : 'name';
      this.#reject(given ?? owner, `expected ${missing}: the name of a header`);
    } else if (name !== undefined && !/^:?[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) {
      this.#reject(given, `${given.name}: ${quoted(name)} is not a name of a header`);
    }
    return (name ?? '').toLowerCase();
  }

  /** A text that must not be empty. */
  #needed(owner: Given, fields: Fields, name: string): string {
    const given = fields.get(name);
    const text = this.#text(given);
    if (given === undefined || text === '') this.#reject(given ?? owner, `${owner.name}: expected ${name}`);
    return text ?? '';
  }

  #text(given: Given | undefined): string | undefined {
    const value = given?.value;
    if (typeof value === 'string') return value;
    if (typeof value === 'number' || typeof value === 'boolean') return String(value);
    if (given === undefined || value === undefined || value === null) return undefined;
    return this.#reject(given, `${given.name}: expected text`);
  }

  #isSet(fields: Fields, name: string): boolean {
    return this.#flag(fields.get(name)) ?? false;
  }

  #flag(given: Given | undefined): boolean | undefined {
    if (given === undefined || given.value === null) return undefined;
    const { value } = given;
    if (value === true || value === 'true') return true;
    if (value === false || value === 'false') return false;
    return this.#reject(given, `${given.name}: expected true or false${cameAs(value)}`);
  }

  #whole(given: Given | undefined, min: number, max: number): number | undefined {
    if (given === undefined || given.value === null) return undefined;
    const { value } = given;
    const number = typeof value === 'string' && /^-?[0-9]{1,16}$/.test(value) ? Number(value) : value;
    if (typeof number === 'number' && Number.isInteger(number) && number >= min && number <= max)
      return number;
    const bounds = max === Number.MAX_SAFE_INTEGER ? '' : ` from ${min} to ${max}`;
    return this.#reject(given, `${given.name}: expected a whole number${bounds}${cameAs(value)}`);
  }

  #list(given: Given | undefined, min = 0): Given[] {
    if (given === undefined) return [];
    const { name, path, value } = given;
    if (!Array.isArray(value)) return this.#reject(given, `${name}: expected a list`) ?? [];
    if (value.length < min) this.#reject(given, `${name}: expected at least ${min}`);
    return value.map((one: unknown, index) => ({ name, path: [...path, index], value: one }));
  }

  /** The members of a map that have a value. `keepsUnknown`: where unknown ones are tolerated, the result contains them. */
  #fields(given: Given, known: readonly string[], keepsUnknown = false): Fields | undefined {
    const { name: owner, path, value } = given;
    if (!isObject(value)) {
      const form = known.length === 0 ? '{}' : `a map with ${known.join(', ')}`;
      return this.#reject(given, `${owner}: expected ${form}`);
    }
    const fields: Fields = new Map();
    for (const [name, one] of Object.entries(value)) {
      const field: Given = { name, path: [...path, name], value: one };
      const plain = name.replace(/(?<!^)[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
      if (this.#budget !== undefined && !known.includes(plain)) {
        this.#reject(field, unknownField(owner, name, known), true);
      } else if (fields.has(plain)) {
        this.#reject(field, `${name} repeats ${fields.get(plain)?.name} says`, true);
      } else if (one !== undefined && (keepsUnknown || known.includes(plain))) {
        fields.set(plain, field);
      }
    }
    return fields;
  }

  #reject({ path }: Given, message: string, isKey = false): undefined {
    this.#problems.push({ path, message, isKey });
    return undefined;
  }
}

/** Returns a message such as `a profile has no field "domian": did you mean domain?` */
export function unknownField(owner: string, name: string, known: readonly string[]): string {
  const meant = similarName(name, known);
  const list = known.length === 0 ? 'it has none' : `known are ${known.join(', ')}`;
  return `${owner} has no field ${quoted(name)}: ${meant === undefined ? list : `did you mean ${meant}?`}`;
}

/** Returns `, not "x"` for a text, and nothing for other values. */
export function cameAs(value: unknown): string {
  return typeof value === 'string' && value !== '' ? `, not ${quoted(value)}` : '';
}
