import type { ExplainedCounter, ExplainedDescriptor } from '../../limiter/operate/explain.ts';
import { algorithmNames, algorithmOf } from '../../rules/algorithms/registry.ts';
import {
  limitsWords,
  limitWords,
  optionalFieldsJson,
  rateWords,
  ruleWords,
  traitsJson,
} from '../../rules/describe.ts';
import { leaseText } from '../../rules/lease.ts';
import { burstOf, type Entry, type Limit, type Rule, unitText } from '../../rules/model.ts';
import { reserveWords } from '../../rules/reserve.ts';
import {
  type ExplainedStep,
  noLimitWords,
  ruleName,
  unfitWords,
} from '../../rules/review/explain-descriptor.ts';
import type { FoundHow, PlacedRule } from '../../rules/review/rule-level.ts';
import { secondsOfLimit, windowTextOf } from '../../rules/window.ts';
import { hintOf } from '../shared/flags.ts';
import type { LoadedSource } from '../shared/read-rule-texts.ts';
import { count, escaped, type TextStyler, timeText } from '../shared/text.ts';
import type { ExplainedRequest, ShownDescriptor } from './explain-request.ts';

const howWords: Record<FoundHow, string> = {
  exact: 'has exactly this value',
  wildcard: 'is the first pattern that matches',
  key: 'has the key and no value',
};
const passedOverWords: Record<FoundHow, string> = {
  exact: 'also matches',
  wildcard: 'is a later pattern that also matches',
  key: 'has the key and no value: tried last',
};

/** A line, and the lines below it. */
interface Branch {
  text: string;
  below?: readonly Branch[];
}

function treeLines(branches: readonly Branch[], indent = ''): string[] {
  return branches.flatMap(({ text, below = [] }, index) => {
    const [here, on] = index === branches.length - 1 ? ['└─ ', '   '] : ['├─ ', '│  '];
    return [indent + here + text, ...treeLines(below, indent + on)];
  });
}

/** Chosen: people rarely read more rules of a level. */
const maxPassedOver = 5;

/** Writes an explanation for people, with a tree for each descriptor. */
export class ExplainReport {
  readonly #sources: readonly LoadedSource[];
  readonly #painter: TextStyler;
  readonly #defaultLease: number;
  /** Colored texts. A line has their numbers, because foreign text may hold colors, too. */
  readonly #painted: string[] = [];

  /** `defaultLease` applies to rules without a lease of their own. */
  constructor(sources: readonly LoadedSource[], paint: TextStyler, defaultLease: number) {
    this.#sources = sources;
    this.#painter = paint;
    this.#defaultLease = defaultLease;
  }

  text(domain: string, request: ExplainedRequest): string {
    const { hasDomain, domains, descriptors } = request;
    // An override also limits requests of a domain without rules.
    if (!hasDomain && descriptors.every(({ effect }) => effect === 'none')) {
      const lines = [`no rules for the domain '${domain}': every request is OK${hintOf(domain, domains)}`];
      const known = domains.slice(0, 10).join(', ') + (domains.length > 10 ? ' ...' : '');
      if (known !== '') lines.push(`  there are rules for: ${known}`);
      return this.#printed(lines);
    }
    const lines = descriptors.flatMap((one) => [
      this.#paint('bold', `${domain}: ${one.entries.map(entryText).join(', ')}`),
      ...treeLines(this.#branches(one)),
    ]);
    return this.#printed(lines);
  }

  #paint(style: Parameters<TextStyler>[0], text: string): string {
    return `\0${this.#painted.push(this.#painter(style, escaped(text))) - 1}\0`;
  }

  /** Escapes foreign text in lines. Only the colors of this report act on the terminal. */
  #printed(lines: readonly string[]): string {
    const shown = lines.map((line) => {
      const parts = line.split(/\0(\d+)\0/);
      const texts = parts.map((part, index) =>
        index % 2 === 0 ? escaped(part) : this.#painted[Number(part)],
      );
      return `${texts.join('')}\n`;
    });
    return shown.join('');
  }

  #branches(descriptor: ShownDescriptor): Branch[] {
    const { explanation, effect, counters, overrides = [], inForce } = descriptor;
    const { steps, outcome } = explanation;
    const levels = steps.map((step, index) => this.#step(index, step));
    const over = overrides.map((words) => ({ text: this.#paint('yellow', words) }));
    if (inForce !== undefined && effect !== 'none')
      return [...levels, ...over, this.#overridden(descriptor, inForce)];
    const text = this.#paint(effect === 'limited' ? 'green' : 'yellow', this.#result(descriptor));
    if (outcome.kind !== 'found') return [...levels, ...over, { text }];
    const { rule } = outcome.placed;
    const leases = effect === 'limited' ? this.#leases(rule, counters[0]!.maxLease) : [];
    const reserved =
      effect === 'limited' && rule.reserve ? [{ text: `reserve: ${reserveWords(rule.reserve)}` }] : [];
    return [
      ...levels,
      ...over,
      { text, below: [...limitBranches(rule.limits, counters), ...leases, ...reserved] },
    ];
  }

  /** Returns the branches for the rule's limits with an override. */
  #overridden(
    { effect, counters }: ShownDescriptor,
    inForce: NonNullable<ShownDescriptor['inForce']>,
  ): Branch {
    if (effect !== 'limited')
      return { text: this.#paint('yellow', 'unlimited: the answer is OK, nothing is counted') };
    if (inForce.every(({ words }) => words === 'blocked'))
      return { text: this.#paint('yellow', 'blocked: the answer is OVER_LIMIT, nothing is counted') };
    const [only, ...others] = inForce;
    if (others.length > 0)
      return {
        text: this.#paint(
          'green',
          `${inForce.length} limits: a request over any of them counts against none`,
        ),
        below: inForce.map(({ words, key }) => ({ text: words, below: [{ text: `counter key: ${key}` }] })),
      };
    const [counter] = counters;
    return {
      text: this.#paint('green', `limit: ${only!.words}`),
      below:
        counters.length === 1
          ? counterBranches(counter!.limit, counter!)
          : [{ text: `counter key: ${only!.key}` }],
    };
  }

  #step(index: number, { entry, found, passedOver, near, others, levelSize }: ExplainedStep): Branch {
    const level = `level ${index + 1}, ${entryText(entry)}:`;
    const none = `${count(levelSize, 'rule')} checked`;
    const text =
      found === undefined
        ? `${level} no rule matches (${none})`
        : `${level} ${this.#ruleText(found.placed)} ${howWords[found.how]}`;
    const unfit = (word: string, placed: PlacedRule) => ({
      text: `${word}: ${this.#ruleText(placed)}, ${unfitWords(placed, entry)}`,
    });
    const below = [
      ...passedOver.slice(0, maxPassedOver).map(({ placed, how }) => ({
        text: `passed over: ${this.#ruleText(placed)} ${passedOverWords[how]}`,
      })),
      ...near.map((placed) => unfit(found?.how === 'exact' ? 'not' : 'similar', placed)),
      ...others.map((placed) => unfit('not', placed)),
    ];
    const more = levelSize - below.length - (found === undefined ? 0 : 1);
    if (more > 0) below.push({ text: `and ${count(more, 'more rule')}` });
    return { text, below };
  }

  #result({ explanation: { outcome }, effect }: ExplainedDescriptor): string {
    if (outcome.kind !== 'found') return `no limit: ${noLimitWords(outcome)}; the answer is OK`;
    const { rule } = outcome.placed;
    const [limit, ...others] = rule.limits;
    if (limit!.unlimited) return 'unlimited: the answer is OK, nothing is counted';
    const modes = [...ruleWords(rule), ...(others.length > 0 ? [] : namesOf(limit!))];
    const more = modes.length === 0 ? '' : ` (${modes.join('; ')})`;
    if (others.length > 0 && effect === 'replaced')
      return "no limit: other descriptors' rules replace all of them";
    if (others.length > 0) {
      return `${rule.limits.length} limits: a request over any of them counts against none${more}`;
    }
    if (effect === 'replaced') {
      return `no limit: another descriptor's rule replaces '${limit!.name}', ${limitWords(limit!)}`;
    }
    return `limit: ${limitWords(limit!)}${more}`;
  }

  #leases({ lease, limits, reserve }: Rule, maxLease: number): Branch[] {
    const share = lease ?? this.#defaultLease;
    if (reserve !== undefined)
      return share === 0 ? [] : [{ text: 'leases: none, because limits with reservations are not leased' }];
    const leaseWords = `up to ${maxLease} hits at a time, so a limiter may report over limit up to ${maxLease} hits too early`;
    if (maxLease > 0) return [{ text: `leases with LEASES=on: ${leaseWords}` }];
    if (lease === 0) return [{ text: 'leases: none, as set in the rule' }];
    if (share === 0) return [];
    const isSmall = limits.length === 1 && algorithmOf(limits[0]!).countsAllHits;
    const small = `${leaseText(share)} of the limit is less than 2 hits`;
    return [
      {
        text: `leases: none, because ${isSmall ? small : 'only fixed windows without other limits are leased'}`,
      },
    ];
  }

  #ruleText(placed: PlacedRule): string {
    const loaded = this.#sources[placed.source];
    const place = loaded?.placeOf([...placed.path, 'key']);
    const words = [limitsWords(placed.rule.limits), ...placeWords(loaded, place?.line)];
    return `${this.#paint('cyan', ruleName(placed))} (${words.join(', ')})`;
  }
}

/** Returns a branch for each limit of a rule, or only the counter if the rule has one limit. */
function limitBranches(limits: readonly Limit[], counters: readonly ExplainedCounter[]): Branch[] {
  const all = counters.map((counter, index) => ({
    text: limitOfSeveral(limits[index]!, counter),
    below: counter.isReplaced ? [] : counterBranches(limits[index]!, counter),
  }));
  return limits.length > 1 ? all : (all[0]?.below ?? []);
}

function counterBranches(limit: Limit, { key, metric, window }: ExplainedCounter): Branch[] {
  const where =
    window === undefined
      ? `${steadyWords(limit)}, by the clock of the store`
      : `window: ${timeText(1000 * window.startSeconds)} to ${timeText(1000 * window.endSeconds)}`;
  return [`counter key: ${key}`, where, `metric: ${metric}`].map((text) => ({ text }));
}

/** Returns for example `name n`, `replaces a, b`. */
function namesOf({ name, replaces }: Limit): string[] {
  return [
    ...(name === '' ? [] : [`name ${name}`]),
    ...(replaces.length === 0 ? [] : [`replaces ${replaces.join(', ')}`]),
  ];
}

function limitOfSeveral(limit: Limit, { isReplaced }: ExplainedCounter): string {
  if (isReplaced)
    return `${limitWords(limit)}: not applied, another descriptor's rule replaces '${limit.name}'`;
  const names = namesOf(limit);
  return `${limitWords(limit)}${names.length === 0 ? '' : ` (${names.join('; ')})`}`;
}

/** Returns the words for a limit whose counter never ends. */
function steadyWords(limit: Limit): string {
  const window = windowTextOf(limit);
  return algorithmOf(limit).steady!.words({ window, rate: rateWords(limit), burst: burstOf(limit) });
}

/** Returns the place of a rule: a line, or the object. */
function placeWords(loaded: LoadedSource | undefined, line: number | undefined): string[] {
  if (line !== undefined) return [`${loaded!.file}:${line}`];
  return loaded?.object === undefined ? [] : [loaded.source.name];
}

export function entryText({ key, value }: Entry): string {
  return `${key}=${/[,"]/.test(value) ? JSON.stringify(value) : value}`;
}

/** Formats an explanation for programs. */
export function explanationValue(
  domain: string,
  request: ExplainedRequest,
  sources: readonly LoadedSource[],
  bucket?: string,
): object {
  const { hasDomain, domains } = request;
  const descriptors = request.descriptors.map((one) => descriptorJson(one, sources));
  return { domain, hasDomain, domains, bucket, descriptors };
}

/** If a rule has one limit, its fields are beside those of the rule, as before rules could have several limits. */
function descriptorJson(
  { entries, explanation: { steps, outcome }, effect, counters, overrides, inForce }: ShownDescriptor,
  sources: readonly LoadedSource[],
): object {
  const limits = counters.map(({ limit, isReplaced, key, metric, window, maxLease }) => ({
    name: limit.name,
    window: windowTextOf(limit),
    windowSeconds: limit.calendar === undefined ? secondsOfLimit(limit) : undefined,
    requestsPerUnit: limit.requestsPerUnit,
    ...optionalFieldsJson(limit),
    algorithm: algorithmNames[limit.algorithm],
    burst: algorithmOf(limit).hasBurst ? burstOf(limit) : undefined,
    maxLease,
    replaced: isReplaced,
    counterKey: key,
    windowStart: window?.startSeconds,
    windowEnd: window?.endSeconds,
    metric,
  }));
  const [one, ...others] = limits;
  const only = others.length === 0 ? one : undefined;
  return {
    entries,
    effect,
    reason: outcome.kind === 'found' ? undefined : { kind: outcome.kind, text: noLimitWords(outcome) },
    rule: outcome.kind === 'found' ? ruleJson(outcome.placed, sources) : undefined,
    replacedName: only?.replaced === true ? only.name : undefined,
    limits,
    counterKey: only?.counterKey,
    windowStart: only?.windowStart,
    windowEnd: only?.windowEnd,
    metric: only?.metric,
    overrides,
    inForce: inForce?.map(({ words }) => words),
    levels: steps.map((step) => stepJson(step, sources)),
  };
}

function stepJson(
  { entry, found, passedOver, near, levelSize }: ExplainedStep,
  sources: readonly LoadedSource[],
): object {
  return {
    entry,
    found: found && { ...ruleJson(found.placed, sources), how: found.how },
    passedOver: passedOver.map(({ placed, how }) => ({ ...ruleJson(placed, sources), how })),
    near: near.map((placed) => ruleJson(placed, sources)),
    rulesOnLevel: levelSize,
  };
}

function ruleJson(placed: PlacedRule, sources: readonly LoadedSource[]): object {
  const loaded = sources[placed.source];
  const place = loaded?.placeOf([...placed.path, 'key']);
  const { key, value, limits } = placed.rule;
  return {
    name: ruleName(placed),
    key,
    value,
    ...(limits.length > 1 ? { rateLimits: limits.map(limitJson) } : { rateLimit: limits.map(limitJson)[0] }),
    ...traitsJson(placed.rule),
    object: loaded?.object && loaded.source.name,
    ...(place === undefined ? {} : { file: loaded?.file, line: place.line, column: place.column }),
  };
}

function limitJson(limit: Limit): object {
  return { ...limit, unit: unitText(limit).toLowerCase(), algorithm: algorithmNames[limit.algorithm] };
}
