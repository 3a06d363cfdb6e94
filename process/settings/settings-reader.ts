/** Reads settings from the environment by a table. Every bad value is reported, not just the first. */
import type { DefaultedKind, SettingKind } from './settings-kinds.ts';
import { needWarnings, type SettingNeed } from './settings-needs.ts';
import { type AliasTable, canonicalName, unknownVariables, unsafeVariables } from './settings-unknown.ts';

interface Row<T> {
  /** The environment variable. */
  readonly name: string;
  readonly kind: SettingKind<T>;
  /** One sentence for the documentation. */
  readonly summary: string;
  /** Its value never appears in errors. */
  readonly secret?: boolean;
  /** The other settings that this one needs to have an effect, for the warnings and a column of the documentation. */
  readonly needs?: readonly SettingNeed[];
}

/** Without a default, that of the kind applies: a text is empty, a Boolean false. */
export type Setting<T> = Row<T> & ({ readonly default: T } | { readonly kind: DefaultedKind<T> });

/** Settings by the name under which the program handles them. */
// biome-ignore lint/suspicious/noExplicitAny: a table holds settings of every type
export type SettingsTable = Readonly<Record<string, Setting<any>>>;

export type SettingsOf<Table extends SettingsTable> = {
  readonly [key in keyof Table]: Table[key]['kind'] extends SettingKind<infer T> ? T : never;
};

export type Environment = Readonly<Record<string, string | undefined>>;

export interface SettingsError {
  /** The name of the variable that is set, which may be an alias. */
  readonly variable: string;
  /** A whole sentence that begins with the variable. */
  readonly message: string;
}

/** A possible error of the values together; `problem` continues a sentence that begins with the variable. */
export type Check = readonly [isWrong: boolean, variable: string, problem: string];

export interface SettingsSchema<Table extends SettingsTable> {
  readonly table: Table;
  readonly aliases: AliasTable;
  /** Unknown variables with these prefixes cause a warning. */
  readonly ownPrefixes: readonly string[];
  /** Variables that are not read, and that must not be ignored for safety if they are set. */
  readonly unsafeToIgnore?: readonly string[];
  /** Returns errors of the values together. Bad values are missing from `settings`. */
  readonly check?: (settings: Partial<SettingsOf<Table>>) => SettingsError[];
  /** Returns sentences about values that are allowed but unwise. `needs` covers settings without effect. */
  readonly warn?: (settings: SettingsOf<Table>) => string[];
  /** The right names for wrong ones that are not similar: a setting's name by the wrong one. */
  readonly mistakenNames?: Readonly<Record<string, string>>;
}

export type SettingsResult<Table extends SettingsTable> =
  | {
      readonly settings: SettingsOf<Table>;
      readonly warnings: readonly string[];
      readonly errors?: undefined;
    }
  | {
      readonly errors: readonly SettingsError[];
      readonly settings?: undefined;
      /** Warnings, which may explain why a value is missing. */
      readonly warnings: readonly string[];
    };

/** A variable counts as set even if it is empty. */
export function readSettings<Table extends SettingsTable>(
  schema: SettingsSchema<Table>,
  env: Environment,
): SettingsResult<Table> {
  const errors: SettingsError[] = [];
  const sources = findSources(schema, env);
  const settings: Record<string, unknown> = {};
  for (const [key, setting] of Object.entries(schema.table)) {
    const names = sources.get(setting.name) ?? [];
    const clash = names.find((name) => env[name] !== env[names[0] as string]);
    if (clash !== undefined) {
      errors.push(disagreement(setting, names, env));
    } else if (names[0] === undefined) {
      settings[key] = defaultOf(setting);
    } else {
      const parsed = parse(setting, names[0], env[names[0]] as string);
      if ('message' in parsed) errors.push(parsed);
      else settings[key] = parsed.value;
    }
  }
  for (const variable of unsafeVariables(schema.unsafeToIgnore ?? [], schema.aliases, env)) {
    errors.push({
      variable,
      message: `${variable}: this version does not have it, and ignoring it would be unsafe; remove it or set it to false`,
    });
  }
  errors.push(...(schema.check?.(settings as Partial<SettingsOf<Table>>) ?? []));
  const warnings = unknownVariables(schema, env);
  if (errors.length > 0) return { errors, warnings };
  const whole = settings as SettingsOf<Table>;
  const isSet = (name: string): boolean => (sources.get(name) ?? []).length > 0;
  warnings.push(...needWarnings(schema.table, whole, isSet), ...(schema.warn?.(whole) ?? []));
  return { settings: whole, warnings };
}

export function defaultOf<T>(setting: Setting<T>): T {
  return 'default' in setting ? setting.default : setting.kind.defaultValue;
}

/** Returns the failed checks as errors. */
export function problems(checks: readonly Check[]): SettingsError[] {
  return checks
    .filter(([isWrong]) => isWrong)
    .map(([, variable, problem]) => ({ variable, message: `${variable}: ${problem}` }));
}

/** Checks two settings of which each needs the other. */
export function pairCheck(
  isUsed: boolean,
  ...pair: readonly (readonly [variable: string, value: string])[]
): Check {
  const set = pair.find(([, value]) => value !== '');
  const missing = pair.find(([, value]) => value === '');
  return [
    isUsed && set !== undefined && missing !== undefined,
    set?.[0] ?? '',
    `needs ${missing?.[0]} as well`,
  ];
}

/** The variables that are set for each setting: the canonical name first, then its aliases by name. */
function findSources(
  schema: Pick<SettingsSchema<SettingsTable>, 'table' | 'aliases'>,
  env: Environment,
): Map<string, string[]> {
  const sources = new Map<string, string[]>();
  for (const { name } of Object.values(schema.table))
    sources.set(name, env[name] === undefined ? [] : [name]);
  for (const name of Object.keys(env).sort()) {
    if (env[name] === undefined || sources.has(name)) continue;
    const canonical = canonicalName(schema.aliases, name);
    if (canonical !== undefined) sources.get(canonical)?.push(name);
  }
  return sources;
}

function disagreement(setting: Setting<unknown>, names: readonly string[], env: Environment): SettingsError {
  const set = names.map((name) => (setting.secret === true ? name : `${name}=${quote(env[name])}`));
  return {
    variable: names[0] as string,
    message: `${set.join(' and ')} name the same setting with different values: keep one of them`,
  };
}

function parse(
  setting: Setting<unknown>,
  variable: string,
  value: string,
): { value: unknown } | SettingsError {
  const result = setting.kind.schema.safeParse(value);
  if (result.success) return { value: result.data };
  const custom = result.error.issues.find((issue) => issue.code === 'custom')?.message;
  const shown =
    setting.secret === true ? 'the value (not shown) is not accepted' : `${quote(value)} is not accepted`;
  return { variable, message: `${variable}: ${shown}, expected ${custom ?? setting.kind.expected}` };
}

/** Quotes a value. The length is bounded, so that a file pasted into a variable does not fill the log. */
function quote(value: string | undefined): string {
  const text = value ?? '';
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}...` : text);
}
