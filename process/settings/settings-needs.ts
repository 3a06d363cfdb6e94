/**
 * Settings that act only where others have certain values. Tables declare it, and from that come the warnings at the
 * start and the column of the documents.
 */
import type { Setting, SettingsTable } from './settings-reader.ts';

/**
 * Another setting, and its values with which the one that needs it acts. It has to act itself, too: what needs a
 * switch has no effect where the switch has none.
 */
export interface SettingNeed {
  /** The other setting's variable. */
  readonly name: string;
  /** As the program handles them. `set`: anything but nothing, which is false, 0 or empty; `unset`: nothing. */
  readonly is: readonly unknown[] | 'set' | 'unset';
  /** This one instead is enough, too. */
  readonly or?: SettingNeed;
  /** What happens without it, where that is not plain: a clause for the warning. */
  readonly otherwise?: string;
  /** Others than the operator set the variable as well: nobody asked for anything, so nobody is warned. */
  readonly quiet?: true;
}

/** The table, where each row that declares no needs has these. */
export function needing<Table extends SettingsTable>(needs: readonly SettingNeed[], table: Table): Table {
  return Object.fromEntries(
    Object.entries(table).map(([key, setting]) => [key, { needs, ...setting }]),
  ) as unknown as Table;
}

/** A sentence for each setting that somebody set to something and that does not act. */
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

/** That `variable` does not act, as the need is not met. */
export function effectless(variable: string, need: SettingNeed): string {
  const why = need.otherwise === undefined ? '' : `: ${need.otherwise}`;
  if (need.is === 'unset') return `${variable} has no effect with ${need.name}${why}`;
  if (isFalse(need)) return `${variable} has no effect with ${need.name}=true${why}`;
  return `${variable} has no effect without ${alternatives(need).flatMap(demands).join(' or ')}${why}`;
}

/** For the documents: `BACKEND_TYPE=redis`, each demand by itself. */
export function needText(need: SettingNeed, mark: (demand: string) => string): string {
  if (need.is === 'unset') return `no ${mark(need.name)}`;
  return alternatives(need).flatMap(demands).map(mark).join(' or ');
}

/** The first need that is not met, of the setting or else of one that it needs; without the ways that are closed, too. */
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

/** What is unset, and acts so, is nothing that could be asked for. */
function demands({ name, is }: SettingNeed): string[] {
  if (typeof is === 'string') return [name];
  return is.filter((value) => value !== undefined).map((value) => `${name}=${value}`);
}
