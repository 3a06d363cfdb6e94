/**
 * Reads the file of profiles (PROFILES_FILE), which determines the descriptors of requests from proxies other than Envoy. It reports all
 * mistakes at once, with line and column. docs/forward-auth.md has the format for people. Every scalar is read as its text, so that
 * nothing has to be quoted.
 */

import { newCostBudget } from '../../process/regex/expression.ts';
import { isObject } from '../model.ts';
import { fieldPath, quoted, similarName } from '../rule-error.ts';
import { readTextFile, type TextFileProblem, type YamlDocument } from '../yaml/document.ts';
import { type DocumentPath, type PathProblem, valuePlacer } from '../yaml/places.ts';
import {
  cameAs,
  type RateLimitAction,
  type RateLimitConfig,
  readRateLimits,
  unknownField,
} from './read-actions.ts';

/** The source of the original request: method, path with query, and host. */
export const originalHeaders = {
  forwarded: { method: 'X-Forwarded-Method', target: 'X-Forwarded-Uri', host: 'X-Forwarded-Host' },
  'original-uri': { method: 'X-Original-Method', target: 'X-Original-URI', host: 'X-Original-Host' },
  /** The host is that of the URL. */
  'original-url': { method: 'X-Original-Method', target: 'X-Original-URL', host: 'X-Original-URL' },
  /** This proxy sends no headers of its own: the request to the limiter repeats the request line. */
  'ext-authz': { method: ':method', target: ':path', host: 'Host' },
} as const;
export type OriginalRequest = keyof typeof originalHeaders;
const originalRequests = Object.keys(originalHeaders) as OriginalRequest[];

/** A profile as plain data. It is posted to other threads. */
export interface Profile {
  name: string;
  domain: string;
  refusedStatus: 429 | 403;
  /** The answer to a request that cannot be decided. */
  onError: 'allow' | 'deny';
  /** The number of addresses after the client's address in X-Forwarded-For. */
  trustedHops: number;
  /** The headers that report the original request. Others are ignored, because clients may have sent them. */
  originalRequest: OriginalRequest;
  rateLimits: RateLimitConfig[];
}

export type ProfilesFile =
  | {
      profiles: Profile[];
      problems?: undefined;
      placeOf(path: DocumentPath): { line: number; column: number };
    }
  | { problems: TextFileProblem[] };

/** Chosen: more than people read, and each thread holds all of them. */
export const maxProfiles = 1_000;
/** Chosen: far above the number of hops in front of any proxy. */
export const maxTrustedHops = 100;
/** The form of a name, which is a part of a path. */
export const profileName = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
export const profileFields = [
  'domain',
  'rate_limits',
  'refusedStatus',
  'onError',
  'trustedHops',
  'originalRequest',
] as const;
/** The parts of Envoy's request line that exist here. */
const pseudoHeaders: readonly string[] = [':method', ':path', ':authority'];

/** Never throws. */
export function readProfilesFile(text: string): ProfilesFile {
  const reading = readTextFile(text, (document, problems) => new ProfilesReader(problems).file(document));
  if (reading.problems !== undefined) return reading;
  return { profiles: reading.value, placeOf: valuePlacer(reading.tape) };
}

/** Returns whether a text is intended as such a file instead of rules, by its first key. */
export function looksLikeProfiles(text: string): boolean {
  const first = /^(?:\ufeff|[ \t\r\n{]|#[^\n]*|---)*(["']?)([A-Za-z]+)\1[ \t]*:/.exec(text);
  return first?.[2] !== undefined && /^(?:profiles?|proflies|porfiles)$/i.test(first[2]);
}

class ProfilesReader {
  readonly problems: PathProblem[];
  /** Fields that are present under another name, so that they are not reported as missing. */
  readonly #misspelled = new Set<string>();

  constructor(problems: PathProblem[]) {
    this.problems = problems;
  }

  file({ value, hasMore }: YamlDocument): Profile[] {
    if (hasMore) return this.#reject([], 'contains several documents, expected one') ?? [];
    if (value === '') return [];
    const file = this.#map([], value, ['profiles'], 'the file');
    if (file === undefined) return [];
    const { profiles } = file;
    if (profiles === '' || profiles === undefined) return [];
    if (!isObject(profiles)) {
      const form = 'expected a map of names, each with domain and rate_limits';
      return this.#reject(['profiles'], `profiles: ${form}`) ?? [];
    }
    const names = Object.keys(profiles);
    if (names.length > maxProfiles)
      this.#reject(['profiles'], `profiles: ${names.length} are too many, ${maxProfiles} are allowed`);
    return names.slice(0, maxProfiles).flatMap((name) => this.#profile(name, profiles[name]) ?? []);
  }

  #profile(name: string, value: unknown): Profile | undefined {
    const path = ['profiles', name];
    if (!profileName.test(name)) {
      const form = 'at most 63 letters, digits, `.`, `_` and `-`, and begins with a letter or digit';
      this.#reject(path, `${quoted(name)} is not a name of a profile, which has ${form}`, true);
    }
    const map = this.#map(path, value, profileFields, 'a profile');
    if (map === undefined) return undefined;
    return {
      name,
      domain: this.#domain([...path, 'domain'], map['domain'], path),
      refusedStatus: Number(this.#choice(path, map, 'refusedStatus', ['429', '403'])) as 429,
      onError: this.#choice(path, map, 'onError', ['allow', 'deny']),
      trustedHops: this.#hops([...path, 'trustedHops'], map['trustedHops']),
      originalRequest: this.#choice(path, map, 'originalRequest', originalRequests),
      rateLimits: this.#rateLimits(path, map['rate_limits']),
    };
  }

  #rateLimits(path: DocumentPath, value: unknown): RateLimitConfig[] {
    const at = [...path, 'rate_limits'];
    if (value === undefined && this.#misspelled.has(fieldPath(at))) return [];
    if (value === undefined || value === '') {
      const problem = 'rate_limits: is missing, expected a list as in a route of Envoy';
      return this.#reject(value === undefined ? path : at, problem) ?? [];
    }
    const reported = this.problems.length;
    const read = readRateLimits(value, at, this.problems, newCostBudget());
    if (Array.isArray(value) && value.length === 0) this.#reject(at, 'rate_limits: expected at least 1');
    // Positions are those of the file only if nothing was left out.
    if (this.problems.length === reported)
      for (const [index, one] of read.entries()) this.#check([...at, index], one);
    return read;
  }

  /** Reports the fields that only Envoy supports. */
  #check(
    path: DocumentPath,
    { actions, stage, disableKey, hasOwnLimit, hasOwnHits, onStreamDone }: RateLimitConfig,
  ): void {
    const reject = (isThere: boolean, key: string, why: string): void => {
      if (isThere) this.#reject([...path, key], `${key}: ${why}`, true);
    };
    reject(stage !== 0, 'stage', 'a profile is one stage, 0');
    reject(disableKey !== '', 'disable_key', 'only the runtime of Envoy could disable it');
    reject(hasOwnLimit, 'limit', 'its value is metadata, which only Envoy has');
    reject(hasOwnHits, 'hits_addend', 'each request counts 1');
    reject(onStreamDone, 'apply_on_stream_done', 'a profile is used only before the request');
    for (const [index, action] of actions.entries()) this.#checkAction([...path, 'actions', index], action);
  }

  #checkAction(path: DocumentPath, action: RateLimitAction): void {
    switch (action.type) {
      case 'source_cluster':
      case 'destination_cluster':
      case 'metadata':
      case 'extension':
        this.#reject(path, `${action.type}: only Envoy knows its value, and a profile is for other proxies`);
        break;
      case 'request_headers':
        this.#checkHeader([...path, action.type, 'header_name'], action.headerName);
        break;
      case 'header_value_match':
        for (const [index, { name }] of action.headers.entries())
          this.#checkHeader([...path, action.type, 'headers', index, 'name'], name);
        break;
      default:
    }
  }

  #checkHeader(path: DocumentPath, name: string): void {
    if (!name.startsWith(':') || pseudoHeaders.includes(name)) return;
    this.#reject(path, `${quoted(name)} is not known, there are ${pseudoHeaders.join(', ')}`);
  }

  #domain(path: DocumentPath, value: unknown, profile: DocumentPath): string {
    if (typeof value === 'string' && value !== '') return value;
    if (value === undefined && this.#misspelled.has(fieldPath(path))) return '';
    const problem =
      value === undefined || value === '' ? 'is missing: the domain of the rules' : 'expected text';
    return this.#reject(value === undefined ? profile : path, `domain: ${problem}`) ?? '';
  }

  /** The first one where nothing is said. */
  #choice<Choice extends string>(
    profile: DocumentPath,
    map: Record<string, unknown>,
    field: (typeof profileFields)[number],
    choices: readonly Choice[],
  ): Choice {
    const value = map[field];
    const chosen = value === undefined ? choices[0] : choices.find((one) => one === value);
    if (chosen === undefined)
      this.#reject([...profile, field], `${field}: expected ${choices.join(' or ')}${cameAs(value)}`);
    return chosen ?? choices[0]!;
  }

  #hops(path: DocumentPath, value: unknown): number {
    if (value === undefined) return 0;
    const hops = typeof value === 'string' && /^\d{1,3}$/.test(value) ? Number(value) : Number.NaN;
    if (hops <= maxTrustedHops) return hops;
    const form = `expected a whole number from 0 to ${maxTrustedHops}`;
    return this.#reject(path, `trustedHops: ${form}${cameAs(value)}`) ?? 0;
  }

  #map(
    path: DocumentPath,
    value: unknown,
    known: readonly string[],
    what: string,
  ): Record<string, unknown> | undefined {
    if (!isObject(value)) return this.#reject(path, `${what}: expected a map with ${known.join(', ')}`);
    for (const key of Object.keys(value)) {
      if (known.includes(key)) continue;
      const meant = similarName(key, known);
      if (meant !== undefined) this.#misspelled.add(fieldPath([...path, meant]));
      this.#reject([...path, key], unknownField(what, key, known), true);
    }
    return value;
  }

  #reject(path: DocumentPath, message: string, isKey = false): undefined {
    this.problems.push({ path, message, isKey });
    return undefined;
  }
}
