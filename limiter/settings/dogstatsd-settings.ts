/**
 * USE_DOG_STATSD_MOGRIFIERS, a part of the table in `settings.ts`, and the variables of the listed mogrifiers:
 * DOG_STATSD_MOGRIFIER_<NAME>_PATTERN, _NAME and _TAGS, whose names depend on that list, so they are not in the table.
 */

import { type CostBudget, ExpressionError, newCostBudget, spend } from '../../process/regex/expression.ts';
import { text } from '../../process/settings/settings-kinds.ts';
import { effectless, type SettingNeed } from '../../process/settings/settings-needs.ts';
import type { Environment, SettingsError, SettingsTable } from '../../process/settings/settings-reader.ts';
import { type AliasTable, canonicalName } from '../../process/settings/settings-unknown.ts';
import { maxNameLength } from '../stats/registry/name-budget.ts';
import { NameSearch } from '../stats/registry/name-search.ts';
import type { MogrifierText } from '../stats/sinks/mogrifier.ts';

const toDogStatsd: SettingNeed = { name: 'USE_DOG_STATSD', is: [true] };

export const dogStatsdSettings = {
  dogStatsdMogrifiers: {
    name: 'USE_DOG_STATSD_MOGRIFIERS',
    needs: [toDogStatsd],
    kind: text(),
    summary:
      'Names of mogrifiers, separated by commas. Each rewrites names of statistics for dogstatsd, by `DOG_STATSD_MOGRIFIER_<NAME>_PATTERN`, `_NAME` and `_TAGS`. See [dogstatsd](statsd.md#dogstatsd).',
  },
} as const satisfies SettingsTable;

/** Aliases of the list of mogrifiers. */
export const mogrifierListAliases: Readonly<Record<string, string>> = {
  DOG_STATSD_MOGRIFIERS: 'USE_DOG_STATSD_MOGRIFIERS',
  TAGGEDSTATS_MOGRIFIERS: 'USE_DOG_STATSD_MOGRIFIERS',
};

const prefix = 'DOG_STATSD_MOGRIFIER_';
const parts = ['PATTERN', 'NAME', 'TAGS'] as const;

interface ReadMogrifiers {
  mogrifiers: MogrifierText[];
  errors: SettingsError[];
  /** Warnings about variables of mogrifiers that are not listed, and about groups that no pattern has. */
  warnings: string[];
}

/**
 * Returns warnings about variables of mogrifiers if dogstatsd is not the sink. They are not in the table, which reports other settings.
 */
export function effectlessMogrifiers(env: Environment, aliases: AliasTable): string[] {
  return [...mogrifierVariables(env, aliases, []).values()].map(({ variable }) =>
    effectless(variable, toDogStatsd),
  );
}

/** Returns the environment without the variables of mogrifiers. */
export function withoutMogrifiers(env: Environment, aliases: AliasTable): Environment {
  return Object.fromEntries(
    Object.entries(env).filter(
      ([variable]) => !(canonicalName(aliases, variable) ?? variable).startsWith(prefix),
    ),
  );
}

/**
 * Reads the mogrifiers that `list` names, in its order. As in the Go service, names are not trimmed, and are in capitals in variables.
 */
export function readMogrifiers(list: string, env: Environment, aliases: AliasTable): ReadMogrifiers {
  const errors: SettingsError[] = [];
  const mogrifiers: MogrifierText[] = [];
  const warnings: string[] = [];
  const values = mogrifierVariables(env, aliases, errors);
  const budget = newCostBudget(maxNameLength);
  const names = list === '' ? [] : list.split(',');
  for (const name of names) {
    const mogrifier = readMogrifier(name, { values, errors, warnings, budget });
    if (mogrifier !== undefined) mogrifiers.push(mogrifier);
  }
  const known = new Set(names.flatMap((name) => parts.map((part) => variableOf(name, part))));
  const foreign = [...values]
    .filter(([canonical]) => !known.has(canonical))
    .map(
      ([, { variable }]) => `${variable} belongs to no mogrifier in USE_DOG_STATSD_MOGRIFIERS; it is ignored`,
    );
  return { mogrifiers, errors, warnings: [...warnings, ...foreign] };
}

function variableOf(name: string, part: (typeof parts)[number]): string {
  return `${prefix}${name.toUpperCase()}_${part}`;
}

/** A value, and the variable that contains it. */
interface Written {
  variable: string;
  value: string;
}

/** Variables of mogrifiers by canonical name. */
function mogrifierVariables(
  env: Environment,
  aliases: AliasTable,
  errors: SettingsError[],
): Map<string, Written> {
  const values = new Map<string, Written>();
  for (const variable of Object.keys(env).sort()) {
    const canonical = canonicalName(aliases, variable) ?? variable;
    const value = env[variable];
    if (!canonical.startsWith(prefix) || value === undefined) continue;
    const before = values.get(canonical);
    if (before !== undefined && before.value !== value) {
      const message = `${variable} and ${before.variable} name the same setting with different values: keep one of them`;
      errors.push({ variable, message });
    }
    values.set(canonical, { variable, value });
  }
  return values;
}

interface MogrifierReading {
  values: ReadonlyMap<string, Written>;
  errors: SettingsError[];
  warnings: string[];
  /** The cost of all patterns together, because each name may be compared with all. */
  budget: CostBudget;
}

function readMogrifier(
  name: string,
  { values, errors, warnings, budget }: MogrifierReading,
): MogrifierText | undefined {
  const before = errors.length;
  const reject = (canonical: string, reason: string): void => {
    const { variable } = values.get(canonical) ?? { variable: canonical };
    errors.push({ variable, message: `${variable}: ${reason}` });
  };
  const patternVariable = variableOf(name, 'PATTERN');
  const nameVariable = variableOf(name, 'NAME');
  const pattern = values.get(patternVariable)?.value ?? '';
  const newName = values.get(nameVariable)?.value ?? '';
  let groups = 0;
  if (pattern === '') reject(patternVariable, `no PATTERN specified for mogrifier ${name}`);
  else {
    try {
      const search = new NameSearch(pattern);
      spend(budget, pattern, search.stepCost);
      groups = search.groupCount;
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error;
      reject(patternVariable, `failed to compile pattern for ${name}: ${error.message}`);
    }
  }
  if (newName === '') reject(nameVariable, `no NAME specified for mogrifier ${name}`);
  const tagsVariable = variableOf(name, 'TAGS');
  const tags = readTags(values.get(tagsVariable)?.value ?? '', (reason) => reject(tagsVariable, reason));
  if (errors.length > before) return undefined;
  for (const [canonical, text] of [
    [nameVariable, newName],
    ...tags.flat().map((tag) => [tagsVariable, tag]),
  ]) {
    const { variable } = values.get(canonical as string) as Written;
    warnings.push(...missingGroups(groups, text as string).map((missing) => `${variable}: ${missing}`));
  }
  return { pattern, name: newName, tags };
}

function missingGroups(groups: number, template: string): string[] {
  return [...template.matchAll(/\$(\d+)/g)]
    .filter(([, digits]) => Number(digits) > groups)
    .map(([reference]) => `${reference} stays unchanged: the pattern has no such group (groups: ${groups})`);
}

function readTags(list: string, reject: (reason: string) => void): [string, string][] {
  const tags: [string, string][] = [];
  for (const [index, part] of (list === '' ? [] : list.split(',')).entries()) {
    const [key = '', value = '', ...rest] = part.split(':');
    if (key !== '' && value !== '' && rest.length === 0) tags.push([key, value]);
    else
      reject(
        `expected key:value,key2:value2; part ${index + 1} has not exactly one colon, or an empty key or value`,
      );
  }
  return tags;
}
