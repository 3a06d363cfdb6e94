/** GET /v1/rules: the rules in force as a tree, each with its counts. POST /v1/explain: the way of a request through the rules. */
import { type ApiCall, ApiProblem, type ApiRoute, checkDomain, shown } from '../../process/http/api-route.ts';
import { limitJson, limitLabel, limitWords, overrideWords } from '../../rules/describe.ts';
import { sanitizeMetricKey } from '../../rules/match-result.ts';
import { type Entry, isObject, type Limit, type Rule } from '../../rules/model.ts';
import { effectWords, type Override, overrideJson, overrideStateByTime } from '../../rules/override.ts';
import { type ExplainedStep, noLimitWords, unknownKeyWords } from '../../rules/review/explain-descriptor.ts';
import { type PlacedRule, placedRules } from '../../rules/review/rule-level.ts';
import { unknownDomainWords } from '../../rules/rule-error.ts';
import type { RuleTable } from '../../rules/table/rule-table.ts';
import type { OverridesFound } from '../decide/override-index.ts';
import { RuleStat } from '../stats/registry/rule-stats.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import {
  type ExplainedDescriptor,
  type ExplainOptions,
  explainDescriptors,
  inForceWords,
} from './explain.ts';
import type { RateSampler } from './rates.ts';

export interface RuleRoutesParts {
  /** The rules in force; undefined until rules are loaded. */
  table(): RuleTable | undefined;
  registry: StatsRegistry;
  sampler: RateSampler;
  nowMs(): number;
  /** The overrides of a descriptor, the strongest first. */
  overrides(domain: string, entries: readonly Entry[]): OverridesFound | undefined;
  /** The settings of the limiter that explanations depend on. */
  explaining: Omit<ExplainOptions, 'domain' | 'descriptors' | 'nowSeconds'>;
}

/** Chosen: for rules beyond this number, the metrics of single request values are not added up. */
const maxVarying = 200;

export function ruleRoutes(parts: RuleRoutesParts): ApiRoute[] {
  return [
    {
      method: 'GET',
      path: '/v1/rules',
      right: 'read',
      parameters: ['domain'],
      answer: async ({ query, actor }) => {
        const domain = query.get('domain');
        if (domain !== null) checkDomain(actor, domain, 'read');
        await parts.registry.refreshAll();
        const table = parts.table();
        const all = table?.domainNames() ?? [];
        if (domain !== null && !all.includes(domain)) {
          throw new ApiProblem(404, `there are no rules for the domain ${shown(domain)}`);
        }
        const domains = domain === null ? all.filter((one) => actor.mayRead(one)) : [domain];
        return { lines: ruleLines(table, domains, new RuleFigures(parts)) };
      },
    },
    {
      method: 'POST',
      path: '/v1/explain',
      right: 'read',
      parameters: [],
      answer: async (call) => ({ body: explain(call, parts) }),
    },
  ];
}

/** A line for each rule, so that other work runs between two slices of a long list. */
function* ruleLines(
  table: RuleTable | undefined,
  domains: readonly string[],
  figures: RuleFigures,
): Generator<string> {
  yield `{"version":${JSON.stringify(table?.contentHash ?? null)},"domains":[`;
  for (const [n, domain] of domains.entries()) {
    yield `${n === 0 ? '' : ','}{"domain":${JSON.stringify(domain)},"rules":[`;
    yield* levelLines(table?.rulesOf(domain) ?? [], [domain], figures, false);
    yield ']}';
  }
  yield ']}';
}

/** `varies`: the metric keys of a rule above contain values of requests. */
function* levelLines(
  rules: readonly Rule[],
  above: readonly string[],
  figures: RuleFigures,
  varies: boolean,
): Generator<string> {
  for (const [n, rule] of rules.entries()) {
    const path = [...above, rule.key];
    const { limits, shadowMode, quotaMode, descriptors } = rule;
    const variesHere = varies || rule.valueToMetric;
    const own = JSON.stringify({
      path: path.join('.'),
      key: rule.key,
      limits: limits.map(ruleLimitJson),
      shadowMode,
      quotaMode,
      ...figures.of(path, limits, variesHere || rule.detailedMetric),
    });
    const begin = `${n === 0 ? '' : ','}${own.slice(0, -1)},"rules":[`;
    if (descriptors.length === 0) yield `${begin}]}`;
    else {
      yield begin;
      yield* levelLines(descriptors, path, figures, variesHere);
      yield ']}';
    }
  }
}

/** Includes a burst only if the rule sets it. */
function ruleLimitJson(limit: Limit): object {
  const { burst = null, unlimited } = limit;
  return { ...limitJson(limit), burst, unlimited, words: limitWords(limit) };
}

interface Figures {
  /** Hits of all requests, and by their answers: each hit is passed or limited. */
  hits: number;
  passed: number;
  limited: number;
  overLimit: number;
  nearLimit: number;
  hitsPerSecond: number;
  limitedPerSecond: number;
  overPerSecond: number;
}

const noFigures: Figures = {
  ...{ hits: 0, passed: 0, limited: 0, overLimit: 0, nearLimit: 0 },
  ...{ hitsPerSecond: 0, limitedPerSecond: 0, overPerSecond: 0 },
};
const nothingCounted = Object.fromEntries(Object.keys(noFigures).map((name) => [name, null])) as Record<
  keyof Figures,
  null
>;

/** The counts of rules, for one question. */
class RuleFigures {
  readonly #parts: Pick<RuleRoutesParts, 'registry' | 'sampler' | 'explaining'>;
  #varying = 0;

  constructor(parts: Pick<RuleRoutesParts, 'registry' | 'sampler' | 'explaining'>) {
    this.#parts = parts;
  }

  /** Null for a rule that counts nothing because it has no limits or is unlimited. */
  of(
    path: readonly string[],
    limits: readonly Limit[],
    varies: boolean,
  ): Figures | Record<keyof Figures, null> {
    if (limits.length === 0 || limits[0]!.unlimited) return nothingCounted;
    const [domain = '', ...segments] = path;
    const undotted = this.#parts.explaining.names.sanitizeDescriptorMetricDots;
    const written = [domain, ...segments.map((one) => (undotted ? one.replaceAll('.', '_') : one))];
    const all = limits.map((limit) => this.#ofLimit(written, limits, limit, varies));
    const sum = (name: keyof Figures): number => all.reduce((total, one) => total + one[name], 0);
    // All limits count the hits of the same requests.
    const { hits, passed, limited, hitsPerSecond, limitedPerSecond } = all[0]!;
    return {
      ...{ hits, passed, limited, overLimit: sum('overLimit'), nearLimit: sum('nearLimit') },
      ...{ hitsPerSecond: rounded(hitsPerSecond), limitedPerSecond: rounded(limitedPerSecond) },
      overPerSecond: rounded(sum('overPerSecond')),
    };
  }

  #ofLimit(path: readonly string[], limits: readonly Limit[], limit: Limit, varies: boolean): Figures {
    const { registry } = this.#parts;
    const label = limits.length === 1 ? [] : [limitLabel(limits, limit)];
    const slot = registry.slotOfRule([...path, ...label].join('.'));
    const figures = this.#sum(slot === undefined ? [] : [slot]);
    if (!varies || ++this.#varying > maxVarying) return figures;
    const more = this.#sum(this.#varyingSlots([...path, ...label]));
    for (const name of Object.keys(figures) as (keyof Figures)[]) figures[name] += more[name];
    return figures;
  }

  /** Slots of metrics whose keys contain values of requests where the rule has a pattern or only a key. */
  #varyingSlots([domain = '', ...segments]: readonly string[]): number[] {
    const parts = segments.map((segment) => {
      const [head = '', ...stars] = sanitizeMetricKey(segment).split('*');
      return escaped(head) + (stars.length > 0 ? '.*' : '(?:_.*)?');
    });
    const pattern = new RegExp(`^${escaped(sanitizeMetricKey(domain))}\\.${parts.join('\\.')}$`, 's');
    return [...this.#parts.registry.detailedMetrics()].flatMap(({ key, slot }) =>
      pattern.test(key) ? [slot] : [],
    );
  }

  #sum(slots: readonly number[]): Figures {
    const { registry, sampler } = this.#parts;
    const figures = { ...noFigures };
    for (const slot of slots) {
      figures.hits += registry.valueOf(slot + RuleStat.totalHits);
      figures.passed += registry.valueOf(slot + RuleStat.passed);
      figures.limited += registry.valueOf(slot + RuleStat.limited);
      figures.overLimit += registry.valueOf(slot + RuleStat.overLimit);
      figures.nearLimit += registry.valueOf(slot + RuleStat.nearLimit);
      const { hitsPerSecond, limitedPerSecond, overPerSecond } = sampler.ofRule(slot);
      figures.hitsPerSecond += hitsPerSecond;
      figures.limitedPerSecond += limitedPerSecond;
      figures.overPerSecond += overPerSecond;
    }
    return figures;
  }
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

function explain(call: ApiCall, { table, nowMs, explaining, overrides }: RuleRoutesParts): object {
  const { domain, entries, atMs } = explainQuestion(call, nowMs());
  const rules = table();
  if (rules === undefined) throw new ApiProblem(503, 'no rules are loaded yet');
  const along = rules.rulesAlong(domain, entries);
  const top = placedRules(along?.rules ?? [], 0, []);
  const over = overrides(domain, entries);
  const all = [...(over?.overrides ?? []), ...(over?.grants ?? [])];
  const options = {
    ...{ ...explaining, domain, descriptors: [entries], overrides: all },
    nowSeconds: Math.floor(atMs / 1000),
  };
  const [explained] = explainDescriptors(rules, top, options);
  const { explanation, effect, counters } = explained!;
  const { outcome } = explanation;
  const found = outcome.kind === 'found' ? outcome.placed.rule : undefined;
  return {
    domain,
    entries,
    hasDomain: rules.hasDomain(domain),
    effect,
    steps: stepsJson(domain, explanation.steps, along?.sizes ?? []),
    rule: found === undefined ? null : { path: pathOf(domain, explanation.steps), ...ruleFacts(found) },
    limits: found === undefined ? [] : found.limits.map(ruleLimitJson),
    override: over?.overrides[0] === undefined ? null : shownOverride(over.overrides[0], found, nowMs()),
    grants: (over?.grants ?? []).map((grant) => shownOverride(grant, found, nowMs())),
    counters: counters.map(({ key }) => key),
    hint: hintFor(call.actor, rules, { domain, entries }, along?.rules) ?? null,
    inForce: effect === 'unlimited' ? ['unlimited'] : counters.map(inForceWords),
    text: textLines(domain, explained!, { hasDomain: rules.hasDomain(domain), over: all.map(overrideLine) }),
  };
}

/** Suggests what may be misspelled: a domain, if the caller may know others, or a key. */
function hintFor(
  actor: ApiCall['actor'],
  rules: RuleTable,
  { domain, entries }: { domain: string; entries: readonly Entry[] },
  top: readonly Rule[] | undefined,
): string | undefined {
  if (top !== undefined) return unknownKeyWords(domain, top, entries);
  return unknownDomainWords(
    domain,
    rules.domainNames().filter((one) => actor.mayRead(one)),
  );
}

function shownOverride(override: Override, rule: Rule | undefined, nowMs: number): object {
  const words = overrideWords(override, rule?.limits ?? []);
  return overrideJson(override, nowMs, { ...overrideStateByTime(override, nowMs), words });
}

function ruleFacts({ key, shadowMode, quotaMode }: Rule): object {
  return { key, shadowMode, quotaMode };
}

function stepsJson(domain: string, steps: readonly ExplainedStep[], sizes: readonly number[]): object[] {
  return steps.map(({ entry, found, near }, index) => ({
    entry,
    looked: [`${entry.key}_${entry.value}`, 'patterns', entry.key].slice(0, lookedAt(found?.how)),
    found: found?.how ?? 'none',
    rule: found === undefined ? null : pathOf(domain, steps.slice(0, index + 1)),
    rulesOnLevel: sizes[index] ?? 0,
    near: near.map(({ rule }) => rule.key),
  }));
}

function lookedAt(how: string | undefined): number {
  return how === 'exact' ? 1 : how === 'wildcard' ? 2 : 3;
}

function pathOf(domain: string, steps: readonly ExplainedStep[]): string {
  return [domain, ...steps.flatMap(({ found }) => found?.placed.rule.key ?? [])].join('.');
}

/** The answer as text. Its last lines are the limits in force. */
function textLines(
  domain: string,
  { explanation: { steps, outcome }, effect, counters }: ExplainedDescriptor,
  { hasDomain, over }: { hasDomain: boolean; over: readonly string[] },
): string[] {
  const limits = counters.map((counter) => `limit: ${inForceWords(counter)}, counter ${counter.key}`);
  if (!hasDomain) {
    const without = effect === 'none' ? ': every request is OK' : '';
    return [`no rules for the domain ${shown(domain)}${without}`, ...over, ...limits];
  }
  const lines = steps.map(({ entry, found }, index) => {
    const level = `level ${index + 1}, ${shown(`${entry.key}=${entry.value}`)}:`;
    if (found === undefined) return `${level} no rule matches`;
    return `${level} ${shown(keyOf(found.placed))} ${howWords[found.how]}`;
  });
  const without = effect === 'none' ? '; the answer is OK' : '';
  const none = outcome.kind === 'found' ? [] : [`no limit: ${noLimitWords(outcome)}${without}`];
  const last = effect === 'unlimited' ? ['unlimited: the answer is OK'] : limits;
  return [...lines, ...none, ...over, ...last];
}

function overrideLine(override: Override): string {
  const { name, effect, source } = override;
  return `override: ${source} ${shown(name)}: ${effectWords(effect)}`;
}

const howWords = {
  exact: 'has exactly this value',
  wildcard: 'is the first pattern that matches',
  key: 'has the key and no value',
} as const;

function keyOf({ rule }: PlacedRule): string {
  return rule.key;
}

/** Chosen: the year 9998, whose windows end in a year of four digits. */
const lastMs = 253_370_764_799_000;

function explainQuestion(
  { body, actor }: ApiCall,
  nowMs: number,
): { domain: string; entries: Entry[]; atMs: number } {
  if (!isObject(body)) throw new ApiProblem(400, 'the body must be an object with domain and entries');
  const stray = Object.keys(body).find((name) => !['domain', 'entries', 'at'].includes(name));
  if (stray !== undefined) {
    throw new ApiProblem(400, `unknown field ${shown(stray)}: expected domain, entries and perhaps at`);
  }
  const { domain, entries, at } = body;
  if (typeof domain !== 'string' || domain === '') throw new ApiProblem(400, 'domain: expected text');
  checkDomain(actor, domain, 'read');
  if (!Array.isArray(entries) || entries.length === 0 || !entries.every(isEntry)) {
    throw new ApiProblem(400, 'entries: expected a list of at least one {"key": text, "value": text}');
  }
  const atMs = at === undefined ? nowMs : typeof at === 'string' ? Date.parse(at) : Number.NaN;
  if (!(atMs >= 0 && atMs <= lastMs)) {
    throw new ApiProblem(
      400,
      `at: expected a time such as 2026-01-31T12:00:00Z, not ${shown(JSON.stringify(at))}`,
    );
  }
  return { domain, entries: entries.map(({ key, value }) => ({ key, value })), atMs };
}

function isEntry(value: unknown): value is Entry {
  return (
    isObject(value) &&
    typeof value['key'] === 'string' &&
    value['key'] !== '' &&
    typeof value['value'] === 'string'
  );
}
