/**
 * The list of all capabilities, and the place of their settings among the others. To add a capability, add its folder and its place in
 * this list.
 */
import { needing, type SettingNeed } from '../../process/settings/settings-needs.ts';
import type { Environment, SettingsOf, SettingsTable } from '../../process/settings/settings-reader.ts';
import { callers } from '../callers/declaration.ts';
import type { Capability } from '../capabilities/capability.ts';
import { forwardAuth } from '../forward-auth/declaration.ts';
import { kuadrant } from '../kuadrant/declaration.ts';
import { leases } from '../leases/declaration.ts';
import { overLimit } from '../over-limit/declaration.ts';
import { overrides } from '../overrides/declaration.ts';
import { pprof } from '../pprof/declaration.ts';
import { quotaService } from '../quota-service/declaration.ts';
import { reflection } from '../reflection/declaration.ts';
import { reservations } from '../reservations/declaration.ts';
import { statsdMapper } from '../statsd-mapper/declaration.ts';
import { topOffenders } from '../top-offenders/declaration.ts';
import { tracing } from '../tracing/declaration.ts';

/** Capabilities, in the order in which their parts are opened: reflection reports the services of those before it. */
export const capabilities = [
  callers,
  forwardAuth,
  leases,
  overrides,
  reservations,
  topOffenders,
  overLimit,
  tracing,
  pprof,
  statsdMapper,
  kuadrant,
  quotaService,
  reflection,
] as const;

type RowsOf<One> = One extends { settings: { rows: infer Rows extends SettingsTable } } ? Rows : never;
export type CapabilityTables = RowsOf<(typeof capabilities)[number]>;

/** The intersection of a union. */
export type AllOf<Union> = (Union extends unknown ? (each: Union) => void : never) extends (
  all: infer All,
) => void
  ? All
  : never;
type OwnSettings = SettingsOf<AllOf<CapabilityTables>>;
type DerivedOf<One> = One extends { settings: { derived(...args: never): infer Values } } ? Values : never;
export type DerivedSettings = AllOf<DerivedOf<(typeof capabilities)[number]>>;

export interface SettingsGroup {
  readonly title: string;
  /** The needs of each row that declares none itself. */
  readonly needs?: readonly SettingNeed[];
  readonly settings: SettingsTable;
}

const declared: readonly Pick<Capability<never, OwnSettings>, 'name' | 'settings'>[] = capabilities;

/** Returns the groups, with the settings of capabilities inserted at their places. */
export function withCapabilities(own: readonly SettingsGroup[]): SettingsGroup[] {
  const groups = [...own];
  for (const { settings } of declared) {
    if (settings === undefined) continue;
    const { title, before, rows } = settings;
    const at = groups.findIndex((group) => group.title === title);
    const group = groups[at];
    if (group !== undefined) groups[at] = { ...group, settings: inserted(group.settings, rows, before) };
    else {
      const next = groups.findIndex((other) => other.title === before);
      groups.splice(next === -1 ? groups.length : next, 0, { title, settings: rows });
    }
  }
  return groups.map(({ title, needs, settings }) => ({
    title,
    settings: needs === undefined ? settings : needing(needs, settings),
  }));
}

function inserted(table: SettingsTable, rows: SettingsTable, before: string | undefined): SettingsTable {
  const entries = Object.entries(table);
  const next = entries.findIndex(([name]) => name === before);
  entries.splice(next === -1 ? entries.length : next, 0, ...Object.entries(rows));
  return Object.fromEntries(entries);
}

export const capabilityPrefixes: readonly string[] = declared.flatMap(
  ({ settings }) => settings?.ownPrefixes ?? [],
);

export function capabilityWarnings(settings: OwnSettings, env: Environment): string[] {
  return declared.flatMap((one) => one.settings?.warnings?.(settings, env) ?? []);
}

export function derivedSettings(settings: OwnSettings, env: Environment): DerivedSettings {
  const all = declared.map((one) => one.settings?.derived?.(settings, env));
  return Object.assign({}, ...all) as DerivedSettings;
}
