/**
 * Writes docs/settings.md and docs/settings-control-plane.md from the tables of settings and the text of their templates. With `--check`,
 * it writes nothing and fails if a committed file is out of date.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { controlPlaneSettingGroups } from '../control-plane/settings/table.ts';
import { limiterAliases, limiterSettingGroups } from '../limiter/settings/settings.ts';
import { needText } from '../process/settings/settings-needs.ts';
import { defaultOf, type Setting, type SettingsTable } from '../process/settings/settings-reader.ts';
import { type AliasTable, aliasesOf } from '../process/settings/settings-unknown.ts';

interface SettingsDocument {
  target: string;
  template: string;
  groups: readonly { title: string; settings: SettingsTable }[];
  aliases: AliasTable;
}

const documents: SettingsDocument[] = [
  {
    target: 'docs/settings.md',
    template: 'settings-doc.template.md',
    groups: limiterSettingGroups,
    aliases: limiterAliases,
  },
  {
    target: 'docs/settings-control-plane.md',
    template: 'settings-doc-control-plane.template.md',
    groups: controlPlaneSettingGroups,
    aliases: { prefixes: [], names: {} },
  },
];

function documentText({ template, groups, aliases }: SettingsDocument): string {
  const prose = readFileSync(new URL(template, import.meta.url), 'utf8');
  const tables = groups.map(({ title, settings }) => groupTable(title, settings, aliases)).join('\n\n');
  return prose.replace('{{tables}}', () => tables).replace('{{aliases}}', () => aliasTable(groups, aliases));
}

function aliasTable(groups: SettingsDocument['groups'], aliases: AliasTable): string {
  const names = groups.flatMap(({ settings }) => Object.values(settings).map(({ name }) => name));
  return [
    row(['instead of', 'also']),
    row(['---', '---']),
    ...Object.entries(aliases.names).map(([alias, name]) => row([code(name), code(alias)])),
    ...aliases.prefixes
      .filter(([, prefix]) => names.some((name) => name.startsWith(prefix)))
      .map(([alias, prefix]) => row([code(`${prefix}...`), code(`${alias}...`)])),
  ].join('\n');
}

function groupTable(title: string, settings: SettingsTable, aliases: AliasTable): string {
  const rows = Object.values(settings).map((setting) =>
    row([
      variable(setting, aliases),
      defaultValue(setting),
      setting.kind.brief,
      needs(setting),
      setting.summary.replace(` ${ours}`, ''),
    ]),
  );
  const head = [row(['variable', 'default', 'accepted', 'needs', 'meaning']), row(Array(5).fill('---'))];
  return [`### ${title}`, '', ...head, ...rows].join('\n');
}

/** Settings that the documents mark in the first column. */
const ours = 'Not in the Go service.';

function variable(setting: Setting<unknown>, aliases: AliasTable): string {
  const others = aliasesOf(aliases, setting.name).map((alias) => `, also ${code(alias)}`);
  const isOurs = setting.summary.includes(ours) ? ' (only Weir)' : '';
  return `${code(setting.name)}${others.join('')}${isOurs}${setting.secret === true ? ' (secret)' : ''}`;
}

function needs(setting: Setting<unknown>): string {
  return (setting.needs ?? []).map((need) => needText(need, code)).join(', ');
}

function defaultValue(setting: Setting<unknown>): string {
  const value = setting.kind.format(defaultOf(setting));
  return value === '' ? 'empty' : code(value);
}

function row(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`;
}

function code(value: string): string {
  return `\`${value}\``;
}

/** Returns an empty text if the file is missing, which counts as out of date. */
function committedText(target: URL): string {
  try {
    return readFileSync(target, 'utf8');
  } catch {
    return '';
  }
}

for (const document of documents) {
  const target = new URL(`../${document.target}`, import.meta.url);
  const wanted = documentText(document);
  if (!process.argv.includes('--check')) {
    writeFileSync(target, wanted);
  } else if (committedText(target) !== wanted) {
    console.error(`${document.target} is stale, run "npm run generate"`);
    process.exitCode = 1;
  }
}
