/** What a program may write for a descriptor, as entries. */
import type { Entry } from '../../rules/model.ts';
import type { DescriptorAmount, Descriptors, Entries, ReservedDescriptors, Value } from './api.ts';
import { LimiterError } from './limiter-error.ts';

type Pairs = readonly (readonly [key: string, value: Value])[];

/** Throws a `LimiterError` for what is none. */
export function descriptorsOf(given: Descriptors): Entry[][] {
  if (!isList(given) || isPairs(given)) return [entriesOf(given)];
  if (given.length === 0) throw noDescriptors();
  return (given as readonly Entries[]).map(entriesOf);
}

/** The same with the amounts of those that have one; undefined where none has. */
export function reservedOf(given: ReservedDescriptors): {
  descriptors: Entry[][];
  amounts: (number | undefined)[] | undefined;
} {
  const all: readonly (Entries | DescriptorAmount)[] = isReservedList(given) ? given : [given];
  if (all.length === 0) throw noDescriptors();
  return {
    descriptors: all.map((one) => entriesOf(hasAmount(one) ? one.entries : one)),
    amounts: all.some(hasAmount) ? all.map((one) => (hasAmount(one) ? one.amount : undefined)) : undefined,
  };
}

function isReservedList(given: ReservedDescriptors): given is readonly (Entries | DescriptorAmount)[] {
  return Array.isArray(given) && !isPairs(given);
}

/** Not a descriptor with keys of these names, whose values are texts and numbers. */
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

function isList(given: Descriptors): given is Pairs | readonly Entries[] {
  return Array.isArray(given);
}

/** The entries of one descriptor, and not a list of descriptors: the first element begins with a key. */
function isPairs(given: readonly unknown[]): given is Pairs {
  const [first] = given;
  return Array.isArray(first) && typeof first[0] === 'string';
}

function entriesOf(given: Entries): Entry[] {
  if (typeof given !== 'object' || given === null)
    throw new LimiterError('invalid', `a descriptor is an object or a list of pairs, not ${typeof given}`);
  const pairs = Array.isArray(given) ? (given as Pairs) : Object.entries(given as Record<string, Value>);
  if (pairs.length === 0) throw new LimiterError('invalid', 'a descriptor has no entries');
  return pairs.map(([key, value]) => {
    if (typeof key !== 'string' || key === '')
      throw new LimiterError('invalid', 'an entry has a key that is empty or no text');
    return { key, value: textOf(value) };
  });
}

/** A client that sends a number, a list or nothing must not get around its limit, or cause an error. */
function textOf(value: Value): string {
  if (typeof value === 'string') return value.isWellFormed() ? value : value.toWellFormed();
  return JSON.stringify(value ?? null) ?? 'null';
}
