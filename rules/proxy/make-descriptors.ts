/** Makes descriptors from the headers of a request that a proxy asks about, as Envoy's actions make them. */

import { automatonOf } from '../../process/regex/expression.ts';
import type { Entry } from '../model.ts';
import { addressText, type ClientAddress, forwardedAddress, maskedText } from './client-address.ts';
import type { RateLimitAction, ValueMatcher } from './read-actions.ts';
import { originalHeaders, type Profile } from './read-profiles.ts';

export interface MadeDescriptors {
  descriptors: Entry[][];
  /** Headers that a proxy must send, and that are missing or empty. */
  missing: string[];
}

/** `rawHeaders`: name, value, name, value, in the order in which they arrived; bytes as Latin-1, as in Node. */
export type DescriptorMaker = (rawHeaders: readonly string[]) => MadeDescriptors;

/** An entry, nothing where the descriptor goes on without one, or false where there is no descriptor. */
type EntryMaker = (request: ProxiedRequest) => Entry | undefined | false;
/** Judges all values of a name. There are none if it is missing. */
type Matches = (values: readonly string[]) => boolean;

const forwardedFor = 'X-Forwarded-For';

/** Throws if a regular expression is invalid. `readProfilesFile` rejects such profiles. */
export function descriptorMaker(profile: Profile): DescriptorMaker {
  const makers = profile.rateLimits.map(({ actions }) => actions.map(entryMaker));
  const { method, target, host } = originalHeaders[profile.originalRequest];
  const ofProxy = [forwardedFor, method, target, host].map((name) => name.toLowerCase());
  const needed = new Set([
    ...ofProxy,
    ...profile.rateLimits.flatMap(({ actions }) => actions.flatMap(headersOf)),
  ]);
  return (rawHeaders) => {
    const request = new ProxiedRequest(profile, linesOf(rawHeaders, needed));
    const descriptors = makers.flatMap((entries) => descriptorOf(entries, request));
    return { descriptors, missing: [...request.missing] };
  };
}

function headersOf(action: RateLimitAction): string[] {
  if (action.type === 'request_headers') return [action.headerName];
  return action.type === 'header_value_match' ? action.headers.map(({ name }) => name) : [];
}

function linesOf(rawHeaders: readonly string[], needed: ReadonlySet<string>): Map<string, string[]> {
  const lines = new Map<string, string[]>();
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!.toLowerCase();
    if (!needed.has(name)) continue;
    const value = asUtf8(rawHeaders[index + 1]!);
    const known = lines.get(name);
    if (known === undefined) lines.set(name, [value]);
    else known.push(value);
  }
  return lines;
}

/** Returns the text as UTF-8. Rules are UTF-8, and so are the values that they are compared with. */
function asUtf8(latin1: string): string {
  return /[\x80-\xff]/.test(latin1) ? Buffer.from(latin1, 'latin1').toString() : latin1;
}

function descriptorOf(makers: readonly EntryMaker[], request: ProxiedRequest): Entry[][] {
  const entries: Entry[] = [];
  for (const make of makers) {
    const entry = make(request);
    if (entry === false) return [];
    if (entry !== undefined) entries.push(entry);
  }
  return entries.length === 0 ? [] : [entries];
}

/** The parts of a request that a proxy reports. It reads each once, when it needs it. */
class ProxiedRequest {
  readonly missing = new Set<string>();
  readonly #profile: Profile;
  readonly #lines: ReadonlyMap<string, string[]>;
  #address: ClientAddress | undefined | 'unread' = 'unread';
  #parameters: ReadonlyMap<string, string> | undefined;

  constructor(profile: Profile, lines: ReadonlyMap<string, string[]>) {
    this.#profile = profile;
    this.#lines = lines;
  }

  /** Returns the values of all lines of that name. Envoy's names for the request line, and `host`, are those of the original request. */
  values(name: string): readonly string[] {
    const { method } = originalHeaders[this.#profile.originalRequest];
    switch (name) {
      case ':method':
        return listed(this.#reported(method));
      case ':path':
        return listed(this.#path());
      case ':authority':
      case 'host':
        return listed(this.#host());
      default:
        return this.#lines.get(name) ?? [];
    }
  }

  get address(): ClientAddress | undefined {
    if (this.#address === 'unread') {
      const lines = this.#lines.get(forwardedFor.toLowerCase()) ?? [];
      this.#address = forwardedAddress(lines, this.#profile.trustedHops);
      if (this.#address === undefined) this.missing.add(forwardedFor);
    }
    return this.#address;
  }

  /** Returns the decoded value of the first parameter of that name. */
  parameter(name: string): string | undefined {
    this.#parameters ??= parametersOf(this.#path() ?? '');
    return this.#parameters.get(name);
  }

  #path(): string | undefined {
    const target = this.#reported(originalHeaders[this.#profile.originalRequest].target);
    if (target === undefined) return undefined;
    const rest = target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, '');
    return rest.startsWith('/') || rest === '*' ? rest : `/${rest}`;
  }

  #host(): string | undefined {
    const { originalRequest } = this.#profile;
    const reported = this.#reported(originalHeaders[originalRequest].host);
    if (originalRequest !== 'original-url' || reported === undefined) return reported;
    return /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#@]*@)?([^/?#]+)/i.exec(reported)?.[1];
  }

  /** The proxy writes one line: of several the last one, which is the nearest to it. */
  #reported(header: string): string | undefined {
    const value = this.#lines.get(header.toLowerCase())?.at(-1);
    if (value !== undefined && value !== '') return value;
    this.missing.add(header);
    return undefined;
  }
}

/** Reads query parameters as Envoy does: the first of a name counts, `+` stays, and what is no escape stays unchanged. */
function parametersOf(path: string): Map<string, string> {
  const parameters = new Map<string, string>();
  const mark = path.indexOf('?');
  if (mark === -1) return parameters;
  for (const part of path.slice(mark + 1).split('&')) {
    const equals = part.indexOf('=');
    const name = unescaped(equals === -1 ? part : part.slice(0, equals));
    if (!parameters.has(name)) parameters.set(name, equals === -1 ? '' : unescaped(part.slice(equals + 1)));
  }
  return parameters;
}

function unescaped(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (escapes) =>
    Buffer.from(escapes.replaceAll('%', ''), 'hex').toString(),
  );
}

function listed(value: string | undefined): readonly string[] {
  return value === undefined ? [] : [value];
}

function entryMaker(action: RateLimitAction): EntryMaker {
  switch (action.type) {
    case 'request_headers': {
      const { headerName, descriptorKey: key, skipIfAbsent } = action;
      return (request) => {
        // Envoy takes the first of several lines.
        const [value] = request.values(headerName);
        return value === undefined ? skipped(skipIfAbsent) : { key, value };
      };
    }
    case 'query_parameters': {
      const { queryParameterName, descriptorKey: key, skipIfAbsent } = action;
      return (request) => {
        const value = request.parameter(queryParameterName);
        return value === undefined ? skipped(skipIfAbsent) : { key, value };
      };
    }
    case 'remote_address':
      return ({ address }) => address !== undefined && { key: 'remote_address', value: addressText(address) };
    case 'masked_remote_address': {
      const { v4PrefixMaskLen, v6PrefixMaskLen } = action;
      return ({ address }) =>
        address !== undefined && {
          key: 'masked_remote_address',
          value: maskedText(address, v4PrefixMaskLen, v6PrefixMaskLen),
        };
    }
    case 'generic_key': {
      const entry = { key: action.descriptorKey, value: action.descriptorValue };
      return () => entry;
    }
    case 'header_value_match':
      return matchMaker(action, action.headers, (request, name) => request.values(name));
    case 'query_parameter_value_match':
      return matchMaker(action, action.queryParameters, (request, name) => listed(request.parameter(name)));
    default:
      // `readProfilesFile` rejects such a profile.
      return () => false;
  }
}

function skipped(skipIfAbsent: boolean): undefined | false {
  return skipIfAbsent ? undefined : false;
}

function matchMaker(
  {
    descriptorKey: key,
    descriptorValue: value,
    expectMatch,
  }: { descriptorKey: string; descriptorValue: string; expectMatch: boolean },
  matchers: readonly ValueMatcher[],
  look: (request: ProxiedRequest, name: string) => readonly string[],
): EntryMaker {
  const all = matchers.map((matcher) => ({ name: matcher.name, matches: valueMatcher(matcher) }));
  const entry = { key, value };
  return (request) => all.every(({ name, matches }) => matches(look(request, name))) === expectMatch && entry;
}

/**
 * Returns a matcher for the values of a name, of which any may match. A missing value matches nothing, inverted or not, unless
 * the matcher asks for presence.
 */
function valueMatcher({ match, invert, treatMissingAsEmpty }: ValueMatcher): Matches {
  const test = match.type === 'present' ? undefined : textTest(match);
  return (given) => {
    const values = given.length === 0 && treatMissingAsEmpty ? [''] : given;
    if (match.type === 'present') return (values.length > 0 === match.present) !== invert;
    return values.length > 0 && values.some(test!) !== invert;
  };
}

function textTest(match: Exclude<ValueMatcher['match'], { type: 'present' }>): (value: string) => boolean {
  if (match.type === 'range') {
    const { start, end } = match;
    return (value) => {
      const number = wholeNumber(value);
      return number !== undefined && number >= start && number < end;
    };
  }
  if (match.type === 'regex') {
    const automaton = automatonOf(match.text);
    return (value) => automaton.matches(value);
  }
  const fold = match.ignoreCase ? lowerAscii : (text: string) => text;
  const text = fold(match.text);
  switch (match.type) {
    case 'exact':
      return (value) => fold(value) === text;
    case 'prefix':
      return (value) => fold(value).startsWith(text);
    case 'suffix':
      return (value) => fold(value).endsWith(text);
    case 'contains':
      return (value) => fold(value).includes(text);
  }
}

/** An integer of 64 bits, with a sign. */
function wholeNumber(text: string): bigint | undefined {
  const trimmed = text.trim();
  if (!/^[+-]?\d{1,40}$/.test(trimmed)) return undefined;
  const number = BigInt(trimmed.replace(/^\+/, ''));
  return BigInt.asIntN(64, number) === number ? number : undefined;
}

function lowerAscii(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}
