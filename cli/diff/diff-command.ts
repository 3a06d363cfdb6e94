import { compareSources } from '../../rules/compare/compare-domain.ts';
import type { RuleChange } from '../../rules/compare/limit-effect.ts';
import type { LoadedSource } from '../../rules/loaded-source.ts';
import { defaultClass, defaultFleet } from '../../rules/manifest/manifest-bounds.ts';
import { commandOf, paintFor, UsageError } from '../shared/flags.ts';
import { dataText, outputFlag, outputFormat } from '../shared/output.ts';
import { printClashes, printInputErrors, readInputOrUrl } from '../shared/read-input.ts';
import { diffJson, diffText, effectOrder } from './diff-report.ts';

/** What `--fail-on` may name: effects, and the two ways of being looser that let everything pass. */
const failingWords = [...effectOrder, 'unlimited', 'shadow'] as const;

/**
 * Reads `--fail-on gone,unlimited`; `none` alone is an empty set. Undefined when the flag is not there.
 * @throws UsageError
 */
export function failingEffects(values: readonly string[]): ReadonlySet<string> | undefined {
  if (values.length === 0) return undefined;
  const words = values.flatMap((value) => value.split(',')).map((word) => word.trim());
  if (words.length === 1 && words[0] === 'none') return new Set();
  for (const word of words) {
    if (failingWords.some((known) => known === word)) continue;
    throw new UsageError(
      `--fail-on: there is no effect "${word}"; it takes ${failingWords.join(', ')}, or none`,
    );
  }
  return new Set(words);
}

/** Changes of which one is among the effects. */
export function failingChanges(
  changes: readonly RuleChange[],
  effects: ReadonlySet<string>,
): readonly RuleChange[] {
  return changes.filter((change) => wordsOf(change).some((word) => effects.has(word)));
}

/** What `--fail-on` may call a change, the most telling word first. */
function wordsOf({ effect, effects, passes }: RuleChange): string[] {
  return [...passes, effect, ...effects];
}

/** `2 changes that --fail-on names: shop: remote_address (gone), ...`. */
export function failureText(changes: readonly RuleChange[], named: ReadonlySet<string>): string {
  const shown = changes.slice(0, 5).map((change) => {
    const word = wordsOf(change).find((one) => named.has(one));
    return `${change.domain}: ${change.rule.join(' > ')} (${word})`;
  });
  const more = changes.length > shown.length ? ', ...' : '';
  const noun = changes.length === 1 ? 'change' : 'changes';
  return `failed: ${changes.length} ${noun} that --fail-on names: ${shown.join(', ')}${more}`;
}

const help = `Usage: weir diff <old> <new> [flags]

Compares two sets of rules: which are added, removed, changed or moved, and what each change means for requests. Either
may be a file, a folder, - for standard input, a pipe, or the debug listener of a running limiter
(http://host:6070/rlconfig); a rule file may be compared with a manifest. An empty file, /dev/null for one, has no rules.

  --class <name>           compare the manifests of this class alone (default: those of each class with each other)
  --merge-domain-configs   several files may name one domain, as with MERGE_DOMAIN_CONFIG=true
  --fail-on <effect>[,...] status 1 for changes of these effects alone; none: for no change
  -o, --output <form>      how to print the changes: table (default), json or yaml

  weir diff <(git show main:rules/shop.yaml) rules/shop.yaml
  weir diff http://localhost:6070/rlconfig rules/
  weir diff --fail-on gone,unlimited,shadow old/rules rules/

Effects: new (limited, and were not), stricter, mixed, looser, gone (no longer limited), same (other names at most).
--fail-on knows two more, which are looser, too: unlimited, and shadow (in shadow mode, which refuses nothing).
Exit status: 0 without changes, 1 with changes (with --fail-on: with those that it names), 2 for a wrong command line,
or rules that cannot be read.
`;

export const diffCommand = commandOf(
  help,
  {
    class: { type: 'string' },
    'merge-domain-configs': { type: 'boolean' },
    'fail-on': { type: 'string', multiple: true },
    ...outputFlag,
  },
  async (flags) => {
    const format = outputFormat(flags);
    const failing = failingEffects(flags.list('fail-on'));
    const [oldPath, newPath, stray] = flags.positionals;
    if (oldPath === undefined || newPath === undefined || stray !== undefined) {
      throw new UsageError(`diff takes two sets of rules, not ${flags.positionals.length}`);
    }
    if (oldPath === '-' && newPath === '-') throw new UsageError('only one of the two can be standard input');
    const options = { mergeDomains: flags.on('merge-domain-configs'), mayBeEmpty: true };
    const before = await readInputOrUrl(oldPath, options);
    const after = await readInputOrUrl(newPath, options);
    // An empty set of rules is one: what is compared with it is all new, or all gone.
    if ([before, after].some((input) => input.errorCount > 0 && printInputErrors(input))) return 2;
    const loads = loadsOf(before.sources, after.sources, flags.text('class'));
    if (loads.flatMap((load) => [load.before, load.after]).some((side) => printClashes(side, options)))
      return 2;
    const changes = loads.flatMap(changesOf);
    const paint = paintFor(process.stdout);
    process.stdout.write(format === 'text' ? diffText(changes, paint) : dataText(diffJson(changes), format));
    const failures = failing === undefined ? changes : failingChanges(changes, failing);
    if (failing !== undefined && failures.length > 0)
      process.stderr.write(`${failureText(failures, failing)}\n`);
    return failures.length === 0 ? 0 : 1;
  },
);

/** What limiters of one fleet of one class load, before and after. */
interface ComparedLoad {
  /** Undefined where there is one class only. */
  className: string | undefined;
  fleet: string;
  before: LoadedSource[];
  after: LoadedSource[];
}

/** What names no class is for the only one that there is, else for the default one; what names no fleet for the default one. */
function loadsOf(
  before: readonly LoadedSource[],
  after: readonly LoadedSource[],
  chosen: string | undefined,
): ComparedLoad[] {
  const classes = new Set([...before, ...after].flatMap((one) => chosen ?? one.className ?? []));
  const [only = defaultClass] = classes.size === 1 ? classes : [];
  const loads = new Map<string, ComparedLoad>();
  for (const side of ['before', 'after'] as const) {
    for (const source of side === 'before' ? before : after) {
      const { className = only, fleet = defaultFleet } = source;
      if (chosen !== undefined && className !== chosen) continue;
      const key = `${className} ${fleet}`;
      const fresh = { className: classes.size > 1 ? className : undefined, fleet, before: [], after: [] };
      const load = loads.get(key) ?? fresh;
      loads.set(key, load);
      load[side].push(source);
    }
  }
  return [...loads.values()];
}

function changesOf({ className, fleet, before, after }: ComparedLoad): RuleChange[] {
  const [was, is] = [before, after].map((sources) => sources.map(({ source }) => source));
  const changes = compareSources(was!, is!, fleet);
  return className === undefined ? changes : changes.map((change) => ({ className, ...change }));
}
