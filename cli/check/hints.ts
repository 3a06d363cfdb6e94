import { manifestWords } from '../../rules/manifest/read-spec.ts';
import { algorithmNames, maxUint32 } from '../../rules/model.ts';
import { fields } from '../../rules/reader/value-reader.ts';
import type { RuleError, RuleErrorCode } from '../../rules/rule-error.ts';
import { largestMultiplier } from '../../rules/window.ts';

const hints: Partial<Record<RuleErrorCode, string>> = {
  'invalid-unit': 'units are second, minute, hour, day, week, month and year',
  'unit-when-unlimited': 'leave out what it names, or unlimited',
  'invalid-window': 'write unit, with unit_multiplier if need be, or window: 5m',
  'burst-without-bucket': 'write algorithm: token_bucket, or leave burst out',
  'invalid-limits': 'write rate_limit for one limit, rate_limits for several',
  'duplicate-limit': 'each limit of a rule needs a name, window or algorithm of its own',
  'invalid-lease': 'write a number with at most four decimals and a percent sign: lease: 2%',
  'empty-domain': 'the first line of a rule file is "domain: <name>"',
  'empty-key': 'each rule needs "key:"; it is what a request\'s entry is looked up by',
  'duplicate-domain':
    'with --merge-domain-configs (MERGE_DOMAIN_CONFIG=true) several files may name one domain',
  'duplicate-descriptor': 'key and value together must differ on each level; joined by _ they name the rule',
  'empty-replaces': 'write the name of a limit, or leave the element out',
  'replaces-itself': 'a limit cannot take its own place; replace the name of another limit',
  'share-threshold-without-wildcard': 'a value without * is one value: there is nothing to share',
  'unread-document': 'put each domain into a file of its own',
  'passed-over': 'give it a name that ends in .yaml; the Go service reads files of any name',
  'key-not-a-string': 'put the value into quotes',
};

/** By the type that a value must have, in the Go service's words. */
const typeHints: readonly (readonly [RegExp, string])[] = [
  [/into map\[interface/, 'a rule file is a mapping: "domain: <name>", then "descriptors:"'],
  [/into \[\]config\.YamlDescriptor/, 'descriptors is a list: each rule begins with "- key:"'],
  [
    /into config\.YamlRateLimit/,
    'rate_limit is a mapping: { unit: minute, requests_per_unit: 5 }; several of them stand in rate_limits',
  ],
  [/into \[]config\.YamlRateLimit/, 'rate_limits is a list of 2 to 8 limits; one alone stands in rate_limit'],
  [/into \[\]config\.yamlReplaces/, replacesHint()],
  [/into map\[string]interface/, 'metadata is a mapping'],
  [/into bool/, 'write true or false'],
  [/into string/, 'write one text here, not a list or a mapping'],
];

function replacesHint(): string {
  return 'replaces is a list of mappings: [{ name: <name of a limit> }]';
}

/** Of the fields that are numbers. */
function numberHint(field: unknown): string | undefined {
  const plain = ', without fraction and exponent';
  if (field === 'unit_multiplier')
    return `write a whole number from 1 to ${largestMultiplier}${plain}; for a fraction take a shorter unit, or window: 1h30m`;
  const words = `write a whole number from 0 to ${maxUint32}${plain}`;
  if (field === 'burst') return words;
  return field === 'requests_per_unit' ? `${words}; for a fraction take a longer unit` : undefined;
}

/** What a value of the wrong type is to be. */
function typeHint({ path, text }: Pick<RuleError, 'path' | 'text'>): string | undefined {
  if (text.startsWith('config error, yaml file contains list of type other than map')) {
    if (path.includes('replaces')) return replacesHint();
    return path.at(-2) === 'rate_limits'
      ? 'each element of rate_limits is a mapping: { unit: minute, requests_per_unit: 5 }'
      : 'each element of descriptors is a mapping: "- key: <key>"';
  }
  if (text === 'error checking config')
    return numberHint(path.at(-1)) ?? 'put the number into quotes to make it a text';
  if (/into uint32/.test(text)) return numberHint(path.at(-1));
  return typeHints.find(([type]) => type.test(text))?.[1];
}

/** Fields that are called otherwise elsewhere. */
const otherNames = new Map([
  ['limit', 'rate_limit'],
  ['limits', 'rate_limits'],
  ['rules', 'descriptors'],
  ['requests', 'requests_per_unit'],
  ['period', 'unit or window'],
  ['multiplier', 'unit_multiplier'],
]);

/** What to do about an error, in the words of its kind of text; undefined where it says it all. */
export function hintFor(error: Pick<RuleError, 'code' | 'path' | 'text'>): string | undefined {
  const hint = plainHint(error);
  return error.path[0] === 'spec' && hint !== undefined ? manifestWords(hint) : hint;
}

function plainHint({ code, path, text }: Pick<RuleError, 'code' | 'path' | 'text'>): string | undefined {
  const last = path.at(-1);
  if (code === 'unknown-key' && typeof last === 'string' && !/did you mean|belongs to/.test(text)) {
    const meant = nearestField(last);
    if (meant !== undefined) return `did you mean ${meant}?`;
  }
  if (code === 'wrong-type' || code === 'list-element-not-a-map') return typeHint({ path, text });
  if (code === 'invalid-algorithm') return meantAlgorithm(text);
  if (code === 'invalid-unit' && text.endsWith("''"))
    return 'write unit: minute, or window: 5m for other lengths';
  if (code === 'invalid-lease' && !text.startsWith('lease must be')) return 'leave it out';
  // It says itself which rule of the spelling is broken.
  if (code === 'invalid-window' && text.startsWith('the window ')) return undefined;
  return hints[code];
}

/** `did you mean sliding_window?` for `SlidingWindow` and `sliding`. */
function meantAlgorithm(text: string): string | undefined {
  const written = /unknown algorithm '([^']*)'/
    .exec(text)?.[1]
    ?.toLowerCase()
    .replace(/[^a-z]/g, '');
  const meant = algorithmNames.find((name) => written && name.replace('_', '').startsWith(written));
  return meant && `did you mean ${meant}?`;
}

/** The field that a misspelt one is nearest to, if any is near. */
export function nearestField(written: string): string | undefined {
  const plain = written.toLowerCase().replaceAll('-', '_');
  const otherName = otherNames.get(plain);
  if (otherName !== undefined) return otherName;
  let best: string | undefined;
  let least = Math.max(1, Math.floor(written.length / 3)) + 1;
  for (const field of fields.keys()) {
    const changes = Math.min(distance(plain, field), distance(plain, field.replaceAll('_', '')));
    if (changes < least) [best, least] = [field, changes];
  }
  return best;
}

/** How many characters to insert, remove or change, two that changed places counting one. */
function distance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      row[j] = Math.min(row[j - 1]! + 1, rows[i - 1]![j]! + 1, rows[i - 1]![j - 1]! + same);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (isSwap) row[j] = Math.min(row[j]!, rows[i - 2]![j - 2]! + 1);
    }
    rows.push(row);
  }
  return rows[a.length]![b.length]!;
}
