/**
 * `npx node scripts/compare-rules.ts`: reads generated and mutated rule files and manifests with `rules/`
 * of this checkout and of another one. Lists the first texts whose rules are read, written, encoded or listed differently, and
 * the messages that differ. `reworded-rule-messages.json` has messages that were reworded on purpose. Use it for changes of
 * readers and writers that must not change the result.
 */

import { globSync, readFileSync } from 'node:fs';
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
import { defineFlags, FlagError, scriptFlags } from '../test/support/script-flags.ts';
import { projectRoot } from './commands.ts';

/** The functions of a checkout. They are found by their names, in any file. */
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

/** Returns the text with one line left out, doubled, changed, added or moved. */
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

/** The results of a checkout for one text. */
interface Answers {
  sources: RuleSource[];
  /** The rules in force: written, encoded and listed. Each part is JSON. */
  results: string[];
  /** All texts that describe the rules, and their differences from the previous rules. */
  words: string[];
  /** Errors and warnings, with their lines. */
  messages: string[];
}

/** `before`: the sources of the previous text, if their descriptions are compared. */
function answersTo(rules: Rules, text: string, before: RuleSource[] | undefined): Answers {
  const attempt = (make: () => unknown): string => {
    try {
      return JSON.stringify(make());
    } catch (error) {
      return String(error);
    }
  };
  const reading = rules.readRuleTexts([{ path: 'f', text }], { mergeDomains: false });
  const sources = reading.sources.map(({ source }) => source);
  const messages = [...reading.errors, ...reading.warnings, ...rules.placedWarnings(reading.sources)];
  const results = [
    attempt(() => reading.sources.map((one) => one.placeOf(['descriptors', 0, 'rate_limit', 'unit']))),
    attempt(() => rules.resourcesToJson(sources)),
    attempt(() => new rules.RuleTable(rules.compileRules(sources)).rlconfigLines()),
  ];
  const words = before === undefined ? [] : textsIn(rules.compareSources(before, sources, 'default'));
  for (const source of sources) {
    results.push(
      attempt(() => rules.ruleFileValue(source)),
      attempt(() => rules.manifestValue(source, { name: 'x', namespace: 'y', labels: {}, fleet: 'z' })),
      attempt(() => Buffer.from(rules.encodeResource(source)).toString('hex')),
    );
    if (before === undefined) continue;
    results.push(attempt(() => rules.decodeResource(rules.encodeResource(source))));
    for (const rule of source.descriptors)
      words.push(
        ...textsIn([
          rules.describeRule(rule),
          rules.limitTexts(rule.limits),
          rules.limitsWords(rule.limits),
          rules.ruleWords(rule),
        ]),
      );
  }
  return {
    sources,
    results,
    words,
    messages: messages.map(({ text: message, line }) => `${line ?? '?'}: ${message}`),
  };
}

/** Returns all texts within a JSON value. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

/** Returns the text without lines whose keys only one checkout knows, so that the rest can be compared. */
function withoutNewKeys(ours: Rules, theirs: Rules, text: string): string {
  const unknownKeys = (rules: Rules): string[] => {
    const { errors } = rules.readRuleTexts([{ path: 'f', text }], { mergeDomains: false });
    return errors
      .filter(({ code }) => code === 'unknown-key')
      .map(({ line, text: message }) => `${line} ${message}`);
  };
  const newKeys = new Set(unknownKeys(theirs)).difference(new Set(unknownKeys(ours)));
  const newLines = new Set([...newKeys].map((key) => Number.parseInt(key, 10)));
  const lines = text.split('\n').filter((_, index) => !newLines.has(index + 1));
  return newLines.size === 0 ? text : withoutNewKeys(ours, theirs, lines.join('\n'));
}

/** `reworded-rule-messages.json`: messages that were reworded on purpose since commit 5160959b, as regular expressions. */
interface Reworded {
  /** Pairs of the words before and after. */
  reworded: [before: string, after: string][];
  /** Messages that are new. */
  added: string[];
  /** Messages that are no longer reported beside another error, from which they follow. */
  omitted: string[];
}

function readReworded(): Reworded {
  return JSON.parse(readFileSync(join(import.meta.dirname, 'reworded-rule-messages.json'), 'utf8'));
}

/** Returns a template, which is the same for messages that differ only in names and numbers. */
function templateOf(message: string): string {
  return message
    .replace(/^[\d?]+: /, '')
    .replace(/'(?:[^']|'s)*'/g, "'…'")
    .replaceAll(/\d+/g, 'N')
    .replaceAll(/(?:\.?descriptors\[N\])+/g, '.descriptors[N]');
}

const flags = defineFlags({
  help: `Usage: npx node scripts/compare-rules.ts <folder> [flags]

Compares how this checkout and the one in the folder, with its node_modules, read generated rules.

  --count <n>  the number of texts, 1 to 10000000 (default 10000)
  --seed <n>   of the texts, 0 to 2147483647 (default 1)

Exit status: 0 if all results and messages are equal, 1 if some differ, 2 for a wrong command line.
`,
  rows: {
    count: { type: 'number', min: 1, max: 10_000_000, whole: true, default: 10_000 },
    seed: { type: 'number', min: 0, max: 2 ** 31 - 1, whole: true, default: 1 },
  },
  takesWords: true,
  read: (values, [folder, ...others]) => {
    if (folder === undefined || others.length > 0) throw new FlagError('give the folder of one checkout');
    return { ...values, folder };
  },
});

async function main(): Promise<void> {
  const { folder, count, seed } = scriptFlags(flags);
  const [ours, theirs] = await Promise.all([rulesOf(projectRoot), rulesOf(resolve(folder))]);
  const { reworded, added, omitted } = readReworded();
  const rewordings = reworded.map(([before, after]) => [new RegExp(before, 'g'), after] as const);
  const asNow = (text: string): string =>
    rewordings.reduce((words, [before, after]) => words.replace(before, after), text);
  const isNew = (message: string) => added.some((pattern) => new RegExp(pattern, 's').test(message));
  const isOmitted = (message: string) => omitted.some((pattern) => new RegExp(pattern, 's').test(message));
  // Checkouts from before the common description of rules have sources and descriptions in another form.
  let [ourBefore, theirBefore]: [RuleSource[]?, RuleSource[]?] = 'describeRule' in theirs ? [[], []] : [];
  let [accepted, otherResults] = [0, 0];
  const otherWords = new Map<string, number>();
  const note = (words: string) => otherWords.set(words, (otherWords.get(words) ?? 0) + 1);
  for (const generated of textsOf(count, seed)) {
    const text = withoutNewKeys(ours, theirs, generated);
    const one = answersTo(ours, text, ourBefore);
    const other = answersTo(theirs, text, theirBefore);
    if (ourBefore !== undefined) [ourBefore, theirBefore] = [one.sources, other.sources];
    if (one.sources.length > 0) accepted++;
    if (one.results.join('\n') !== other.results.join('\n') && otherResults++ < 3)
      console.log(`${text}\n${one.results.join('\n')}\n${other.results.join('\n')}\n`);
    const words = new Set([...one.messages, ...one.words]);
    const wordsBefore = new Set([...other.messages, ...other.words].map(asNow));
    for (const message of words.difference(wordsBefore))
      if (!isNew(message)) note(`+ ${templateOf(message)}`);
    for (const message of wordsBefore.difference(words))
      if (!(isOmitted(message) && one.sources.length === 0)) note(`- ${templateOf(message)}`);
  }
  for (const [words, times] of [...otherWords].sort(([, a], [, b]) => b - a).slice(0, 40))
    console.log(`${String(times).padStart(6)} ${words}`);
  console.log(
    `${count} texts, ${accepted} accepted: ${otherResults} with other results, ${otherWords.size} other messages`,
  );
  process.exitCode = otherResults + otherWords.size === 0 ? 0 : 1;
}

await main();
