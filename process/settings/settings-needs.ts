/**
 * Settings that only have an effect if others have certain values. Tables declare these needs, from which the warnings at the start and
 * the column of the documentation are made.
 */
import type { Setting, SettingsTable } from './settings-reader.ts';

/**
 * Another setting, with the values for which the dependent one has an effect. The other one must have an effect itself: a setting that
 * needs a switch has none if the switch has none.
 */
export interface SettingNeed {
  /** The other setting's variable. */
  readonly name: string;
  /** The values in the program. `set`: not empty, that is, neither false, 0 nor empty; `unset`: empty. */
  readonly is: readonly unknown[] | 'set' | 'unset';
  /** An alternative that suffices, too. */
  readonly or?: SettingNeed;
  /** What happens without it, if that is not obvious: a clause for the warning. */
  readonly otherwise?: string;
  /** Not only operators set the variable, so there is no warning. */
  readonly quiet?: true;
}

/** Returns the table with these needs for each row that declares none. */
export function needing<Table extends SettingsTable>(needs: readonly SettingNeed[], table: Table): Table {
  return Object.fromEntries(
    Object.entries(table).map(([key, setting]) => [key, { needs, ...setting }]),
  ) as unknown as Table;
}

/** Returns a sentence for each setting that is set to a value but has no effect. */
export function needWarnings(
  table: SettingsTable,
  settings: Readonly<Record<string, unknown>>,
  isSet: (name: string) => boolean,
): string[] {
  const values = new Map(Object.entries(table).map(([key, { name }]) => [name, settings[key]]));
  const byName = new Map(Object.values(table).map((setting) => [setting.name, setting]));
  return Object.values(table).flatMap((setting) => {
    if (!isSet(setting.name) || isNothing(values.get(setting.name))) return [];
    const need = unmetNeed(setting, byName, values);
    return need === undefined || need.quiet === true ? [] : [effectless(setting.name, need)];
  });
}

/** Returns the sentence that `variable` has no effect because the need is not met. */
export function effectless(variable: string, need: SettingNeed): string {
  const why = need.otherwise === undefined ? '' : `: ${need.otherwise}`;
  if (need.is === 'unset') return `${variable} has no effect with ${need.name}${why}`;
  if (isFalse(need)) return `${variable} has no effect with ${need.name}=true${why}`;
  return `${variable} has no effect without ${alternatives(need).flatMap(demands).join(' or ')}${why}`;
}

/** Returns the need for the documentation: `BACKEND_TYPE=redis`, with each demand marked separately. */
export function needText(need: SettingNeed, mark: (demand: string) => string): string {
  if (need.is === 'unset') return `no ${mark(need.name)}`;
  return alternatives(need).flatMap(demands).map(mark).join(' or ');
}

/** Returns the first unmet need of the setting, or of one that it needs. Alternatives that are impossible themselves are left out. */
function unmetNeed(
  setting: Setting<unknown>,
  byName: ReadonlyMap<string, Setting<unknown>>,
  values: ReadonlyMap<string, unknown>,
): SettingNeed | undefined {
  for (const need of setting.needs ?? []) {
    const closed = alternatives(need).map((way) =>
      unmetNeed(byName.get(way.name) as Setting<unknown>, byName, values),
    );
    const open = alternatives(need).filter((_, index) => closed[index] === undefined);
    if (open.some((way) => isMet(way, values.get(way.name)))) continue;
    if (need.quiet === true) return need;
    const { otherwise } = need;
    return (
      open.reduceRight<SettingNeed | undefined>(
        (or, { name, is }) => ({
          name,
          is,
          ...(or && { or }),
          ...(otherwise === undefined ? {} : { otherwise }),
        }),
        undefined,
      ) ?? closed[0]
    );
  }
  return undefined;
}

function alternatives(need: SettingNeed): SettingNeed[] {
  return need.or === undefined ? [need] : [need, ...alternatives(need.or)];
}

function isMet({ is }: SettingNeed, value: unknown): boolean {
  return typeof is === 'string' ? isNothing(value) === (is === 'unset') : is.includes(value);
}

function isNothing(value: unknown): boolean {
  if (value instanceof Map) return value.size === 0;
  return Array.isArray(value) ? value.length === 0 : !value;
}

function isFalse({ is, or }: SettingNeed): boolean {
  return or === undefined && is.length === 1 && is[0] === false;
}

/** Leaves out unset values, which the user cannot be asked to set. */
function demands({ name, is }: SettingNeed): string[] {
  if (typeof is === 'string') return [name];
  return is.filter((value) => value !== undefined).map((value) => `${name}=${value}`);
}
