/**
 * CALLERS_FILE: the callers that may use domains, and their rights. All mistakes are reported at once, with line and column.
 * docs/callers.md has the format for people. Every scalar is read as its text, so that nothing has to be quoted.
 */
import { Right } from '../../process/grpc/handlers.ts';
import { quoted, similarName } from '../../rules/rule-error.ts';
import { readTextFile, type TextFileProblem, type YamlDocument } from '../../rules/yaml/document.ts';
import type { DocumentPath, PathProblem } from '../../rules/yaml/places.ts';
import { type CertificatePattern, nameKinds, patternProblem } from './certificate-patterns.ts';
import { maxRequestsPerSecond } from './request-rates.ts';

/** One entry, as plain data. It is posted to other threads. */
export interface CallerEntry {
  name: string;
  /** The patterns, any of which may match. */
  certificates: CertificatePattern[];
  /** SHA-256 hashes of the secrets of its tokens, in lowercase hexadecimal digits. Any of them may match. */
  tokenHashes: string[];
  /** Whether the entry is for callers that match no other entry. */
  anonymous: boolean;
  /** Patterns in which `*` stands for any text. */
  domains: string[];
  /** Bits of `Right`. */
  rights: number;
  requestsPerSecond: number | undefined;
  /** The answer to a request beyond that rate: an error, or the answer of an exceeded limit. */
  onExcess: ExcessAnswer;
}

export type CallersFile = { callers: CallerEntry[]; problems?: undefined } | { problems: TextFileProblem[] };

export const rightsByName = {
  ask: Right.ASK,
  refund: Right.REFUND,
  override: Right.OVERRIDE,
  reserve: Right.RESERVE,
  read: Right.READ,
  admin: Right.ADMIN,
} as const satisfies Record<string, number>;

/** Values of `on_excess`. The first is the default. */
export const excessAnswers = ['error', 'over_limit'] as const;
export type ExcessAnswer = (typeof excessAnswers)[number];

/** Fields of an entry. */
export const callerFields = [
  'name',
  'certificate',
  'token_sha256',
  'anonymous',
  'domains',
  'rights',
  'requests_per_second',
  'on_excess',
] as const;

/** Chosen: each caller is a row of statistics. */
export const maxCallers = 1_000;
/** Chosen: the maximum length of a list within an entry. Aliases make long lists of short texts. */
export const maxInList = 1_000;
/** The pattern of names, which are part of tokens, statistics and logs. */
export const callerName = /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/;
/** The name of callers that match no entry. */
export const unknownCaller = 'unknown';
/** The name of callers that only `anonymous: true` admits. */
export const anonymousCaller = 'anonymous';

/** Never throws. */
export function readCallersFile(text: string): CallersFile {
  const reading = readTextFile(text, (document, problems) => new CallersReader(problems).file(document));
  return reading.problems === undefined ? { callers: reading.value } : reading;
}

/** Whether a text is intended as such a file, and not as rules: its first key decides, which may contain a typo. */
export function looksLikeCallers(text: string): boolean {
  const isBefore = (line: string): boolean => /^(?:$|#|---|\{$)/.test(line);
  for (let start = 0; start < text.length; ) {
    const end = text.indexOf('\n', start);
    // A byte order mark counts as white space.
    const line = text.slice(start, end === -1 ? undefined : end).trim();
    if (!isBefore(line)) {
      if (/^(?:\{\s*)?(["']?)callers\1\s*:/.test(line)) return true;
      const key = /^([A-Za-z_-]{5,9})\s*:/.exec(line)?.[1];
      return key !== undefined && similarName(key, ['callers']) !== undefined;
    }
    if (end === -1) return false;
    start = end + 1;
  }
  return false;
}

class CallersReader {
  readonly problems: PathProblem[];

  constructor(problems: PathProblem[]) {
    this.problems = problems;
  }

  file({ value, hasMore }: YamlDocument): CallerEntry[] {
    if (hasMore) return this.#reject([], 'contains several documents, expected one') ?? [];
    const file = this.#map([], value === '' ? {} : value, ['callers']);
    const list = this.#list(['callers'], file?.['callers'], 'callers', maxCallers);
    const callers = list.flatMap((value, index) => this.#entry(['callers', index], value) ?? []);
    this.#distinct(callers);
    return callers.map(({ entry }) => entry);
  }

  #entry(path: DocumentPath, value: unknown): { path: DocumentPath; entry: CallerEntry } | undefined {
    const map = this.#map(path, value, callerFields);
    if (map === undefined) return undefined;
    const anonymous = this.#boolean([...path, 'anonymous'], map['anonymous']);
    const entry: CallerEntry = {
      name: this.#name(path, map['name'], anonymous),
      certificates: this.#certificates([...path, 'certificate'], map['certificate']),
      tokenHashes: this.#hashes([...path, 'token_sha256'], map['token_sha256']),
      anonymous: anonymous === true,
      domains: this.#list([...path, 'domains'], map['domains'], 'domains').flatMap(
        (domain, index) => this.#text([...path, 'domains', index], domain, 'a domain') ?? [],
      ),
      rights: this.#rights([...path, 'rights'], map['rights']),
      requestsPerSecond: this.#rate([...path, 'requests_per_second'], map['requests_per_second']),
      onExcess: this.#excess([...path, 'on_excess'], map),
    };
    this.#identified(path, map, anonymous);
    return { path, entry };
  }

  /** `anonymous` is undefined if it could not be read. It is then unknown whether the name is missing. */
  #name(path: DocumentPath, value: unknown, anonymous: boolean | undefined): string {
    if (value === undefined && anonymous !== false) return anonymous === true ? anonymousCaller : '';
    const name = this.#text([...path, 'name'], value, 'name');
    if (name === undefined) return '';
    if (!callerName.test(name)) {
      const form = 'at most 63 letters, digits, `-` and `_`, and begins with a letter or digit';
      this.#reject([...path, 'name'], `name: ${quoted(name)} is not a name: a name has ${form}`);
    } else if (name === unknownCaller || (name === anonymousCaller && anonymous === false)) {
      this.#reject([...path, 'name'], `name: ${quoted(name)} is reserved for callers that match no entry`);
    }
    return name;
  }

  /** Checks that the entry identifies its callers. */
  #identified(path: DocumentPath, map: Record<string, unknown>, anonymous: boolean | undefined): void {
    if (anonymous === undefined) return;
    const proofs = ['certificate', 'token_sha256'].filter((key) => map[key] !== undefined);
    if (anonymous && proofs.length > 0) {
      this.#reject(
        [...path, proofs[0]!],
        `${proofs[0]}: an entry with anonymous: true has no proof of identity`,
      );
    } else if (!anonymous && proofs.length === 0) {
      this.#reject(
        path,
        'expected certificate, token_sha256 or anonymous: true, which identifies the caller',
      );
    }
  }

  #certificates(path: DocumentPath, value: unknown): CertificatePattern[] {
    if (value === undefined) return [];
    if (!Array.isArray(value)) return this.#certificate(path, value);
    return this.#list(path, value, 'certificate').flatMap((one, index) =>
      this.#certificate([...path, index], one),
    );
  }

  #certificate(path: DocumentPath, value: unknown): CertificatePattern[] {
    const map = this.#map(path, value, nameKinds);
    if (map === undefined) return [];
    const pattern: Partial<Record<(typeof nameKinds)[number], string>> = {};
    for (const kind of nameKinds) {
      if (map[kind] === undefined) continue;
      const text = this.#text([...path, kind], map[kind], kind);
      if (text === undefined) continue;
      const problem = patternProblem(kind, text);
      if (problem === undefined) pattern[kind] = text;
      else this.#reject([...path, kind], `${kind}: ${quoted(text)}: ${problem}`);
    }
    if (Object.keys(map).length === 0) this.#reject(path, 'certificate: expected uri, dns or cn');
    return [pattern];
  }

  #hashes(path: DocumentPath, value: unknown): string[] {
    if (value === undefined) return [];
    const list = Array.isArray(value) ? this.#list(path, value, 'token_sha256') : [value];
    return list.flatMap((one, index) => {
      const place = Array.isArray(value) ? [...path, index] : path;
      const hash = this.#text(place, one, 'token_sha256')?.toLowerCase();
      if (hash === undefined) return [];
      if (/^[0-9a-f]{64}$/.test(hash)) return [hash];
      // The value may be the token itself, by mistake, so it is not shown.
      const what = `64 hexadecimal digits (as \`weir callers token\` prints them), this has ${hash.length} characters`;
      this.#reject(place, `token_sha256: expected ${what}`);
      return [];
    });
  }

  #rights(path: DocumentPath, value: unknown): number {
    if (value === undefined) return Right.ASK;
    let rights = 0;
    for (const [index, one] of this.#list(path, value, 'rights').entries()) {
      const name = this.#text([...path, index], one, 'a right');
      if (name === undefined) continue;
      if (Object.hasOwn(rightsByName, name)) rights |= rightsByName[name as keyof typeof rightsByName];
      else {
        const known = Object.keys(rightsByName).join(', ');
        this.#reject([...path, index], `rights: there is no right ${quoted(name)}, there are ${known}`);
      }
    }
    if ((rights & (Right.REFUND | Right.OVERRIDE)) !== 0 && (rights & Right.ASK) === 0) {
      this.#reject(path, 'rights: refund and override have no effect without ask');
    }
    return rights;
  }

  #rate(path: DocumentPath, value: unknown): number | undefined {
    if (value === undefined) return undefined;
    const text = this.#text(path, value, 'requests_per_second');
    if (text === undefined) return undefined;
    const rate = /^[0-9]{1,9}$/.test(text) ? Number(text) : 0;
    if (rate >= 1 && rate <= maxRequestsPerSecond) return rate;
    const what = `a whole number from 1 to ${maxRequestsPerSecond}, not ${quoted(text)}`;
    return this.#reject(path, `requests_per_second: expected ${what}`);
  }

  #excess(
    path: DocumentPath,
    { on_excess: value, requests_per_second: rate }: Record<string, unknown>,
  ): ExcessAnswer {
    if (value === undefined) return 'error';
    const text = this.#text(path, value, 'on_excess');
    if (text === undefined) return 'error';
    const answer = excessAnswers.find((one) => one === text);
    if (answer === undefined) {
      const what = `${excessAnswers.join(' or ')}, not ${quoted(text)}`;
      this.#reject(path, `on_excess: expected ${what}`);
    } else if (rate === undefined) {
      this.#reject(path, 'on_excess: has no effect without requests_per_second');
    }
    return answer ?? 'error';
  }

  /**
   * Reports equal names, because they are part of tokens and statistics. Also reports a second anonymous entry, which no caller
   * would ever match.
   */
  #distinct(callers: readonly { path: DocumentPath; entry: CallerEntry }[]): void {
    const names = new Set<string>();
    let hasAnonymous = false;
    for (const { path, entry } of callers) {
      if (entry.anonymous && hasAnonymous) {
        this.#reject(
          [...path, 'anonymous'],
          'anonymous: there is already an entry for callers without a name',
        );
      } else if (entry.name !== '' && names.has(entry.name)) {
        this.#reject([...path, 'name'], `${quoted(entry.name)}: another entry has this name`);
      }
      hasAnonymous ||= entry.anonymous;
      names.add(entry.name);
    }
  }

  /** A misspelled key is read as the intended one, so that no present key is reported as missing. */
  #map(path: DocumentPath, value: unknown, known: readonly string[]): Record<string, unknown> | undefined {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      return this.#reject(path, `expected a map with ${known.join(', ')}`);
    }
    const map: Record<string, unknown> = { ...value };
    for (const [key, one] of Object.entries(value)) {
      if (known.includes(key)) continue;
      const meant = similarName(key, known);
      const problem = meant === undefined ? `expected ${known.join(', ')}` : `did you mean ${meant}?`;
      this.#reject([...path, key], `unknown key ${quoted(key)}, ${problem}`, true);
      if (meant !== undefined) map[meant] ??= one;
    }
    return map;
  }

  #list(path: DocumentPath, value: unknown, name: string, max = maxInList): unknown[] {
    if (Array.isArray(value) && value.length > 0 && value.length <= max) return value;
    if (value === undefined) this.#reject(path, `${name}: is missing`);
    else if (!Array.isArray(value) || value.length === 0)
      this.#reject(path, `${name}: expected a list with at least one entry`);
    else this.#reject(path, `${name}: has ${value.length} entries, the most is ${max}`);
    return [];
  }

  #text(path: DocumentPath, value: unknown, name: string): string | undefined {
    if (typeof value === 'string' && value !== '') return value;
    const problem = value === undefined || value === '' ? 'is missing' : 'expected text';
    return this.#reject(path, `${name}: ${problem}`);
  }

  #boolean(path: DocumentPath, value: unknown): boolean | undefined {
    if (value === undefined || value === 'false') return false;
    if (value === 'true') return true;
    const came = typeof value === 'string' && value !== '' ? `, not ${quoted(value)}` : '';
    return this.#reject(path, `anonymous: expected true or false${came}`);
  }

  #reject(path: DocumentPath, message: string, isKey = false): undefined {
    this.problems.push({ path, message, isKey });
    return undefined;
  }
}
