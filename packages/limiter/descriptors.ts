/** Converts descriptors, as a program writes them, into entries. */
import { errorText } from '../../process/log/error-text.ts';
import type { Entry } from '../../rules/model.ts';
import type { DescriptorAmount, Descriptors, Entries, ReservedDescriptors, Value } from './api.ts';
import { LimiterError } from './limiter-error.ts';

/** Chosen: bounds nested lists, one of which may contain itself. */
const maxDepth = 100;

type Pairs = readonly (readonly [key: string, value: Value])[];

/** Throws a `LimiterError` if the value is not a descriptor or a list of descriptors. */
export function descriptorsOf(given: Descriptors): Entry[][] {
  if (isOne(given)) return [entriesOf(given)];
  if (given.length === 0) throw noDescriptors();
  // Holes in a list are not descriptors, either.
  return Array.from(given, entriesOf);
}

/** Also returns the amounts of descriptors that have their own; undefined if none has. */
export function reservedOf(given: ReservedDescriptors): {
  descriptors: Entry[][];
  amounts: (number | undefined)[] | undefined;
} {
  const all: readonly (Entries | DescriptorAmount)[] = isReservedList(given) ? given : [given];
  if (all.length === 0) throw noDescriptors();
  return {
    descriptors: Array.from(all, (one) => entriesOf(hasAmount(one) ? one.entries : one)),
    amounts: all.some(hasAmount) ? all.map((one) => (hasAmount(one) ? one.amount : undefined)) : undefined,
  };
}

function isReservedList(given: ReservedDescriptors): given is readonly (Entries | DescriptorAmount)[] {
  return Array.isArray(given) && !isPairs(given);
}

/** Distinguishes a descriptor with an amount from a descriptor whose keys have these names. There, the values are strings and numbers. */
function hasAmount(one: Entries | DescriptorAmount): one is DescriptorAmount {
  if (typeof one !== 'object' || one === null || Array.isArray(one)) return false;
  const { entries, amount, ...others } = one as Readonly<Record<string, Value>>;
  return (
    typeof entries === 'object' &&
    entries !== null &&
    typeof amount === 'number' &&
    Object.keys(others).length === 0
  );
}

function noDescriptors(): LimiterError {
  return new LimiterError('invalid', 'there are no descriptors');
}

/** Whether it is one descriptor, and not a list of them. */
export function isOne(given: Descriptors): given is Entries {
  return !Array.isArray(given) || isPairs(given);
}

/** The entries of one descriptor, and not a list of descriptors: the first element begins with a key. */
function isPairs(given: readonly unknown[]): given is Pairs {
  const [first] = given;
  return Array.isArray(first) && typeof first[0] === 'string';
}

function entriesOf(given: Entries): Entry[] {
  if (typeof given !== 'object' || given === null)
    throw new LimiterError('invalid', `a descriptor is an object or a list of pairs, not ${kindOf(given)}`);
  const pairs = Array.isArray(given) ? (given as Pairs) : Object.entries(given as Record<string, Value>);
  if (pairs.length === 0) throw new LimiterError('invalid', 'a descriptor has no entries');
  return pairs.map((pair: unknown) => {
    if (!Array.isArray(pair))
      throw new LimiterError('invalid', `an entry is a pair of key and value, not ${kindOf(pair)}`);
    if (pair.length > 2)
      throw new LimiterError('invalid', `an entry is a pair of key and value, not a list of ${pair.length}`);
    const [key, value] = pair;
    if (typeof key !== 'string' || key === '')
      throw new LimiterError('invalid', 'the key of an entry must be a string that is not empty');
    return { key, value: textOf(value) };
  });
}

function kindOf(value: unknown): string {
  return value === null ? 'null' : typeof value;
}

/**
 * Returns the text of a value. A client that sends a number, a list or nothing must not avoid its limit, or cause an error. A
 * program makes the same text of a list of one value as of the value, so the list counts as the value.
 */
function textOf(value: unknown): string {
  let single = value;
  for (let depth = 0; depth < maxDepth && Array.isArray(single) && single.length === 1; depth++)
    [single] = single;
  if (typeof single === 'string') return single.isWellFormed() ? single : single.toWellFormed();
  const inJson = (_key: string, one: unknown) => (typeof one === 'bigint' ? String(one) : one);
  if (typeof single === 'bigint') return String(single);
  try {
    return JSON.stringify(single ?? null, inJson) ?? 'null';
  } catch (error) {
    throw new LimiterError('invalid', `a value has no JSON: ${errorText(error)}`, { cause: error });
  }
}
