/** The interfaces of a version as names and schemas, to compare with those of a later version. Descriptions are left out. */
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { load } from 'js-yaml';
import { programs } from '../../cli/main.ts';
import { type Command, helpFlag } from '../../cli/shared/flags.ts';
import { controlPlaneSettingGroups } from '../../control-plane/settings/table.ts';
import { limiterAliases, limiterSettingGroups } from '../../limiter/settings/settings.ts';
import { defaultOf, type SettingsTable } from '../../process/settings/settings-reader.ts';
import { isObject } from '../../rules/model.ts';
import { recordedTelemetry } from '../support/control-plane-telemetry.ts';
import { documentedStatistics } from '../support/documented-statistics.ts';
import { projectRoot } from '../support/documents.ts';

type Json = Readonly<Record<string, unknown>>;

function settingsOf(groups: readonly { settings: SettingsTable }[]): Json {
  return Object.fromEntries(
    groups.flatMap(({ settings }) =>
      Object.values(settings).map((setting) => [setting.name, { default: defaultOf(setting) }]),
    ),
  );
}

/** Without what is for readers alone; `true` in place of what a name stands for there. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, own]) =>
      (/^(description|summary|title|\$id|\$comment)$/.test(name) && typeof own === 'string') ||
      /^(examples?|defaultSnippets|x-kubernetes-validations|additionalPrinterColumns|version|info|app\.kubernetes\.io\/version)$/.test(
        name,
      )
        ? []
        : [[name, plain(own)]],
    ),
  );
}

function filesAs(pattern: string, read: (text: string) => unknown): Json {
  return Object.fromEntries(
    globSync(pattern, { cwd: projectRoot })
      .sort()
      .map((path) => [basename(path), plain(read(readFileSync(join(projectRoot, path), 'utf8')))]),
  );
}

const allSettings = [...limiterSettingGroups, ...controlPlaneSettingGroups].flatMap(({ settings }) =>
  Object.values(settings),
);

/** By the name of a setting: its words, and both ends of its range. Settings that accept any text have none. */
export function acceptedValues(): Record<string, string[]> {
  return Object.fromEntries(
    allSettings.map(({ name, kind }) => {
      const range = /(\S+) to (\S+)$/.exec(kind.brief)?.slice(1) ?? [];
      const words = [...kind.brief.matchAll(/`([^`]+)`/g)].map(([, word]) => word!);
      const booleans = kind.brief === 'boolean' ? ['true', 'false'] : [];
      const values = [...range, ...words, ...booleans];
      return [name, values.filter((value) => kind.schema.safeParse(value).success)];
    }),
  );
}

/** Settings with a value that they do not accept any more. */
export function rejectedValues(values: Readonly<Record<string, readonly string[]>>): string[] {
  const kinds = new Map(allSettings.map(({ name, kind }) => [name, kind]));
  return Object.entries(values).flatMap(([name, accepted]) =>
    accepted
      .filter((value) => kinds.get(name)?.schema.safeParse(value).success !== true)
      .map((value) => `${name}=${value}`),
  );
}

/** The flags of a command and of its subcommands, and the other values of their first arguments. */
function flagsOf(name: string, { flags, verbs, words }: Command): [name: string, command: Json][] {
  const own = Object.entries({ ...flags, ...helpFlag }).map(([flag, row]) => [`--${flag}`, row]);
  return [
    [name, { flags: Object.fromEntries(own), words }],
    ...Object.entries(verbs).flatMap(([verb, command]) => flagsOf(`${name} ${verb}`, command)),
  ];
}

async function flags(): Promise<Json> {
  const commands = await Promise.all(
    Object.entries(programs).flatMap(([program, entries]) =>
      Object.entries(entries).map(async ([name, { load: loadCommand }]) =>
        flagsOf(`${program} ${name}`, await loadCommand()),
      ),
    ),
  );
  return Object.fromEntries(commands.flat());
}

async function controlPlaneMetrics(): Promise<string[]> {
  const text = await recordedTelemetry().metrics.metrics();
  return [...text.matchAll(/^# TYPE (weir_\S+ \S+)/gm)].map(([, metric]) => metric!);
}

export async function interfaces(): Promise<Json> {
  return {
    settings: {
      limiter: settingsOf(limiterSettingGroups),
      controlPlane: settingsOf(controlPlaneSettingGroups),
      aliases: limiterAliases,
    },
    flags: await flags(),
    statistics: documentedStatistics(),
    controlPlaneMetrics: await controlPlaneMetrics(),
    schemas: filesAs('schemas/!(frozen-names).json', JSON.parse),
    frozenNames: filesAs('schemas/frozen-names.json', JSON.parse),
    chart: filesAs('charts/weir/values.schema.json', JSON.parse),
    openapi: filesAs('docs/openapi.json', JSON.parse),
    crds: filesAs('crds/*.yaml', load),
  };
}

/** Bounds that a later version may raise, and those that it may lower. */
const mayRise = /^(maximum|maxLength|maxItems|maxProperties)$/;
const mayFall = /^(minimum|minLength|minItems|minProperties)$/;

/** Keywords of a schema that narrow what it accepts. A property may have such a name, and is an object. */
const narrows =
  /^(enum|const|pattern|format|multipleOf|uniqueItems|(exclusive)?(Max|Min)imum|(max|min)(imum|Length|Items|Properties))$/i;

function isNewBound(name: string, value: unknown): boolean {
  return (narrows.test(name) && !isObject(value)) || (name === 'additionalProperties' && value === false);
}

/** What a later version has lost or narrowed: a path each. Additions are fine. */
export function lost(old: unknown, now: unknown, path = ''): string[] {
  const name = path.slice(path.lastIndexOf('.') + 1);
  if (Array.isArray(old)) {
    if (!Array.isArray(now)) return [path];
    // A field that is no longer required takes what was accepted; one that is required now does not.
    if (name === 'required') return now.filter((one) => !old.includes(one)).map((one) => `${path}: ${one}`);
    return old.flatMap((one) => {
      const isThere = now.some((other) => lost(one, other, path).length === 0);
      return isThere ? [] : [`${path}: ${JSON.stringify(one)}`];
    });
  }
  if (isObject(old)) {
    if (!isObject(now)) return [path];
    const newlyRequired =
      old['required'] === undefined && Array.isArray(now['required']) && 'properties' in old;
    const own = newlyRequired && (now['required'] as unknown[]).length > 0 ? [`${path}.required`] : [];
    return [
      ...own,
      ...Object.keys(now).flatMap((key) =>
        !(key in old) && isNewBound(key, now[key]) ? [`${path}.${key}`] : [],
      ),
      ...Object.entries(old).flatMap(([key, value]) => {
        if (key in now) return lost(value, now[key], `${path}.${key}`);
        return key === 'required' || mayRise.test(key) || mayFall.test(key) ? [] : [`${path}.${key}`];
      }),
    ];
  }
  if (typeof old === 'number' && typeof now === 'number') {
    if (mayRise.test(name)) return now < old ? [path] : [];
    if (mayFall.test(name)) return now > old ? [path] : [];
  }
  return old === now ? [] : [path];
}
