import { readFileSync } from 'node:fs';

/** Of the first column of the tables of docs/statistics.md: `a.b`, then `.c` for `a.c`, and `a.{b, c}` for both. */
export function documentedStatistics(): string[] {
  const text = readFileSync(new URL('../../docs/statistics.md', import.meta.url), 'utf8');
  const cells = [...text.matchAll(/^\| (`[^|]*`) \| (?:counter|gauge|timer) \|/gm)].map(([, cell]) => cell!);
  return cells.flatMap((cell) => {
    let prefix = '';
    return [...cell.matchAll(/`([^`]+)`/g)].flatMap(([, name]) => {
      if (name!.startsWith('.')) return [prefix + name];
      prefix = name!.slice(0, name!.lastIndexOf('.'));
      const [, stem, list] = /^(.*)\{(.*)\}$/.exec(name!) ?? [];
      return list === undefined ? [name!] : list.split(', ').map((last) => stem + last);
    });
  });
}
