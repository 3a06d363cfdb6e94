import { readFileSync } from 'node:fs';

const text = readFileSync(new URL('../../docs/statistics.md', import.meta.url), 'utf8');

const ofRule = 'ratelimit.service.rate_limit.<metric key>';

/** The names in a cell: `a.b`, then `.c` for `a.c`, and `a.{b, c}` for both. Without a name before it, `.c` is of `prefix`. */
function namesIn(cell: string, prefix = ''): string[] {
  let before = prefix;
  return [...cell.matchAll(/`([^`]+)`/g)].flatMap(([, name]) => {
    if (name!.startsWith('.')) return [before + name];
    before = name!.slice(0, name!.lastIndexOf('.'));
    const [, stem, list] = /^(.*)\{(.*)\}$/.exec(name!) ?? [];
    return list === undefined ? [name!] : list.split(', ').map((last) => stem + last);
  });
}

function rows(): [names: string, description: string][] {
  const found = text.matchAll(/^\| (`[^|]*`) \| (?:counter|gauge|timer) \| (.*) \|$/gm);
  return [...found].map(([, names, description]) => [names!, description!]);
}

/** Of the tables of docs/statistics.md, except that of rules. */
export function documentedStatistics(): string[] {
  return rows().flatMap(([names]) => namesIn(names));
}

/** Of the table of rules, whose rows have no kind. */
export function documentedRuleStatistics(): string[] {
  const [, section = ''] = /^### Rules\n(.*?)^##/ms.exec(text) ?? [];
  return [...section.matchAll(/^\| (`[^|]*`) \|/gm)].flatMap(([, names]) => namesIn(names!, ofRule));
}

/** By the name of a statistic with tags: `tag x` or `tags x (its values), y and z` in its row. */
export function documentedTags(): Record<string, string[]> {
  const values = String.raw`(?: \((?:[^()]|\([^()]*\))*\))?`;
  const tags = new RegExp(String.raw`\b[Tt]ags? ((?:(?:, and |, | and )?${'`'}\w+${'`'}${values})+)`, 'g');
  return Object.fromEntries(
    rows().flatMap(([names, description]) => {
      const own = [...description.matchAll(tags)].flatMap(([, list]) =>
        [...list!.replaceAll(new RegExp(values, 'g'), '').matchAll(/`(\w+)`/g)].map(([, tag]) => tag!),
      );
      return own.length === 0 ? [] : namesIn(names).map((name) => [name, own]);
    }),
  );
}
