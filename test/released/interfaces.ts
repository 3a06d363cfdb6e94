/** The interfaces of a version as names and schemas, to compare with those of a later version. Descriptions are left out. */
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { load } from 'js-yaml';
import { programs } from '../../cli/main.ts';
import { type Command, helpFlag } from '../../cli/shared/flags.ts';
import { controlPlaneSettingGroups } from '../../control-plane/settings/table.ts';
import { limiterAliases, limiterSettingGroups } from '../../limiter/settings/settings.ts';
import { builtInMapping } from '../../limiter/stats/prometheus/mapper.ts';
import { defaultOf, type SettingsTable } from '../../process/settings/settings-reader.ts';
import { isObject } from '../../rules/model.ts';
import { recordedTelemetry } from '../support/control-plane-telemetry.ts';
import {
  documentedRuleStatistics,
  documentedStatistics,
  documentedTags,
} from '../support/documented-statistics.ts';
import { projectRoot } from '../support/documents.ts';

type Json = Readonly<Record<string, unknown>>;

function settingsOf(groups: readonly { settings: SettingsTable }[]): Json {
  return Object.fromEntries(
    groups.flatMap(({ settings }) =>
      Object.values(settings).map((setting) => [setting.name, { default: defaultOf(setting) }]),
    ),
  );
}

/** Schemas that have the names of fields as keys, which a keyword may be, too. */
const fieldsByName = /^(properties|patternProperties)$/;

/** Keywords for readers alone. */
const metadata =
  /^(description|summary|title|\$id|\$comment|examples?|defaultSnippets|additionalPrinterColumns|app\.kubernetes\.io\/version)$/;

/** Each CEL rule of a resource definition as its expression. */
const celRules = 'x-kubernetes-validations';

/** Removes texts for readers, examples, and the version of the product. Keeps fields of the same names. */
export function plain(value: unknown, name = '', areFields = false): unknown {
  if (Array.isArray(value)) return value.map((one) => (name === celRules ? one.rule : plain(one)));
  if (!isObject(value)) return value;
  const isMetadata = (key: string): boolean => metadata.test(key) || (name === 'info' && key === 'version');
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, own]) =>
      !areFields && isMetadata(key) ? [] : [[key, plain(own, key, !areFields && fieldsByName.test(key))]],
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

/** The kind and the labels of each. Those of Node's process are not ours to promise. */
function controlPlaneMetrics(): Json {
  const { registry } = recordedTelemetry().metrics;
  // The library has `labelNames` in each metric, and its types do not say so.
  const all = registry.getMetricsAsArray() as unknown as {
    name: string;
    type: string;
    labelNames: string[];
  }[];
  return Object.fromEntries(
    all
      .filter(({ name }) => name.startsWith('weir_'))
      .map(({ name, type, labelNames }) => [name, { kind: type, labels: labelNames }]),
  );
}

/** What Prometheus gets of the limiter's statistics that do not keep their names: the metric and its labels. */
function limiterMetrics(): Json {
  const { rules } = builtInMapping({ responseTimeAsMilliseconds: false });
  return Object.fromEntries(
    rules.map(({ match, name, labels }) => [match, { name, labels: labels.map((label) => label.join('=')) }]),
  );
}

export async function interfaces(): Promise<Json> {
  return {
    settings: {
      limiter: settingsOf(limiterSettingGroups),
      controlPlane: settingsOf(controlPlaneSettingGroups),
      aliases: limiterAliases,
    },
    flags: await flags(),
    statistics: [...documentedStatistics(), ...documentedRuleStatistics()],
    statisticTags: documentedTags(),
    limiterMetrics: limiterMetrics(),
    controlPlaneMetrics: controlPlaneMetrics(),
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

/** Keywords of a schema that narrow what it accepts. */
const narrows =
  /^(type|enum|const|pattern|format|multipleOf|uniqueItems|(exclusive)?(Max|Min)imum|(max|min)(imum|Length|Items|Properties))$/i;
const restricts =
  /^(not|allOf|oneOf|anyOf|if|dependent(Required|Schemas)|dependencies|propertyNames|patternProperties|items|contains|x-kubernetes-validations)$/;

/** Keywords whose schema accepts less if their value accepts more, or after any change. */
const inverted = /^(not|if|dependent(Required|Schemas)|dependencies)$/;

/** Whether a keyword that a schema did not have makes it accept less. */
function isNewBound(name: string, value: unknown): boolean {
  if (name === 'additionalProperties') return value !== true;
  if (name === 'required') return value === true || (Array.isArray(value) && value.length > 0);
  return narrows.test(name) || restricts.test(name);
}

/** Whether a keyword that a schema does not have any more makes it accept more. */
function isFormerBound(name: string): boolean {
  return name === 'required' || name === celRules || mayRise.test(name) || mayFall.test(name);
}

const isIn = (list: readonly unknown[], one: unknown): boolean =>
  list.some((other) => lost(one, other).length === 0);

function lostOfList(name: string, old: readonly unknown[], now: readonly unknown[]): string[] {
  // A field that is no longer required takes what was accepted; one that is required now does not. CEL rules are the same.
  if (name === 'required' || name === celRules) return now.filter((one) => !old.includes(one)).map(String);
  const gone = old.filter((one) => !isIn(now, one));
  // All of these apply, so another one narrows.
  const added = name === 'allOf' ? now.filter((one) => !old.some((other) => isIn([one], other))) : [];
  return [...gone, ...added].map((one) => JSON.stringify(one));
}

/** What a later version has lost or narrowed: a path each. Additions are fine. */
export function lost(old: unknown, now: unknown, path = '', areFields = false): string[] {
  const name = path.slice(path.lastIndexOf('.') + 1);
  if (Array.isArray(old)) {
    if (!Array.isArray(now)) return [path];
    return lostOfList(name, old, now).map((one) => `${path}: ${one}`);
  }
  if (isObject(old)) {
    if (!isObject(now)) return [path];
    return [
      ...Object.keys(now).flatMap((key) =>
        !areFields && !(key in old) && isNewBound(key, now[key]) ? [`${path}.${key}`] : [],
      ),
      ...Object.entries(old).flatMap(([key, value]) => {
        const own = `${path}.${key}`;
        if (!(key in now)) return !areFields && isFormerBound(key) ? [] : [own];
        if (!areFields && inverted.test(key)) return isDeepStrictEqual(value, now[key]) ? [] : [own];
        return lost(value, now[key], own, !areFields && fieldsByName.test(key));
      }),
    ];
  }
  if (typeof old === 'number' && typeof now === 'number') {
    if (mayRise.test(name)) return now < old ? [path] : [];
    if (mayFall.test(name)) return now > old ? [path] : [];
  }
  return old === now ? [] : [path];
}
