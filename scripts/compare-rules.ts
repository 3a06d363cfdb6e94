/**
 * `npx node scripts/compare-rules.ts FOLDER [COUNT] [SEED]`: has generated and mutated rule files and manifests read by `rules/` of
 * this checkout and by that of another one, and lists the first that are read, reviewed, written, encoded, matched or compared in
 * another way. For changes of readers and writers that are to change nothing.
 */

import { createHash } from 'node:crypto';
import { globSync } from 'node:fs';
import { join, resolve } from 'node:path';
import fc from 'fast-check';
import type { compareSources } from '../cli/diff/compare-domain.ts';
import type { resourcesToJson } from '../cli/shared/json-resources.ts';
import type { readRuleTexts } from '../cli/shared/read-rule-texts.ts';
import { yamlText } from '../cli/shared/yaml-text.ts';
import type { describeRule, limitsWords, limitTexts, ruleWords } from '../rules/describe.ts';
import { fields, manifestWords } from '../rules/language/tables.ts';
import type { RuleSource } from '../rules/model.ts';
import type { decodeResource, encodeResource } from '../rules/reader/resource.ts';
import type { placedWarnings } from '../rules/review/review-sources.ts';
import type { compileRules } from '../rules/table/compile-rules.ts';
import type { RuleTable } from '../rules/table/rule-table.ts';
import { manifestValue, ruleFileValue } from '../rules/write-rules.ts';
import { Random } from '../test/fuzz/random.ts';
import { anyRules } from '../test/support/rule-arbitraries.ts';
import { projectRoot } from './commands.ts';

/** Found by their names, whatever file of a checkout has them. */
interface Rules {
  readRuleTexts: typeof readRuleTexts;
  placedWarnings: typeof placedWarnings;
  ruleFileValue: typeof ruleFileValue;
  manifestValue: typeof manifestValue;
  encodeResource: typeof encodeResource;
  decodeResource: typeof decodeResource;
  resourcesToJson: typeof resourcesToJson;
  compileRules: typeof compileRules;
  RuleTable: typeof RuleTable;
  compareSources: typeof compareSources;
  describeRule: typeof describeRule;
  limitTexts: typeof limitTexts;
  limitsWords: typeof limitsWords;
  ruleWords: typeof ruleWords;
}

async function rulesOf(folder: string): Promise<Rules> {
  const paths = globSync(['rules/**/*.ts', 'cli/{diff,shared}/*.ts'], { cwd: folder }).filter(
    (path) => !path.endsWith('.test.ts'),
  );
  const modules = await Promise.all(paths.map((path) => import(join(folder, path))));
  return Object.assign({}, ...modules);
}

const scalars =
  `null|~|[]|{}|-1|1.5|0|7|4294967296|9007199254740993|99999999999999999999|true|off|minute|MONTH|fortnight|sliding_window|` +
  `TokenBucket|tokens|MicroDollars|2%|200%|1h30m|3.5h|"*"|a*|'10.0.0.0/8'|charge|Charge|Europe/Zurich|monday|60s|[80, 50]|[a]|` +
  `[{name: a}]|{unit: minute, requests_per_unit: 5}|{unit: minute, requestsPerUnit: 5}|!!str 5|!!int x|&a 5|*a|"\\x00"|é`;
const values = ['', ...scalars.split('|')];
const names = [...fields.keys(), 'kye', '<<'].flatMap((name) => [name, manifestWords(name)]);

/** One line left out, doubled, changed, added or moved. */
function mutated(text: string, random: Random): string {
  const pick = (list: readonly string[]) => list[random.below(list.length)]!;
  const lines = text.split('\n');
  const at = random.below(lines.length);
  const line = lines[at]!;
  const changes = [
    [],
    [line, line],
    [line.replace(/:.*$/, () => `: ${pick(values)}`)],
    [line.replace(/[\w-]+(?=:)/, () => pick(names))],
    [line, `${/^[\s-]*/.exec(line)![0].replaceAll('-', ' ')}${pick(names)}: ${pick(values)}`],
    [pick(lines)],
  ];
  return lines.toSpliced(at, 1, ...changes[random.below(changes.length)]!).join('\n');
}

function textsOf(count: number, seed: number): string[] {
  const random = new Random(seed);
  return fc.sample(anyRules, { numRuns: count, seed }).map((descriptors, index) => {
    const source = { domain: 'shop', descriptors };
    const identity = { name: 'x', namespace: undefined, labels: {}, fleet: 'default' };
    let text = yamlText(index % 3 === 0 ? manifestValue(source, identity) : ruleFileValue(source));
    for (let left = random.below(2) * random.below(4); left > 0; left--) text = mutated(text, random);
    return text;
  });
}

/** Everything that is said of a text. `before`: the sources of the text before it. */
function saidOf(rules: Rules, text: string, before: RuleSource[]): { said: string; sources: RuleSource[] } {
  const parts: unknown[] = [];
  const add = (make: () => unknown): void => {
    try {
      parts.push(make());
    } catch (error) {
      parts.push(String(error));
    }
  };
  const reading = rules.readRuleTexts([{ path: 'f', text }], { mergeDomains: false });
  const sources = reading.sources.map(({ source }) => source);
  parts.push(
    // Checkouts from before have neither list. Reviews are compared below.
    { ...reading, reviewable: undefined, unreviewed: undefined },
    reading.sources.map((one) => one.placeOf(['descriptors', 0, 'rate_limit', 'unit'])),
  );
  add(() => rules.placedWarnings(reading.sources));
  add(() => rules.resourcesToJson(sources));
  add(() => rules.compareSources(before, sources, 'default'));
  add(() => {
    const table = new rules.RuleTable(rules.compileRules(sources));
    return [...table.rlconfigLines(), ...table.ruleFileLines()];
  });
  for (const source of sources) {
    add(() => rules.ruleFileValue(source));
    add(() => rules.manifestValue(source, { name: 'x', namespace: 'y', labels: {}, fleet: 'z' }));
    add(() => rules.decodeResource(rules.encodeResource(source)));
    add(() => Buffer.from(rules.encodeResource(source)).toString('hex'));
    for (const rule of source.descriptors)
      add(() => [
        rules.describeRule(rule),
        rules.limitTexts(rule.limits),
        rules.limitsWords(rule.limits),
        rules.ruleWords(rule),
      ]);
  }
  return { said: JSON.stringify(parts), sources };
}

async function main(): Promise<void> {
  const [folder, count = '10000', seed = '1'] = process.argv.slice(2);
  if (folder === undefined) throw new Error('say the folder of the other checkout, with its node_modules');
  const [ours, theirs] = await Promise.all([rulesOf(projectRoot), rulesOf(resolve(folder))]);
  let [ourBefore, theirBefore]: [RuleSource[], RuleSource[]] = [[], []];
  let [accepted, different] = [0, 0];
  const hash = createHash('sha256');
  for (const text of textsOf(Number(count), Number(seed))) {
    const one = saidOf(ours, text, ourBefore);
    const other = saidOf(theirs, text, theirBefore);
    [ourBefore, theirBefore] = [one.sources, other.sources];
    hash.update(one.said);
    if (one.sources.length > 0) accepted++;
    if (one.said !== other.said && different++ < 3) console.log(`${text}\n${one.said}\n${other.said}\n`);
  }
  console.log(
    `${count} texts, ${accepted} accepted, ${different} different; ${hash.digest('hex').slice(0, 16)}`,
  );
  process.exitCode = different === 0 ? 0 : 1;
}

await main();
