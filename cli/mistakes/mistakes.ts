/**
 * Explains errors of rules to people: what is wrong, in plain words, what to do, and what to mark. A table has an entry for each code.
 * Readers use the words of the Go service, as logs do.
 */
import { algorithmNames } from '../../rules/algorithms/registry.ts';
import type { FieldKind } from '../../rules/language/fields.ts';
import { apiVersion, kind as rulesKind } from '../../rules/language/kinds.ts';
import { manifestWords } from '../../rules/language/tables.ts';
import { maxRequests } from '../../rules/model.ts';
import { rateLimitConfigTypeUrl } from '../../rules/reader/resource.ts';
import { fieldPath, type RuleError, type RuleErrorCode } from '../../rules/rule-error.ts';
import type { LineIndex, TextPlace } from '../../rules/yaml/places.ts';
import { keyPlace, parentKeyPlace, wordAt } from './caret.ts';
import {
  intendedAlgorithm,
  intendedNumber,
  intendedTimezone,
  intendedUnit,
  intendedWord,
  kindOf,
  knownFields,
  lastName,
  misplacedHint,
  unknownFieldHint,
  unknownObjectFieldHint,
  withBurst,
} from './intended-names.ts';
import { chartHint, templateMistake, type YamlMistake, yamlMistake } from './yaml-mistakes.ts';

/** An error in plain words, at the place to mark. */
export interface ExplainedError extends RuleError {
  hint: string | undefined;
  /** The number of characters to mark. */
  length?: number;
}

/** An error, as the entries of the table see it. */
interface Mistake extends Pick<RuleError, 'code' | 'path'> {
  /** The words of the reader, without the path of an object and without prefixes of the Go service. */
  words: string;
  /** Whether the words say what the field at the path of an object or a resource must be. */
  isOfObject: boolean;
  source: string;
  /** The last step of the path. */
  field: string | number | undefined;
  /** The text at its place; empty if it is unknown. */
  written: string;
}

interface Explanation {
  /** What is wrong. Undefined if the words say it. */
  text?: string;
  /** What to do, in the spelling of rule files. */
  hint?: string | undefined;
  /** What to mark in place of the value: its key, or the key of the mapping that has no such field. */
  mark?: 'key' | 'parent';
}

const marksHint = 'write percentages of the limit: warn_at: [50, 80, 95]';

const explanations: Partial<Record<RuleErrorCode, Explanation | ((mistake: Mistake) => Explanation)>> = {
  'wrong-type': (mistake) => ({ text: wrongTypeText(mistake), hint: wrongTypeHint(mistake) }),
  'list-element-not-a-map': ({ path, written }) => ({
    text: `an element of '${path.at(-2) ?? ''}' must be a mapping, found ${written}`,
    hint: path.includes('replaces')
      ? kinds.names![1]
      : path.at(-2) === 'rate_limits'
        ? 'each element of rate_limits is a mapping: { unit: minute, requests_per_unit: 5 }'
        : 'each element of descriptors is a mapping: "- key: <key>"',
  }),
  'unknown-key': unknownKey,
  'misplaced-key': ({ field, path }) => ({ hint: misplacedHint(String(field), path.slice(0, -1)) }),
  'duplicate-key': ({ field }) => ({
    hint:
      field === 'key'
        ? 'each rule begins with a dash: "- key:"'
        : field === 'rate_limit'
          ? 'remove one; write several limits of a rule in rate_limits'
          : 'remove one of the two',
  }),
  'key-not-a-string': ({ path, written }) => ({
    text: `the name of a field must be a text, found ${written}`,
    hint: /^\d{3}$/.test(written)
      ? 'write numbers without separators: 1000'
      : /^(?:y|yes|no|n|on|off|true|false)$/i.test(written)
        ? `YAML takes ${written} for true or false: no field has that name`
        : knownFields(path.slice(0, -1)),
  }),
  'empty-domain': ({ path, written }) => ({
    text: /^["']/.test(written)
      ? 'the domain is empty'
      : `${written === '' ? 'the file is empty: it' : 'the file'} has no domain`,
    hint: path[0] === 'spec' ? 'write domain: <domain>' : 'the first line of a rule file is "domain: <name>"',
  }),
  'empty-key': ({ written }) => ({
    text: /^["']/.test(written) ? 'the key is empty' : 'the rule has no key',
    hint: 'each rule needs "key:", the key of the request\'s entry',
    mark: 'parent',
  }),
  'duplicate-domain': ({ words }) => ({
    text: words.replace(/^duplicate (domain .*) in config file$/, '$1 is already in an earlier file'),
    hint: 'with --merge-domain-configs (MERGE_DOMAIN_CONFIG=true) several files may name one domain',
  }),
  'duplicate-descriptor': ({ words }) => ({
    text: words.replace('duplicate descriptor composite key', 'an earlier rule exists'),
    hint: 'remove one: a level has only one rule for a key and value, joined by _; write several limits of a rule in rate_limits',
  }),
  'invalid-unit': ({ words }) =>
    words.endsWith("''")
      ? {
          text: 'the limit has no unit',
          hint: 'write unit: minute, or window: 5m for other windows',
          mark: 'parent',
        }
      : { text: words.replace('invalid rate limit unit', 'unknown unit'), hint: unitHint(words) },
  'unit-when-unlimited': ({ words }) => ({
    text: words.replace(
      /^should not specify (?:rate limit )?(\w+) when unlimited$/,
      "'$1' has no meaning beside unlimited",
    ),
    hint: 'remove it, or remove unlimited',
    mark: 'key',
  }),
  'invalid-window': ({ words }) => ({ hint: windowHint(words) }),
  'burst-without-bucket': { hint: `write algorithm: ${withBurst}, or remove burst`, mark: 'key' },
  'invalid-limits': { hint: 'write rate_limit for one limit, rate_limits for several', mark: 'key' },
  'duplicate-limit': ({ words }) => ({
    // The name of a limit distinguishes it in statistics, but not in counters.
    hint: /have the same calendar/.test(words)
      ? 'remove one of the two, or give it another calendar'
      : /have the window/.test(words)
        ? 'remove one of the two, or give it another window or algorithm; another name is not enough'
        : 'give one of the two another name',
  }),
  'invalid-calendar': ({ words }) => ({ hint: calendarHint(words) }),
  'invalid-hits-unit': { hint: 'it is a text for people, and does not affect counting' },
  'invalid-marks': { hint: marksHint },
  'invalid-reserve': ({ words }) => ({
    hint: /^(?:the ttl|on_?expiry|reserve must be)/i.test(words)
      ? 'write reserve: { ttl: 60s, estimate: 2000, on_expiry: release }'
      : 'remove it',
  }),
  'invalid-lease': ({ words }) => ({
    hint: words.startsWith('lease must be')
      ? 'write a number with at most four decimals and a percent sign: lease: 2%'
      : 'remove it',
  }),
  'invalid-assign': { hint: 'write assign: exact or assign: refilling, or remove it' },
  'empty-replaces': {
    text: 'the name is empty',
    hint: 'write the name of a limit, or remove the element',
  },
  'replaces-itself': {
    text: 'the limit replaces itself',
    hint: 'a limit cannot replace itself: write the name of another limit',
  },
  'share-threshold-without-wildcard': {
    hint: 'remove share_threshold, or write a value with *: a value without * is only one value',
  },
  'unread-document': { hint: 'write each domain into its own file' },
  'ignored-file': { hint: 'rename it so that it ends in .yaml; the Go service reads files with any name' },
  unreadable: ({ words }) => ({
    hint: /is not JSON/.test(words) ? 'check for an extra comma or a missing quote' : undefined,
  }),
};

/** Explains an error in plain words. `lines` are those of its file; undefined if it has none. */
export function explained(error: RuleError, lines: LineIndex | undefined): ExplainedError {
  const { line, column } = error;
  const mistake = mistakeOf(error, writtenAt(error, lines));
  const { text = mistake.words, mark, hint } = explanationOf(mistake);
  const inWords = { ...error, text, hint };
  if (lines === undefined || line === undefined || column === undefined) return inWords;
  const place = { line, column };
  const found = mistakeInText(error, lines, place);
  if (found !== undefined) return { ...error, ...found };
  if (mark === 'parent') return { ...inWords, ...parentKeyPlace(lines, place) };
  const { field } = mistake;
  return mark === 'key' && typeof field === 'string'
    ? { ...inWords, ...keyPlace(lines, place, field) }
    : inWords;
}

/** Adds to an error in the words of the Go service what to do. */
export function withHint(error: RuleError, lines: LineIndex | undefined): ExplainedError {
  return { ...error, hint: hintFor(error, writtenAt(error, lines)) };
}

type UnplacedError = Pick<RuleError, 'code' | 'path' | 'text'> & { source?: string };

/** Returns what to do about an error; undefined if the error says it. `written`: the text at its place. */
export function hintFor(error: UnplacedError, written = ''): string | undefined {
  return explanationOf(mistakeOf(error, written)).hint;
}

/** Finds a mistake that only the text shows: it is not YAML, or a template. */
function mistakeInText(
  { code, text }: RuleError,
  lines: LineIndex,
  place: TextPlace,
): YamlMistake | undefined {
  if (code === 'syntax') return yamlMistake(text, lines, place);
  const { line } = place;
  const mayBeTemplate = code === 'wrong-type' || code === 'key-not-a-string';
  return mayBeTemplate ? templateMistake(lines, { from: line, to: line }) : undefined;
}

function writtenAt({ line, column = 1 }: RuleError, lines: LineIndex | undefined): string {
  return line === undefined || lines === undefined ? '' : wordAt(lines, line, column);
}

const goPrefix = /^config (?:error|warning), |^error loading config file: yaml: /;

function mistakeOf({ code, path, text, source = '' }: UnplacedError, written: string): Mistake {
  const place = `${fieldPath(path)}: `;
  const isAfterPlace = text.startsWith(place);
  const words = (isAfterPlace ? text.slice(place.length) : text).replace(goPrefix, '');
  const isOfObject = isAfterPlace || path[0] === 'spec';
  return { code, path, words, isOfObject, source, field: path.at(-1), written };
}

/** Explains a mistake in the spelling of its format. Words that errors of several codes have come before the code. */
function explanationOf(mistake: Mistake): Explanation {
  const { code, path, words, isOfObject, written } = mistake;
  const entry = explanations[code];
  const ofCode = typeof entry === 'function' ? entry(mistake) : entry;
  const hint = wordHint(words) ?? ofCode?.hint;
  const explanation = { ...ofCode, hint: path[0] === 'spec' && hint ? manifestWords(hint) : hint };
  if (isOfObject && /^(?:(?:must|is|are) |")/.test(words)) explanation.text = objectText(mistake);
  // A value of several lines is not shown; its key is.
  const isLong = /!!(?:map|seq)|found (?:null|a list|an object)$/.test(words) && !/^[[{]/.test(written);
  if (isLong) explanation.mark ??= 'key';
  else if (words.includes('is required')) explanation.mark ??= 'parent';
  return explanation;
}

/** Returns the hint for words about names that errors of several codes have. */
function wordHint(words: string): string | undefined {
  const [unknown, algorithm] = /^unknown algorithm(?: '([^']*)')?/.exec(words) ?? [];
  if (unknown !== undefined)
    return didYouMean(intendedAlgorithm(algorithm ?? '')) ?? `write one of ${algorithmNames.join(', ')}`;
  const [, known, written] =
    /(?:(?:hits_?unit|on_?expiry) must be|a calendar has the unit) (.*), found '(.*)'$/is.exec(words) ?? [];
  if (known !== undefined) return didYouMean(intendedWord(known, written!));
  const [, place, beside] = /^(window|calendar) replaces .*found (.*) beside it$/.exec(words) ?? [];
  return beside === undefined ? undefined : `leave ${beside} out, or ${place}`;
}

function didYouMean(intended: string | undefined): string | undefined {
  return intended === undefined ? undefined : `did you mean ${intended}?`;
}

/** Says what is wrong with a field of an object. Its place stands for the path, so only the name of the field is left. */
function objectText({ path, field, words }: Mistake): string {
  const name = lastName(path) ?? '';
  const full = path[0] === 'metadata' ? fieldPath(path) : name;
  const subject = typeof field === 'number' ? `an element of '${name}'` : `'${full}'`;
  return words.startsWith('"') ? `${subject}: ${words}` : `${subject} ${words}`;
}

const chartFile = /(?:^|[/\\])(?:Chart|values[\w.-]*)\.ya?ml$/;
const kustomization = /(?:^|[/\\])kustomization\.ya?ml$/;
/** Words of Envoy's own configuration, which has no rules. */
const envoyWords =
  /^(?:static_resources|dynamic_resources|admin|node|layered_runtime|configs|virtual_hosts|route_config|http_filters|listeners)$/;

function unknownKey({ path, field, words, source }: Mistake): Explanation {
  const [unknown, known, place] = /^unknown field(?:; (.*)|.*belongs to (.*)|.*)$/.exec(words) ?? [];
  const what = `'${lastName(path)}'`;
  const ofObject =
    place === undefined
      ? `unknown field ${what}`
      : `field ${what} has no meaning here, it belongs to ${place}`;
  const text = unknown === undefined ? words : ofObject;
  const name = String(field);
  const hint = (): string | undefined => {
    if (known !== undefined) return known;
    const isTop = path.length === 1;
    if (isTop && unknown !== undefined) return unknownObjectFieldHint(name);
    if (isTop && kustomization.test(source))
      return 'a Kustomization has no rules; check its output: kubectl kustomize <folder> | weir check -';
    if (isTop && chartFile.test(source)) return chartHint;
    if (isTop && envoyWords.test(name))
      return "this is Envoy's configuration: weir check --envoy <file> <rules> compares it with rules";
    if (/^(?:actions|stage|disable_key)$/.test(name))
      return 'actions belong into the routes of Envoy; a rule has the key and the value that they send';
    return unknownFieldHint(name, path.slice(0, -1));
  };
  return { text, hint: hint(), mark: 'key' };
}

function unitHint(words: string): string {
  const written = /'([^']*)'$/.exec(words)?.[1] ?? '';
  const [, count, letter] = /^(\d+) *(s|m|h|d|w|mo|y)[a-z]*$/i.exec(written) ?? [];
  const duration =
    count && `write this duration as window: ${count}${letter!.toLowerCase()} in place of unit`;
  return (
    didYouMean(intendedUnit(written)) ??
    duration ??
    'units are second, minute, hour, day, week, month and year'
  );
}

/** Returns the hint for a text that is almost a window, such as `5 min`. Other errors name the rule that the text breaks. */
function windowHint(words: string): string | undefined {
  if (!words.startsWith('the window ')) return 'write unit, with unit_multiplier if necessary, or window: 5m';
  const [, whole] = /^the window '(\d+h\d+)' is not a duration/.exec(words) ?? [];
  if (whole !== undefined) return `did you mean ${whole}m?`;
  const [, count, written = ''] = /^the window '(\d+) *([a-z]+)' is not a duration/i.exec(words) ?? [];
  const unit = intendedUnit(written);
  return count && unit && `write window: ${count}${unit === 'month' ? 'mo' : unit.charAt(0)}`;
}

function calendarHint(words: string): string {
  if (/only for algorithm/.test(words)) return 'remove algorithm, or remove calendar';
  const [, timezone] = /timezone must be .*found '(.*)'$/s.exec(words) ?? [];
  if (timezone === undefined)
    return 'write calendar: { unit: month, timezone: Europe/Zurich, starts_on: 15 } in place of unit';
  return (
    didYouMean(intendedTimezone(timezone)) ?? 'write a name such as Europe/Zurich; remove timezone for UTC'
  );
}

/** What each kind of field takes, and what to write; other kinds are texts. */
const kinds: Partial<Record<FieldKind, readonly [words: string, hint: string]>> = {
  boolean: ['true or false', 'write true or false, without quotes'],
  uint32: ['a whole number', 'write a whole number'],
  requests: ['a whole number', 'write a whole number'],
  rules: ['a list of rules', 'descriptors is a list: each rule begins with "- key:"'],
  limit: ['a mapping', 'write a mapping: rate_limit: { unit: minute, requests_per_unit: 5 }'],
  limits: ['a list of limits', 'rate_limits is a list of 2 to 8 limits; write a single limit in rate_limit'],
  percents: ['a list of percentages', 'warn_at is a list of percentages: warn_at: [50, 80, 95]'],
  names: ['a list of mappings', 'replaces is a list of mappings: [{ name: <name of a limit> }]'],
  metadata: ['a mapping', 'metadata is a mapping'],
  calendar: ['a mapping', 'write calendar: { unit: month, timezone: Europe/Zurich }'],
  reserve: ['a mapping', 'write reserve: { ttl: 60s, estimate: 2000 }'],
};
const ofText = ['a text', 'write a string here, not a list or a mapping'] as const;

/** Says what a value of a rule file must be, whatever the Go service calls it. */
function wrongTypeText({ path, field, words, written }: Mistake): string {
  const [isOfType, tag] = /cannot unmarshal (!!\w+)|^error checking config$/.exec(words) ?? [];
  if (isOfType === undefined) return words;
  const found = tag === '!!map' ? 'a mapping' : tag === '!!seq' ? 'a list' : written;
  if (typeof field === 'number' && kindOf(path.at(-2)) === 'percents')
    return `an element of '${path.at(-2)}' must be a percent, found ${found}`;
  if (field === undefined) return `a rule file must be a mapping, found ${found}`;
  return `'${field}' must be ${(kinds[kindOf(field) ?? 'text'] ?? ofText)[0]}, found ${found}`;
}

/** The Go service names the type into which it cannot read a value. Readers of objects name what they want and what they found. */
function wrongTypeHint(mistake: Mistake): string | undefined {
  const { path, field, words, written, source, isOfObject } = mistake;
  if (chartFile.test(source) && path[0] !== 'spec') return chartHint;
  if (kindOf(path.at(-2)) === 'percents') return marksHint;
  if (/into uint32|can be at most/.test(words)) return intendedNumber(field, written);
  if (words === 'error checking config')
    return intendedNumber(field, written) ?? `put it into quotes to make it a text: ${field}: "${written}"`;
  const [, wanted, found] =
    /^must be (a string|a whole number|true or false|a list|an object), found (.*)$/s.exec(words) ?? [];
  const isList = found === 'a list' || words.includes('!!seq');
  if (isList && field === 'value') return 'a rule has one value: write a rule for each, or a pattern with *';
  if (wanted === 'a string' && !/^(?:null|an |a )/.test(found!)) return textHint(mistake);
  const [, digits] = /^the text '(\d+)'$/.exec(found ?? '') ?? [];
  if (wanted === 'a whole number' && digits !== undefined) return `write ${field}: ${digits}, without quotes`;
  if (wanted === 'a whole number') return `write a whole number from 0 to ${maxRequests}`;
  if (wanted === 'true or false') return kinds.boolean![1];
  if (field === '@type') return `write "@type": "${rateLimitConfigTypeUrl}"`;
  // Resources are JSON, without dashes.
  if (isOfObject && (path[0] === 'resources' || path[0] === 'descriptors')) return undefined;
  if (wanted === 'a string') return undefined;
  if (wanted === 'a list') return `each element of ${field} begins with a dash`;
  if (wanted === undefined && !words.includes('cannot unmarshal')) return objectHint(mistake);
  return kindHint(field, isList ? 'list' : words.includes('!!map') ? 'map' : undefined);
}

function kindHint(field: Mistake['field'], found: 'list' | 'map' | undefined): string | undefined {
  if (field === undefined) return 'a rule file is a mapping: "domain: <name>", then "descriptors:"';
  const kind = kindOf(field);
  if (kind === 'rules' && found === 'map') return 'put a dash before each rule: "- key:"';
  if (kind === 'limit' && found === 'list')
    return 'write one limit without a dash; write several in rate_limits';
  if (kind === 'limits' && found === 'map')
    return 'write rate_limit for one limit; rate_limits is a list of 2 to 8 of them';
  return kind && (kinds[kind] ?? ofText)[1];
}

function textHint({ path, field, words, written }: Mistake): string {
  if (fieldPath(path) === 'spec.limit' && /found \d/.test(words))
    return 'write requestsPerUnit: 100; limit names one of the rate_limits of a rule';
  return `put it into quotes: ${field}: "${written}"`;
}

const requiredHints: Readonly<Record<string, string>> = {
  'spec.match': 'write the entries that it applies to: match: [{ key: remote_address, value: 203.0.113.7 }]',
  'spec.reason': 'write a reason for people who find it: reason: batch import, INC-4711',
  spec: 'write spec: with domain and descriptors below it',
};

/** Returns the hint for a field of an object that has a wrong value or none. */
function objectHint({ path, field, words, written }: Mistake): string | undefined {
  if (words.includes('exactly one of requestsPerUnit'))
    return 'write requestsPerUnit: 100, or another effect, but only one';
  if (words.includes('exactly one of expiresAt'))
    return 'write for: 2h, or expiresAt: with a time, or permanent: true';
  if (kindOf(field) === 'requests' && /^must be|is required/.test(words)) return `write ${field}: 5`;
  if (field === 'apiVersion') return `write apiVersion: ${apiVersion}`;
  if (field === 'kind') return `write kind: ${rulesKind}, or the kind of the object`;
  const isOfMetadata = path[0] === 'metadata';
  if (isOfMetadata && /found (?:true|false|-?[\d.]+)$/.test(words))
    return `put it into quotes: ${field}: "${written}"`;
  const [, name] = /found "(.*)"$/.exec(words) ?? [];
  if (isOfMetadata && field === 'name' && name !== undefined) {
    const plain = name.toLowerCase().replace(/[^a-z0-9.]+/g, '-');
    const intended = plain.replace(/^\W+|\W+$/g, '');
    return intended === '' ? undefined : `write name: ${intended}`;
  }
  if (!words.includes('is required')) return undefined;
  const more = isOfMetadata
    ? `write metadata: with ${field}: <${field}> below it`
    : `write ${field}: <${field}>`;
  return requiredHints[fieldPath(path)] ?? more;
}

/** Leaves out errors that only follow from another error. */
export function withoutConsequences(errors: readonly RuleError[]): RuleError[] {
  return errors.filter((error) => !errors.some((other) => other !== error && follows(error, other)));
}

/** Chosen: errors of one object are at most this far apart. */
const sameObjectLines = 30;

function follows(error: RuleError, other: RuleError): boolean {
  if (error.source !== other.source) return false;
  const { path } = error;
  if (other.code === 'wrong-type' && path[0] !== 'spec')
    return other.path.length < path.length && other.path.every((step, index) => step === path[index]);
  if (other.code !== 'unknown-key' || !/ is required/.test(error.text)) return false;
  const far = Math.abs((error.line ?? 0) - (other.line ?? 0));
  const above = other.path.length === 1 ? path.slice(1, -1) : path.slice(0, -1);
  const isBeside = fieldPath(other.path.slice(0, -1)) === fieldPath(above);
  return isBeside && far <= sameObjectLines && isMeant(String(other.path.at(-1)), String(path.at(-1)));
}

function isMeant(written: string, field: string): boolean {
  return written.toLowerCase().replaceAll(/[-_]/g, '') === field.toLowerCase();
}
