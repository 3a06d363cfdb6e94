import { editDistance } from '../../process/settings/settings-unknown.ts';
import { algorithmNames, algorithmsWith } from '../../rules/algorithms/registry.ts';
import { apiVersion, kind } from '../../rules/language/kinds.ts';
import { FieldPlace, fieldName, fields, manifestWords } from '../../rules/language/tables.ts';
import { maxRequests } from '../../rules/model.ts';
import { rateLimitConfigTypeUrl } from '../../rules/reader/resource.ts';
import type { RuleError, RuleErrorCode } from '../../rules/rule-error.ts';
import { largestMultiplier } from '../../rules/window.ts';

const withBurst = algorithmsWith(({ hasBurst }) => hasBurst).join(' or ');

const hints: Partial<Record<RuleErrorCode, string>> = {
  'invalid-unit': 'units are second, minute, hour, day, week, month and year',
  'unit-when-unlimited': 'remove it, or remove unlimited',
  'invalid-window': 'write unit, with unit_multiplier if necessary, or window: 5m',
  'burst-without-bucket': `write algorithm: ${withBurst}, or remove burst`,
  'invalid-limits': 'write rate_limit for one limit, rate_limits for several',
  'invalid-calendar':
    'write calendar: { unit: month, timezone: Europe/Zurich, starts_on: 15 } in place of unit',
  'invalid-hits-unit': 'it is a text for people, and does not affect counting',
  'invalid-marks': 'write percentages of the limit: warn_at: [50, 80, 95]',
  'invalid-reserve': 'write reserve: { ttl: 60s, estimate: 2000, on_expiry: release }',
  'invalid-lease': 'write a number with at most four decimals and a percent sign: lease: 2%',
  'invalid-assign': 'write assign: exact or assign: refilling, or remove it',
  'empty-domain': 'the first line of a rule file is "domain: <name>"',
  'empty-key': 'each rule needs "key:", the key of the request\'s entry',
  'duplicate-domain':
    'with --merge-domain-configs (MERGE_DOMAIN_CONFIG=true) several files may name one domain',
  'duplicate-descriptor':
    'remove one: a level has only one rule for a key and value, joined by _; write several limits of a rule in rate_limits',
  'empty-replaces': 'write the name of a limit, or remove the element',
  'replaces-itself': 'a limit cannot replace itself: write the name of another limit',
  'share-threshold-without-wildcard':
    'remove share_threshold, or write a value with *: a value without * is only one value',
  'unread-document': 'write each domain into its own file',
  'ignored-file': 'rename it so that it ends in .yaml; the Go service reads files with any name',
  'key-not-a-string': 'put the value into quotes',
};

/** Hints by the type that a value must have, in the words of the Go service. */
const typeHints: readonly (readonly [RegExp, string])[] = [
  [/into map\[interface/, 'a rule file is a mapping: "domain: <name>", then "descriptors:"'],
  [/!!map into \[\]config\.YamlDescriptor/, 'put a dash before each rule: "- key:"'],
  [/into \[\]config\.YamlDescriptor/, 'descriptors is a list: each rule begins with "- key:"'],
  [/!!seq into config\.YamlRateLimit/, 'write one limit without a dash; write several in rate_limits'],
  [/into config\.YamlRateLimit/, `write a mapping: ${defaultLimit()}`],
  [
    /!!map into \[]config\.YamlRateLimit/,
    'write rate_limit for one limit; rate_limits is a list of 2 to 8 of them',
  ],
  [
    /into \[]config\.YamlRateLimit/,
    'rate_limits is a list of 2 to 8 limits; write a single limit in rate_limit',
  ],
  [/into \[\]uint32/, 'warn_at is a list of percentages: warn_at: [50, 80, 95]'],
  [/into config\.YamlCalendar/, 'write calendar: { unit: month, timezone: Europe/Zurich }'],
  [/into config\.YamlReserve/, 'write reserve: { ttl: 60s, estimate: 2000 }'],
  [/into \[\]config\.yamlReplaces/, replacesHint()],
  [/into map\[string]interface/, 'metadata is a mapping'],
  [/into bool/, 'write true or false, without quotes'],
  [/into string/, 'write a string here, not a list or a mapping'],
];

function defaultLimit(): string {
  return 'rate_limit: { unit: minute, requests_per_unit: 5 }';
}

function replacesHint(): string {
  return 'replaces is a list of mappings: [{ name: <name of a limit> }]';
}

/** Returns the hint for a field that must be a number; `written` is its value in the file. */
function numberHint(field: unknown, written: string): string | undefined {
  const kind = fields.get(String(field))?.kind;
  if (kind !== 'requests' && kind !== 'uint32') return undefined;
  const [, quoted, thousands, parts] =
    /^(?:["'](\d+)["']|(\d+)k|(\d{1,3}(?:[,_']\d{3})+))$/i.exec(written) ?? [];
  const meant = quoted ?? parts?.replace(/\D/g, '') ?? (thousands && `${thousands}000`);
  if (meant !== undefined) return `write ${field}: ${meant}${quoted === undefined ? '' : ', without quotes'}`;
  const plain = ', without fraction and exponent';
  if (kind === 'uint32')
    return `write a whole number from 1 to ${largestMultiplier}${plain}; for a fraction use a shorter unit, or window: 1h30m`;
  const words = `write a whole number from 0 to ${maxRequests}${plain}`;
  if (field !== 'requests_per_unit') return words;
  if (/^-/.test(written) || (/^\d+$/.test(written) && Number(written) > maxRequests))
    return `${words}; for no limit write unlimited: true`;
  return `${words}; for a fraction use a longer unit`;
}

/** Returns the type that a value must have. */
function typeHint({ path, text }: Pick<RuleError, 'path' | 'text'>, written: string): string | undefined {
  const field = path.at(-1);
  if (text.startsWith('config error, yaml file contains list of type other than map')) {
    if (path.includes('replaces')) return replacesHint();
    return path.at(-2) === 'rate_limits'
      ? 'each element of rate_limits is a mapping: { unit: minute, requests_per_unit: 5 }'
      : 'each element of descriptors is a mapping: "- key: <key>"';
  }
  if (fields.get(String(path.at(-2)))?.kind === 'percents') return hints['invalid-marks'];
  if (text === 'error checking config')
    return numberHint(field, written) ?? `put it into quotes to make it a text: ${field}: "${written}"`;
  if (/into uint32|can be at most/.test(text)) return numberHint(field, written);
  if (field === 'value' && /!!seq into string/.test(text))
    return 'a rule has one value: write a rule for each, or a pattern with *';
  return typeHints.find(([type]) => type.test(text))?.[1] ?? manifestTypeHint(path, text, written);
}

/** Hints for errors of the override reader. */
const overrideHints: readonly (readonly [RegExp, string])[] = [
  [
    /spec\.match: is required/,
    'write the entries that it applies to: match: [{ key: remote_address, value: 203.0.113.7 }]',
  ],
  [/spec\.reason: is required/, 'write a reason for people who find it: reason: batch import, INC-4711'],
  [
    /spec\.limit: must be a string, found \d/,
    'write requestsPerUnit: 100; limit names one of the rate_limits of a rule',
  ],
  [/exactly one of requestsPerUnit/, 'write requestsPerUnit: 100, or another effect, but only one'],
  [/exactly one of expiresAt/, 'write for: 2h, or expiresAt: with a time, or permanent: true'],
];

/** Returns the hint for a wrong type in a manifest. */
function manifestTypeHint(path: RuleError['path'], text: string, written: string): string | undefined {
  const field = path.at(-1);
  const overrideHint = overrideHints.find(([known]) => known.test(text))?.[1];
  if (overrideHint !== undefined) return overrideHint;
  const [, wanted, found] =
    /must be (a string|a whole number|true or false|a list|an object), found (.*)$/s.exec(text) ?? [];
  if (wanted === 'a string' && !/^(?:null|an |a )/.test(found!))
    return `put it into quotes: ${field}: "${written}"`;
  if (wanted === 'a string' && field === 'value' && found === 'a list')
    return 'a rule has one value: write a rule for each, or a pattern with *';
  const [, inQuotes] = /^the text '(.*)'$/s.exec(found ?? '') ?? [];
  if (wanted === 'a whole number' && inQuotes !== undefined && /^\d+$/.test(inQuotes))
    return `write ${field}: ${inQuotes}, without quotes`;
  if (wanted === 'a whole number') return `write a whole number from 0 to ${maxRequests}`;
  if (wanted === 'true or false') return 'write true or false, without quotes';
  if (field === '@type') return `write "@type": "${rateLimitConfigTypeUrl}"`;
  // Resources are JSON.
  if (path[0] === 'resources' || path[0] === 'descriptors') return undefined;
  if (wanted === 'a list') return `each element of ${field} begins with a dash`;
  if (field === 'rateLimit' && found === 'a list')
    return 'write one limit without a dash; write several in rateLimits';
  if (field === 'rateLimit') return `write a mapping: ${defaultLimit()}`;
  if (field === 'requestsPerUnit') return 'write requestsPerUnit: 5';
  if (field === 'apiVersion') return `write apiVersion: ${apiVersion}`;
  if (field === 'kind') return `write kind: ${kind}, or the kind of the object`;
  if (path[0] === 'metadata' && /found (?:true|false|-?[\d.]+)$/.test(text))
    return `put it into quotes: ${field}: "${written}"`;
  if (path[0] === 'metadata' && field === 'name' && /found "/.test(text)) {
    const meant = /found "(.*)"$/
      .exec(text)?.[1]
      ?.toLowerCase()
      .replace(/[^a-z0-9.]+/g, '-')
      .replace(/^\W+|\W+$/g, '');
    return meant ? `write name: ${meant}` : undefined;
  }
  if (!/: is required/.test(text)) return undefined;
  if (path[0] === 'metadata') return `write metadata: with ${field}: <${field}> below it`;
  if (field === 'spec') return 'write spec: with domain and descriptors below it';
  return `write ${field}: <${field}>`;
}

/** Fields that have another name in other tools. */
const otherNames = new Map([
  ['limit', 'rate_limit'],
  ['limits', 'rate_limits'],
  ['rules', 'descriptors'],
  ['requests', 'requests_per_unit'],
  ['period', 'unit or window'],
  ['multiplier', 'unit_multiplier'],
]);

/** Returns what to do about an error, in the terms of its format; undefined if the error says it. `written`: the text at its place. */
export function hintFor(
  error: Pick<RuleError, 'code' | 'path' | 'text'> & { source?: string },
  written = '',
): string | undefined {
  const hint = plainHint(error, written);
  return error.path[0] === 'spec' && hint !== undefined ? manifestWords(hint) : hint;
}

function plainHint(
  { code, path, text, source = '' }: Pick<RuleError, 'code' | 'path' | 'text'> & { source?: string },
  written: string,
): string | undefined {
  const last = path.at(-1);
  // Errors of manifests begin with their path.
  const words = text.replace(/^spec\S*: /, '');
  const [, ofResource] = /: unknown field; (.*)$/.exec(text) ?? [];
  if (ofResource !== undefined) return ofResource;
  if (code === 'unknown-key' && path.length === 1 && / unknown field/.test(text))
    return objectHint(String(last));
  if (code === 'unknown-key' && typeof last === 'string') return unknownHint(last, path.slice(0, -1), source);
  if (code === 'misplaced-key' && typeof last === 'string') return misplacedHint(last, path.slice(0, -1));
  if (words.startsWith('unknown algorithm'))
    return similarAlgorithm(text) ?? `write one of ${algorithmNames.join(', ')}`;
  const word = similarWord(text);
  if (word !== undefined) return `did you mean ${word}?`;
  if (code === 'wrong-type' && chartFile.test(source) && path[0] !== 'spec') return chartHint;
  if (code === 'wrong-type' || code === 'list-element-not-a-map') return typeHint({ path, text }, written);
  if (code === 'duplicate-key') return repeatedHint(last);
  if (code === 'key-not-a-string' && /^\d{3}$/.test(written)) return 'write numbers without separators: 1000';
  if (code === 'key-not-a-string' && /^(?:y|yes|no|n|on|off|true|false)$/i.test(written))
    return `YAML takes ${written} for true or false: no field has that name`;
  if (code === 'key-not-a-string') return knownHint(path.slice(0, -1));
  if (code === 'invalid-unit') return unitHint(/'([^']*)'$/.exec(text)?.[1] ?? '');
  if (code === 'invalid-lease' && !words.startsWith('lease must be')) return 'remove it';
  if (code === 'invalid-reserve' && !/^(?:the ttl|on_?expiry|reserve must be)/i.test(words))
    return 'remove it';
  if (code === 'invalid-window' && words.startsWith('the window ')) return windowHint(words);
  if (code === 'invalid-calendar' && /only for algorithm/.test(text))
    return 'remove algorithm, or remove calendar';
  const [, timezone] = /timezone must be .*found '(.*)'$/s.exec(text) ?? [];
  if (code === 'invalid-calendar' && timezone !== undefined) return timezoneHint(timezone);
  const [, place, beside] = /^(window|calendar) replaces .*found (.*) beside it$/.exec(words) ?? [];
  if (beside !== undefined) return `leave ${beside} out, or ${place}`;
  if (code === 'duplicate-limit') return duplicateLimitHint(text);
  if (code === 'empty-domain' && path[0] === 'spec') return 'write domain: <domain>';
  if (code === 'unreadable' && /is not JSON/.test(text)) return 'check for an extra comma or a missing quote';
  return hints[code];
}

/** Explains that the name of a limit distinguishes it in statistics, but not in counters. */
function duplicateLimitHint(text: string): string {
  if (/have the same calendar/.test(text)) return 'remove one of the two, or give it another calendar';
  if (/have the window/.test(text))
    return 'remove one of the two, or give it another window or algorithm; another name is not enough';
  return 'give one of the two another name';
}

/** Returns the hint for a text that is almost a window, such as `5 min`. Other errors name the rule that the text breaks. */
function windowHint(text: string): string | undefined {
  const [, whole] = /^the window '(\d+h\d+)' is not a duration/.exec(text) ?? [];
  if (whole !== undefined) return `did you mean ${whole}m?`;
  const [, count, unit] = /^the window '(\d+) *([a-z]+)' is not a duration/i.exec(text) ?? [];
  if (unit === undefined) return undefined;
  const meant = unitNamed(unit);
  if (meant === undefined) return undefined;
  return `write window: ${count}${meant === 'month' ? 'mo' : meant.charAt(0)}`;
}

/** Units that other tools spell differently. */
const otherUnits = new Map([
  ['s', 'second'],
  ['sec', 'second'],
  ['m', 'minute'],
  ['min', 'minute'],
  ['h', 'hour'],
  ['hr', 'hour'],
  ['d', 'day'],
  ['w', 'week'],
  ['mo', 'month'],
  ['mon', 'month'],
  ['y', 'year'],
  ['yr', 'year'],
  ['daily', 'day'],
]);
const units = ['second', 'minute', 'hour', 'day', 'week', 'month', 'year'];

function unitNamed(written: string): string | undefined {
  const plain = written.toLowerCase().replace(/s$/, '');
  return (
    otherUnits.get(written.toLowerCase()) ??
    otherUnits.get(plain) ??
    units.find((unit) => editDistance(plain, unit) <= 2)
  );
}

function unitHint(written: string): string {
  if (written === '') return 'write unit: minute, or window: 5m for other windows';
  const meant = unitNamed(written);
  if (meant !== undefined) return `did you mean ${meant}?`;
  const [, count, letter] = /^(\d+) *(s|m|h|d|w|mo|y)[a-z]*$/i.exec(written) ?? [];
  if (count !== undefined)
    return `write this duration as window: ${count}${letter!.toLowerCase()} in place of unit`;
  return hints['invalid-unit']!;
}

/** Returns the nearest of the allowed words, which the error lists. */
function similarWord(text: string): string | undefined {
  const [, list, written = ''] =
    /(?:(?:hits_?unit|on_?expiry) must be|a calendar has the unit) (.*), found '(.*)'$/is.exec(text) ?? [];
  const plain = lettersOf(written);
  const unit = unitNamed(written);
  return list?.split(/, | or /).find((word) => {
    const known = lettersOf(word);
    const isPart = plain.length > 3 && (known.startsWith(plain) || known.endsWith(plain));
    return known === unit || isPart || editDistance(plain, known) <= Math.min(2, plain.length / 2);
  });
}

function lettersOf(text: string): string {
  return text.toLowerCase().replace(/[^a-z]/g, '');
}

function timezoneHint(written: string): string {
  const plain = written.toLowerCase().replaceAll(' ', '_');
  const names = written === '' ? [] : Intl.supportedValuesOf('timeZone');
  const near = names.find((name) => {
    const known = name.toLowerCase();
    return known.endsWith(`/${plain}`) || editDistance(plain, known) <= 2;
  });
  if (near !== undefined) return `did you mean ${near}?`;
  return 'write a name such as Europe/Zurich; remove timezone for UTC';
}

function repeatedHint(name: string | number | undefined): string {
  if (name === 'key') return 'each rule begins with a dash: "- key:"';
  if (name === 'rate_limit') return 'remove one; write several limits of a rule in rate_limits';
  return 'remove one of the two';
}

const limitFields = [...fields.values()].filter(({ places }) => places & FieldPlace.RATE_LIMIT);

/** Returns the kind of mapping that a path leads to, in either spelling; undefined if it has none of our fields. */
function placeOf(path: RuleError['path']): FieldPlace | undefined {
  const name = path.findLast((step) => typeof step === 'string');
  if (name === undefined || (name === 'spec' && path.length === 1)) return FieldPlace.FILE;
  if (name === 'descriptors') return FieldPlace.DESCRIPTOR;
  if (name === 'replaces') return FieldPlace.REPLACES;
  return /^rate(?:_l|L)imits?$/.test(name) ? FieldPlace.RATE_LIMIT : undefined;
}

/** Returns the hint for a known field at a place where it has no meaning. */
function misplacedHint(name: string, above: RuleError['path']): string | undefined {
  const belongs = fields.get(name)?.places ?? 0;
  const place = placeOf(above);
  if (belongs & FieldPlace.DESCRIPTOR && place === FieldPlace.RATE_LIMIT)
    return `move ${name} out of ${above.findLast((step) => typeof step === 'string')}, to the same level`;
  if (belongs & FieldPlace.RATE_LIMIT && place === FieldPlace.DESCRIPTOR) {
    const example =
      limitFields.some((field) => field.name === name) && name === 'burst'
        ? `, with algorithm: ${withBurst}`
        : '';
    return `put ${name} below rate_limit, indented${example}`;
  }
  if (belongs & FieldPlace.DESCRIPTOR && place === FieldPlace.FILE)
    return `put ${name} into a rule, below "- key:"`;
  if (belongs === FieldPlace.FILE) return 'write the domain once, at the top of the file';
  return `move ${name} to where it belongs`;
}

/** Words of Envoy's own configuration, which has no rules. */
const envoyWords =
  /^(?:static_resources|dynamic_resources|admin|node|layered_runtime|configs|virtual_hosts|route_config|http_filters|listeners)$/;
const actionWords = /^(?:actions|stage|disable_key)$/;
const chartFile = /(?:^|[/\\])(?:Chart|values[\w.-]*)\.ya?ml$/;
const chartHint = 'check the rendered chart: helm template <chart> | weir check -';

/** Returns the hint for a field of an object beside `spec`. */
function objectHint(name: string): string {
  const ofSpec = [...fields.values()]
    .filter(({ places }) => places & FieldPlace.FILE)
    .map((field) => field.name);
  if ([...ofSpec, 'fleet', 'className'].includes(name)) return `${name} belongs below "spec:", indented`;
  return 'known here: apiVersion, kind, metadata, spec';
}

/** Returns the hint for an unknown field: the nearest name for this place or another, or a list of the fields of this place. */
function unknownHint(written: string, above: RuleError['path'], source: string): string {
  const isTop = above.length === 0;
  if (isTop && /(?:^|[/\\])kustomization\.ya?ml$/.test(source))
    return 'a Kustomization has no rules; check its output: kubectl kustomize <folder> | weir check -';
  if (isTop && chartFile.test(source)) return chartHint;
  if (isTop && envoyWords.test(written))
    return "this is Envoy's configuration: weir check --envoy <file> <rules> compares it with rules";
  if (actionWords.test(written))
    return 'actions belong into the routes of Envoy; a rule has the key and the value that they send';
  const place = placeOf(above);
  // For manifests, a known field at a wrong place is unknown, too.
  const known = [...fields.keys()].find((name) => fieldName(name) === written);
  if (known !== undefined && above[0] === 'spec' && !(fields.get(known)!.places & (place ?? 0)))
    return misplacedHint(known, above)!;
  const meant = nearestField(written, place);
  if (meant === undefined) return knownHint(above)!;
  const field = fields.get(meant);
  if (field === undefined || place === undefined || field.places & place) return `did you mean ${meant}?`;
  return `did you mean ${meant}? ${misplacedHint(meant, above)}`;
}

function knownHint(above: RuleError['path']): string | undefined {
  const names = knownHere(above, placeOf(above));
  return names.length === 0 ? undefined : `known here: ${names.join(', ')}`;
}

const ruleParts = ['key', 'value', 'rate_limit', 'rate_limits', 'descriptors'];

function rank(name: string): number {
  const at = ruleParts.indexOf(name);
  return at === -1 ? ruleParts.length : at;
}

function knownHere(above: RuleError['path'], place: FieldPlace | undefined): string[] {
  if (above.length === 0 && place === FieldPlace.FILE) return ['domain', 'descriptors'];
  const all = [...fields.values()].filter(({ places }) => place !== undefined && places & place);
  // If both are possible, the fields that define a rule come first.
  const names = place === FieldPlace.DESCRIPTOR ? all.toSorted((a, b) => rank(a.name) - rank(b.name)) : all;
  const ofSpec = above.length === 1 && above[0] === 'spec' ? ['fleet', 'className'] : [];
  return [...names.map(({ name }) => name), ...ofSpec];
}

/** Returns for example `did you mean sliding_window?` for `SlidingWindow` and `sliding`. */
function similarAlgorithm(text: string): string | undefined {
  const written = lettersOf(/unknown algorithm '([^']*)'/.exec(text)?.[1] ?? '');
  const meant = algorithmNames.find((name) => written && name.replace('_', '').startsWith(written));
  return meant && `did you mean ${meant}?`;
}

/** Returns the field with the most similar name, if any is similar. If two are equally similar, the one of this place wins. */
export function nearestField(written: string, place?: FieldPlace): string | undefined {
  const plain = written.toLowerCase().replaceAll('-', '_');
  const otherName = otherNames.get(plain);
  if (otherName !== undefined) return otherName;
  let best: string | undefined;
  let min = written.length < 5 ? 2 : 3;
  const ofPlace = [...fields.values()].sort(
    (a, b) => Number((b.places & (place ?? 0)) > 0) - Number((a.places & (place ?? 0)) > 0),
  );
  for (const { name } of ofPlace) {
    const changes = Math.min(editDistance(plain, name), editDistance(plain, name.replaceAll('_', '')));
    if (changes < min) [best, min] = [name, changes];
  }
  return best;
}
