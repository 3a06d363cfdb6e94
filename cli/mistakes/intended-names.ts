/** Finds what a person intended: a field and where it belongs, a unit, an algorithm, a time zone, a number. */
import { editDistance } from '../../process/settings/settings-unknown.ts';
import { algorithmNames, algorithmsWith } from '../../rules/algorithms/registry.ts';
import type { FieldKind } from '../../rules/language/fields.ts';
import { FieldPlace, fieldName, fields } from '../../rules/language/tables.ts';
import { maxRequests } from '../../rules/model.ts';
import type { RuleError } from '../../rules/rule-error.ts';
import { largestMultiplier } from '../../rules/window.ts';

type Path = RuleError['path'];

/** Fields that have another name in other tools. */
const otherFields = new Map([
  ['limit', 'rate_limit'],
  ['limits', 'rate_limits'],
  ['rules', 'descriptors'],
  ['requests', 'requests_per_unit'],
  ['period', 'unit or window'],
  ['multiplier', 'unit_multiplier'],
]);

/** Returns the field with the most similar name, if any is similar. If two are equally similar, the one of this place wins. */
export function intendedField(written: string, place?: FieldPlace): string | undefined {
  const plain = written.toLowerCase().replaceAll('-', '_');
  const otherName = otherFields.get(plain);
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

/** Returns the last name on a path. */
export function lastName(path: Path): string | undefined {
  return path.findLast((step) => typeof step === 'string');
}

/** Returns the kind of mapping that a path leads to, in either spelling; undefined if it has none of our fields. */
function placeOf(path: Path): FieldPlace | undefined {
  const name = lastName(path);
  if (name === undefined || (name === 'spec' && path.length === 1)) return FieldPlace.FILE;
  if (name === 'descriptors') return FieldPlace.DESCRIPTOR;
  if (name === 'replaces') return FieldPlace.REPLACES;
  return /^rate(?:_l|L)imits?$/.test(name) ? FieldPlace.RATE_LIMIT : undefined;
}

export const withBurst = algorithmsWith(({ hasBurst }) => hasBurst).join(' or ');

/** Returns the hint for a known field at a place where it has no meaning. */
export function misplacedHint(name: string, above: Path): string {
  const belongs = fields.get(name)?.places ?? 0;
  const place = placeOf(above);
  if (belongs & FieldPlace.DESCRIPTOR && place === FieldPlace.RATE_LIMIT)
    return `move ${name} out of ${lastName(above)}, to the same level`;
  if (belongs & FieldPlace.RATE_LIMIT && place === FieldPlace.DESCRIPTOR)
    return `put ${name} below rate_limit, indented${name === 'burst' ? `, with algorithm: ${withBurst}` : ''}`;
  if (belongs & FieldPlace.DESCRIPTOR && place === FieldPlace.FILE)
    return `put ${name} into a rule, below "- key:"`;
  if (belongs === FieldPlace.FILE) return 'write the domain once, at the top of the file';
  return `move ${name} to where it belongs`;
}

/** Returns the hint for an unknown field: the nearest name for this place or another, or a list of the fields of this place. */
export function unknownFieldHint(written: string, above: Path): string | undefined {
  const place = placeOf(above);
  // For manifests, a known field at a wrong place is unknown, too.
  const known = [...fields.keys()].find((name) => fieldName(name) === written);
  if (known !== undefined && above[0] === 'spec' && !(fields.get(known)!.places & (place ?? 0)))
    return misplacedHint(known, above);
  const intended = intendedField(written, place);
  if (intended === undefined) return knownFields(above);
  const field = fields.get(intended);
  if (field === undefined || place === undefined || field.places & place) return `did you mean ${intended}?`;
  return `did you mean ${intended}? ${misplacedHint(intended, above)}`;
}

/** Returns the hint for an unknown field of an object beside `spec`. */
export function unknownObjectFieldHint(name: string): string {
  const ofSpec = fieldsAt(FieldPlace.FILE);
  if ([...ofSpec, 'fleet', 'className'].includes(name)) return `${name} belongs below "spec:", indented`;
  return 'known here: apiVersion, kind, metadata, spec';
}

const ruleParts = ['key', 'value', 'rate_limit', 'rate_limits', 'descriptors'];

/** Lists the fields of a place; undefined if it has none of ours. */
export function knownFields(above: Path): string | undefined {
  const place = placeOf(above);
  const all = above.length === 0 ? ['domain', 'descriptors'] : fieldsAt(place);
  // If both are possible, the fields that define a rule come first.
  const first = place === FieldPlace.DESCRIPTOR ? ruleParts : [];
  const ofSpec = above.length === 1 && above[0] === 'spec' ? ['fleet', 'className'] : [];
  const names = new Set([...first, ...all, ...ofSpec]);
  return names.size === 0 ? undefined : `known here: ${[...names].join(', ')}`;
}

function fieldsAt(place: FieldPlace | undefined): string[] {
  return [...fields.values()].flatMap(({ name, places }) => (places & (place ?? 0) ? [name] : []));
}

/** Returns for example `sliding_window` for `SlidingWindow` and `sliding`. */
export function intendedAlgorithm(written: string): string | undefined {
  const plain = lettersOf(written);
  return algorithmNames.find((name) => plain !== '' && name.replace('_', '').startsWith(plain));
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

export function intendedUnit(written: string): string | undefined {
  const plain = written.toLowerCase().replace(/s$/, '');
  return (
    otherUnits.get(written.toLowerCase()) ??
    otherUnits.get(plain) ??
    units.find((unit) => editDistance(plain, unit) <= 2)
  );
}

/** Returns the nearest of the allowed words, which an error lists. */
export function intendedWord(listed: string, written: string): string | undefined {
  const plain = lettersOf(written);
  const unit = intendedUnit(written);
  return listed.split(/, | or /).find((word) => {
    const known = lettersOf(word);
    const isPart = plain.length > 3 && (known.startsWith(plain) || known.endsWith(plain));
    return known === unit || isPart || editDistance(plain, known) <= Math.min(2, plain.length / 2);
  });
}

function lettersOf(text: string): string {
  return text.toLowerCase().replace(/[^a-z]/g, '');
}

/** Returns the nearest name of the IANA database. */
export function intendedTimezone(written: string): string | undefined {
  const plain = written.toLowerCase().replaceAll(' ', '_');
  const names = written === '' ? [] : Intl.supportedValuesOf('timeZone');
  return names.find((name) => {
    const known = name.toLowerCase();
    return known.endsWith(`/${plain}`) || editDistance(plain, known) <= 2;
  });
}

/** Returns the kind of a field in either spelling. */
export function kindOf(field: string | number | undefined): FieldKind | undefined {
  return [...fields.values()].find(({ name, manifestName }) => field === name || field === manifestName)
    ?.kind;
}

/** Says which number to write into a field; undefined if the field takes none. */
export function intendedNumber(field: string | number | undefined, written: string): string | undefined {
  const kind = kindOf(field);
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
