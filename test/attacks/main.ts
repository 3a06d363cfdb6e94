/** `npm run attacks`: every attack against a limiter of its own; the help has the flags. */
import { randomInt } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';

import { withTable } from '../faults/fault-table.ts';
import { defineFlags, scriptFlags } from '../support/script-flags.ts';
import { allAttacks } from './all-attacks.ts';
import type { Attack } from './attack.ts';
import {
  Attacker,
  type AttackFigures,
  AttackSite,
  bounds,
  limitMiB,
  missingFor,
  problemsOf,
} from './attack-run.ts';

const options = scriptFlags(
  defineFlags({
    help: `Usage: npm run attacks -- [--only <name>]... [--seconds <n>] [--seed <n>] [--list] [--write]

Attacks a limiter as strangers would, on loopback, with a client beside it that does no harm. Each attack has a limiter
of its own, with ${limitMiB} MiB of memory where a cgroup can be made (as root, as a rule); without, its memory is looked
at all the same. Needs redis-server, memcached, openssl, envoy, nginx, caddy and haproxy.

  --only <name>   this attack and no other; may be repeated
  --seconds <n>   1 to 600 for each attack (default 5)
  --seed <n>      of what an attack draws by chance, 1 to 2147483647 (default: another one each time)
  --list          what there is, and no attack
  --write         writes the table into docs/attacks.md, when every attack was run

Of each: memory that is resident before and at most, the slowest answer that the good client got, without the time in
which the machine gave it or the limiter no core, and what the attacker got. Wrong is: ${bounds.residentMiB} MiB or more, an answer after
more than ${bounds.worstMs} ms, a refusal of the good client, a limiter that ended, an attack that reached what it was made for, and an attack
that did not take place as a whole.
Exit status: 0 when nothing was wrong, 1 when something was, 2 for a wrong command line or a program that is missing.
`,
    rows: {
      only: { type: 'strings' },
      seconds: { type: 'number', min: 1, max: 600, default: 5 },
      seed: { type: 'number', min: 1, max: 2 ** 31 - 1, whole: true, default: randomInt(1, 2 ** 31) },
      list: { type: 'boolean' },
      write: { type: 'boolean' },
    },
  }),
);
const document = new URL('../../docs/attacks.md', import.meta.url);
const known = allAttacks.map(({ name }) => name);
const unknown = options.only.filter((name) => !known.includes(name));
const chosen = allAttacks.filter(({ name }) => options.only.length === 0 || options.only.includes(name));
const missing = [...new Set(chosen.flatMap(missingFor))];
if (options.list) {
  for (const { name, what } of allAttacks) console.log(`${name}: ${what}`);
} else if (unknown.length > 0 || missing.length > 0) {
  if (unknown.length > 0)
    console.error(`no such attack: ${unknown.join(', ')}; there are: ${known.join(', ')}`);
  for (const program of missing) console.error(program);
  process.exitCode = 2;
} else {
  await attackAll();
}

async function attackAll(): Promise<void> {
  const rows: string[] = [];
  let withstood = 0;
  console.log(`attacks: seed ${options.seed}, ${chosen.length} attacks`);
  for (const attack of chosen) {
    try {
      const figures = await attackOne(attack, rows.length === 0);
      rows.push(tableRow(attack.what, figures));
      const problems = problemsOf(figures);
      console.log(reported(attack.name, figures));
      for (const problem of problems) console.log(`  NOT AS IT MUST BE: ${problem}`);
      if (problems.length === 0) withstood += 1;
    } catch (error) {
      console.log(`${attack.name}: COULD NOT BE RUN: ${(error as Error).message}`);
    }
  }
  console.log(`withstood ${withstood} of ${chosen.length} attacks`);
  process.exitCode = withstood === chosen.length ? 0 : 1;
  if (!options.write) return;
  if (rows.length < allAttacks.length)
    return console.error('docs/attacks.md stays as it is: rows are missing');
  const table = [
    `${chosen.length} attacks of ${options.seconds} s, on ${cpus().length} cores (${cpus()[0]?.model ?? 'unknown'}), Node ${process.version}:`,
    '',
    '| attack | MiB before | maximum MiB | slowest answer, ms | what the attacker got |',
    '|---|---:|---:|---:|---|',
    ...rows,
    '',
  ];
  writeFileSync(document, withTable(readFileSync(document, 'utf8'), table.join('\n'), 'attacks'));
}

async function attackOne(attack: Attack, isFirst: boolean): Promise<AttackFigures> {
  const attacker = new Attacker();
  const site = await AttackSite.open(attack, attacker);
  try {
    if (isFirst && site.unlimited !== undefined)
      console.error(`WITHOUT A LIMIT ON MEMORY: ${site.unlimited}`);
    return await site.attack(attack, {
      seconds: options.seconds,
      scale: 1,
      quietMs: 500,
      seed: options.seed,
    });
  } finally {
    await site.close();
    await attacker.close();
  }
}

function reported(name: string, { beforeMiB, maxMiB, quiet, good, attacker }: AttackFigures): string {
  const memory = `${beforeMiB.toFixed(0)} to ${maxMiB.toFixed(0)} MiB`;
  const seen = `${good.worstAsSeenMs.toFixed(0)} as seen, ${quiet.worstMs.toFixed(0)} before`;
  const slowest = `slowest ${good.worstMs.toFixed(0)} ms (${good.worstOf}; ${seen})`;
  return `${name}: ${memory}, ${slowest}, ${good.answered} answered, ${good.failed} failed; attacker: ${attacker.got}`;
}

function tableRow(what: string, { beforeMiB, maxMiB, good, attacker }: AttackFigures): string {
  const cells = [what, beforeMiB.toFixed(0), maxMiB.toFixed(0), Math.ceil(good.worstMs), attacker.got];
  return `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`;
}
