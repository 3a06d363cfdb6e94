/**
 * Writes docs/settings.md from the table in limiter/settings.ts and the prose in settings-doc.template.md. With
 * `--check`, writes nothing and fails when the committed file is stale.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { limiterAliases, limiterSettingGroups } from '../limiter/settings.ts';
import { aliasesOf } from '../process/settings-aliases.ts';
import type { Setting, SettingsTable } from '../process/settings-reader.ts';

const target = new URL('../docs/settings.md', import.meta.url);

const settingNames = limiterSettingGroups.flatMap(({ settings }) =>
  Object.values(settings).map(({ name }) => name),
);

function settingsDoc(): string {
  const template = readFileSync(new URL('settings-doc.template.md', import.meta.url), 'utf8');
  const tables = limiterSettingGroups.map(({ title, settings }) => groupTable(title, settings)).join('\n\n');
  const aliases = [
    row(['instead of', 'also']),
    row(['---', '---']),
    ...Object.entries(limiterAliases.names).map(([alias, name]) => row([code(name), code(alias)])),
    ...limiterAliases.prefixes
      .filter(([, name]) => settingNames.some((setting) => setting.startsWith(name)))
      .map(([alias, name]) => row([code(`${name}...`), code(`${alias}...`)])),
  ].join('\n');
  return template.replace('{{tables}}', () => tables).replace('{{aliases}}', () => aliases);
}

function groupTable(title: string, settings: SettingsTable): string {
  const rows = Object.values(settings).map((setting) =>
    row([variable(setting), defaultValue(setting), setting.kind.brief, setting.summary]),
  );
  const head = [row(['variable', 'default', 'accepted', 'meaning']), row(['---', '---', '---', '---'])];
  return [`### ${title}`, '', ...head, ...rows].join('\n');
}

function variable(setting: Setting<unknown>): string {
  const aliases = aliasesOf(limiterAliases, setting.name).map((alias) => `, also ${code(alias)}`);
  return `${code(setting.name)}${aliases.join('')}${setting.secret === true ? ' (secret)' : ''}`;
}

function defaultValue(setting: Setting<unknown>): string {
  const value = setting.kind.format(setting.default);
  return value === '' ? 'empty' : code(value);
}

function row(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`;
}

function code(value: string): string {
  return `\`${value}\``;
}

const wanted = settingsDoc();
if (process.argv.includes('--check')) {
  let committed = '';
  try {
    committed = readFileSync(target, 'utf8');
  } catch {
    // A missing file is stale too.
  }
  if (committed !== wanted) {
    console.error('docs/settings.md is stale, run "npm run generate"');
    process.exitCode = 1;
  }
} else {
  writeFileSync(target, wanted);
}
