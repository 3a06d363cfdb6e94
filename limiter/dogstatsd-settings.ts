/**
 * USE_DOG_STATSD_MOGRIFIERS, a part of the table in `settings.ts`, and the variables of the mogrifiers that it lists:
 * DOG_STATSD_MOGRIFIER_<NAME>_PATTERN, _NAME and _TAGS, which no table can hold.
 */
import { type AliasTable, canonicalName } from '../process/settings-aliases.ts';
import { text } from '../process/settings-kinds.ts';
import type { Environment, SettingsError, SettingsTable } from '../process/settings-reader.ts';
import { compilePattern, type MogrifierText, PatternError } from './stats/dogstatsd/mogrifier.ts';

export const dogStatsdSettings = {
  dogStatsdMogrifiers: {
    name: 'USE_DOG_STATSD_MOGRIFIERS',
    kind: text(),
    default: '',
    summary:
      'Names of mogrifiers, parted by commas: each rewrites names of statistics for dogstatsd, by `DOG_STATSD_MOGRIFIER_<NAME>_PATTERN`, `_NAME` and `_TAGS`; see [statistics](statistics.md#dogstatsd).',
  },
} as const satisfies SettingsTable;

/** Other names of the list of mogrifiers. */
export const mogrifierListAliases: Readonly<Record<string, string>> = {
  DOG_STATSD_MOGRIFIERS: 'USE_DOG_STATSD_MOGRIFIERS',
  TAGGEDSTATS_MOGRIFIERS: 'USE_DOG_STATSD_MOGRIFIERS',
};

const prefix = 'DOG_STATSD_MOGRIFIER_';
const parts = ['PATTERN', 'NAME', 'TAGS'] as const;

export interface ReadMogrifiers {
  mogrifiers: MogrifierText[];
  errors: SettingsError[];
  /** Of variables of mogrifiers that are not listed. */
  warnings: string[];
}

/** The environment without the variables of mogrifiers. */
export function withoutMogrifiers(env: Environment, aliases: AliasTable): Environment {
  return Object.fromEntries(
    Object.entries(env).filter(
      ([variable]) => !(canonicalName(aliases, variable) ?? variable).startsWith(prefix),
    ),
  );
}

/** Those that `list` names, in its order. As the Go service: names are not trimmed, and stand in capitals in variables. */
export function readMogrifiers(list: string, env: Environment, aliases: AliasTable): ReadMogrifiers {
  const errors: SettingsError[] = [];
  const mogrifiers: MogrifierText[] = [];
  const values = mogrifierVariables(env, aliases, errors);
  const names = list === '' ? [] : list.split(',');
  for (const name of names) {
    const mogrifier = readMogrifier(name, values, errors);
    if (mogrifier !== undefined) mogrifiers.push(mogrifier);
  }
  const known = new Set(names.flatMap((name) => parts.map((part) => variableOf(name, part))));
  const warnings = [...values.keys()]
    .filter((variable) => !known.has(variable))
    .map((variable) => `${variable} belongs to no mogrifier that USE_DOG_STATSD_MOGRIFIERS names: ignored`);
  return { mogrifiers, errors, warnings };
}

function variableOf(name: string, part: (typeof parts)[number]): string {
  return `${prefix}${name.toUpperCase()}_${part}`;
}

/** By canonical name, in its order. */
function mogrifierVariables(
  env: Environment,
  aliases: AliasTable,
  errors: SettingsError[],
): Map<string, string> {
  const values = new Map<string, string>();
  for (const variable of Object.keys(env).sort()) {
    const canonical = canonicalName(aliases, variable) ?? variable;
    const value = env[variable];
    if (!canonical.startsWith(prefix) || value === undefined) continue;
    if (values.has(canonical) && values.get(canonical) !== value) {
      const message = `${variable} and ${canonical} name the same setting with different values: keep one of them`;
      errors.push({ variable, message });
    }
    values.set(canonical, value);
  }
  return values;
}

function readMogrifier(
  name: string,
  values: ReadonlyMap<string, string>,
  errors: SettingsError[],
): MogrifierText | undefined {
  const before = errors.length;
  const refuse = (variable: string, reason: string): void => {
    errors.push({ variable, message: `${variable}: ${reason}` });
  };
  const patternVariable = variableOf(name, 'PATTERN');
  const nameVariable = variableOf(name, 'NAME');
  const pattern = values.get(patternVariable) ?? '';
  const newName = values.get(nameVariable) ?? '';
  if (pattern === '') refuse(patternVariable, `no PATTERN specified for mogrifier ${name}`);
  else {
    try {
      compilePattern(pattern);
    } catch (error) {
      if (!(error instanceof PatternError)) throw error;
      refuse(patternVariable, `failed to compile pattern for ${name}: ${error.message}`);
    }
  }
  if (newName === '') refuse(nameVariable, `no NAME specified for mogrifier ${name}`);
  const tagsVariable = variableOf(name, 'TAGS');
  const tags = readTags(values.get(tagsVariable) ?? '', (reason) => refuse(tagsVariable, reason));
  return errors.length > before ? undefined : { pattern, name: newName, tags };
}

function readTags(list: string, refuse: (reason: string) => void): [string, string][] {
  const tags: [string, string][] = [];
  for (const [index, part] of (list === '' ? [] : list.split(',')).entries()) {
    const [key = '', value = '', ...rest] = part.split(':');
    if (key !== '' && value !== '' && rest.length === 0) tags.push([key, value]);
    else
      refuse(
        `expected key:value,key2:value2; part ${index + 1} has not exactly one colon, or an empty key or value`,
      );
  }
  return tags;
}
