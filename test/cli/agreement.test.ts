/**
 * What `weir check`, `explain`, `diff` and `replay` say of random rules, edits and requests is what a limiter with these rules does. The
 * limiter of most cases is its loader and its service in this thread; some cases ask a whole limiter.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RuleChange } from '../../cli/diff/limit-effect.ts';
import { explanationValue } from '../../cli/explain/explain-report.ts';
import { explainRequest } from '../../cli/explain/explain-request.ts';
import { readReplaySettings } from '../../cli/replay/replay-command.ts';
import { readInput } from '../../cli/shared/read-input.ts';
import { yamlText } from '../../cli/shared/yaml-text.ts';
import { ruleChecks } from '../../limiter/assembly/config-source.ts';
import { fileLayout } from '../../limiter/config-source/file/change-watch.ts';
import { loadRules } from '../../limiter/config-source/file/load-rules.ts';
import { Code, type RateLimitRequest } from '../../limiter/decide/messages.ts';
import { defaultExplaining } from '../../limiter/operate/explain.ts';
import { parseLimiterSettings } from '../../limiter/settings/settings.ts';
import type { RuleStats } from '../../limiter/stats/registry/rule-stats.ts';
import { type VirtualAnswer, type VirtualDecision, VirtualLimiter } from '../../replay/virtual-limiter.ts';
import { isObject, type JsonObject, type JsonValue } from '../../rules/model.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { type AskedDescriptors, editedRules, simplify } from '../support/edited-rules.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { caseCount, countCases } from '../support/property-cases.ts';
import { runWeirHere } from '../support/run-command.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const folder = suiteFolder();
const startMs = Date.UTC(2026, 0, 1, 0, 0, 30);
const settings = readReplaySettings([]);

function write(name: string, text: string): string {
  const path = join(folder, name);
  mkdirSync(join(path, '..'), { recursive: true });
  writeFileSync(path, text);
  return path;
}

async function json(command: string, ...args: string[]) {
  const { stdout, stderr } = await runWeirHere([command, '-o', 'json', ...args]);
  if (stdout === '') expect.fail(stderr);
  return JSON.parse(stdout);
}

const uncounted: RuleStats = {
  ruleMetric: (key) => ({ key, slot: 0, lastUse: Number.POSITIVE_INFINITY }),
  slotOf: () => 0,
  domainNotFound: () => {},
  add: () => {},
};

/** Loads the rule files of a folder as a limiter with these settings does. Undefined: it rejects them. */
function loaded(root: string, env: Record<string, string> = {}): RuleTable | undefined {
  const { settings: own } = parseLimiterSettings({ BACKEND_TYPE: 'memory', DISABLE_STATS: 'true', ...env });
  const layout = fileLayout({
    ...{ root, subdirectory: '', appDirectory: '', ignoreDotFiles: false, watchRoot: false },
  });
  const { outcome } = loadRules({ ...ruleChecks(own!), layout, maxBytes: 2 ** 24 });
  return outcome.ok ? new RuleTable(outcome.bytes) : undefined;
}

function requestOf(descriptors: AskedDescriptors, domain = 'd'): RateLimitRequest {
  const none = { limit: undefined, hitsAddend: undefined, isNegativeHits: false };
  return { domain, hitsAddend: 0, descriptors: descriptors.map((entries) => ({ entries, ...none })) };
}

/** Asks limiters that have counted nothing. */
class Limiter {
  readonly #rules: RuleTable;

  constructor(rules: RuleTable) {
    this.#rules = rules;
  }

  /** The paths of the rules that the descriptors find. Undefined: their limits have different values of hits_unit, which is an error. */
  rulesOf(descriptors: AskedDescriptors): string[] | undefined {
    const decision = this.fresh()(descriptors);
    return 'error' in decision ? undefined : decision.plans.flatMap(({ rule }) => rule?.path ?? []);
  }

  fresh(): (descriptors: AskedDescriptors, nowMs?: number) => VirtualDecision {
    const limiter = new VirtualLimiter({ rules: this.#rules, stats: uncounted, settings });
    return (descriptors, nowMs = startMs) => limiter.decide(nowMs, requestOf(descriptors));
  }
}

function isOver(decision: VirtualDecision): boolean {
  return !('error' in decision) && decision.response.overallCode === Code.OVER_LIMIT;
}

/** How many of equal requests pass at one moment; at most `most`. */
function passing(limiter: Limiter, descriptors: AskedDescriptors, most: number): number {
  const ask = limiter.fresh();
  for (let passed = 0; passed < most; passed += 1) if (isOver(ask(descriptors))) return passed;
  return most;
}

/** Some seconds of each window, and of those after it. */
const probes = [0, 0.4, 1, 5, 25, 40, 60, 300, 1_800, 3_600, 40_000, 86_400, 345_600, 604_800, 1_300_000]
  .concat([2_678_400, 8_000_000, 31_536_000, 100_000_000, 400_000_000])
  .map((seconds) => seconds * 1000);

/** The answers to the same request at many times. */
function answersOverTime(limiter: Limiter, descriptors: AskedDescriptors): string {
  const ask = limiter.fresh();
  return probes
    .map((ms) => [1, 2, 3].map(() => (isOver(ask(descriptors, startMs + ms)) ? 'x' : '.')).join(''))
    .join(' ');
}

/** The most requests that a test sends at one moment. Limits above it are not reached. */
const most = 12;

function words(descriptors: AskedDescriptors): string[] {
  return descriptors.flatMap((entries, n) => [
    ...(n > 0 ? ['+'] : []),
    ...entries.map(({ key, value }) => `${key}=${value}`),
  ]);
}

interface Explained {
  effect: 'limited' | 'unlimited' | 'replaced' | 'none';
  rule?: { shadowMode: boolean };
  limits: { requestsPerUnit: number; burst?: number; replaced: boolean; counterKey: string }[];
  levels: { found?: { key: string; value: string } }[];
}

/** What the command prints as JSON for a request. */
function explainedOf(path: string): (descriptors: AskedDescriptors) => Explained[] {
  const { sources } = readInput(path, { mergeDomains: false, roots: [] });
  return (descriptors) => {
    const nowSeconds = startMs / 1000;
    const request = explainRequest(sources, { ...defaultExplaining, domain: 'd', descriptors, nowSeconds });
    return JSON.parse(JSON.stringify(explanationValue('d', request, sources))).descriptors;
  };
}

/** The path of the rule as a limiter names it. */
function rulePath({ levels }: Explained): string {
  const names = levels.map(({ found }) => [found!.key, found!.value].filter((text) => text !== '').join('_'));
  return ['d', ...names].join('.');
}

/** The effects of a comparison, one of which a request that is held more or less strictly has to have. */
const reportingEffects = {
  stricter: ['new', 'stricter', 'mixed'],
  looser: ['gone', 'looser', 'mixed'],
  later: ['new', 'stricter', 'mixed', 'looser', 'gone'],
} as const;

type Change = Pick<RuleChange, 'kind' | 'rule' | 'fields' | 'effect' | 'effects' | 'notes'>;

function ruleOf({ rule }: Change): string {
  return ['d', ...rule].join('.');
}

/** A rule is `key=value` in a comparison, and `key_value` in a limiter. */
function comparableRule(path: string): string {
  return path.replaceAll('=', '_');
}

/**
 * Whether it says that requests that find this rule get other answers, and not only those that it takes from other rules. Only requests with
 * several values show that values share a counter.
 */
function isAboutOwnRequests({ kind, fields, effect, notes }: Change): boolean {
  if (fields.some(({ name }) => name === 'share_threshold')) return false;
  return effect !== 'same' && (kind === 'changed' || notes[0]!.startsWith('these requests'));
}

/** Chosen: a kind of case that is rare is met by then. */
const mostRounds = 20;

/** Yields random cases, and further ones until each kind was `seen`: with few cases, one may be missing by chance. */
function* sampled<T>(arbitrary: fc.Arbitrary<T>, count: number, seen: Record<string, number>): Generator<T> {
  const { seed = 0 } = fc.readConfigureGlobal() ?? {};
  for (let round = 0; round < mostRounds; round++) {
    const cases = fc.sample(arbitrary, { numRuns: caseCount(count), seed: seed + round });
    countCases(cases.length);
    yield* cases;
    if (Object.values(seen).every((times) => times > 0)) return;
  }
}

interface JsonAnswer {
  overallCode: string;
  statuses: { code: string }[];
}

const codeNames: Record<number, string> = { [Code.OK]: 'OK', [Code.OVER_LIMIT]: 'OVER_LIMIT' };

/** Fails the test with the files of the case. */
function disagree(what: object, ...files: readonly JsonObject[]): never {
  return expect.fail(caseText(what, files));
}

function caseText(what: object, files: readonly JsonObject[]): string {
  return [JSON.stringify(what, undefined, 1), ...files.map(yamlText)].join('\n---\n');
}

const limiterSettings: Record<string, string>[] = [
  {},
  { MERGE_DOMAIN_CONFIG: 'true' },
  { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: 'localhost:11211' },
  { BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: 'localhost:6379', REDIS_SCRIPTS: 'never' },
  { BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: 'localhost:6379', REDIS_TYPE: 'cluster' },
  { BACKEND_TYPE: 'memory', USE_CALENDAR_MONTH_RATE_LIMIT: 'true', MERGE_DOMAIN_CONFIG: 'true' },
];

/** Each breaks one rule or limit of a file, or leaves it valid. */
const mistakes: ((file: JsonObject, at: number) => void)[] = [
  ['requests_per_unit', -1],
  ['requests_per_unit', 'ten'],
  ['requests_per_unit', 2 ** 60],
  ['unit', 'minuet'],
  ['unit', ''],
  ['burst', 3],
  ['unit_multiplier', 0],
  ['unit_multiplier', 4],
  ['replaces', [{ name: '' }]],
  ['unlimited', true],
  ['hits_unit', 'tokens'],
  ['algorithm', 'leaky'],
  ['key', ''],
  ['key', 5],
  ['value', null],
  ['value', true],
  ['descriptors', {}],
  ['lease', '200%'],
  ['shadow_mode', 'yes'],
  ['rate_limits', []],
  ['something', 1],
].map(([name, value]) => (file, at) => {
  const level = file['descriptors'] as JsonObject[];
  const rule = level[at % level.length]!;
  const limit = rule['rate_limit'];
  const isOfLimit =
    isObject(limit) &&
    !['key', 'value', 'descriptors', 'lease', 'shadow_mode', 'rate_limits'].includes(name as string);
  (isOfLimit ? (limit as JsonObject) : rule)[name as string] = value as JsonValue;
});

/** They only compute, and a busy machine gives them a small part of its time. */
const longestMs = 1_200_000;

describe('what commands say of rules and requests', { timeout: longestMs }, () => {
  it('explain names the rule, the limits and the counters of a limiter, and what passes', () => {
    const seen = { limited: 0, unlimited: 0, replaced: 0, none: 0, shadow: 0, over: 0 };
    for (const { after, requests } of sampled(editedRules('d'), 80, seen)) {
      const path = write('explain/d.yaml', yamlText(after));
      const rules = loaded(join(folder, 'explain'));
      if (rules === undefined) continue;
      const limiter = new Limiter(rules);
      const explain = explainedOf(path);
      for (const descriptors of requests) {
        const decision = limiter.fresh()(descriptors);
        // Limits of different hits_unit in one request are an error.
        if ('error' in decision) continue;
        const all = explain(descriptors);
        for (const [index, explained] of all.entries()) {
          const { effect, limits } = explained;
          const plan = decision.plans[index]!;
          seen[effect]++;
          const answered = {
            isLimited: decision.response.statuses[index]!.currentLimit !== undefined,
            isUnlimited: plan.kind === 'unlimited',
            path: plan.kind === 'limited' ? plan.rule.path : '',
            keys: plan.kind === 'limited' ? plan.limits.map(({ key }) => key) : [],
          };
          const said = {
            isLimited: effect === 'limited',
            isUnlimited: effect === 'unlimited',
            path: effect === 'limited' ? rulePath(explained) : '',
            keys: limits.filter(({ replaced }) => !replaced).map(({ counterKey }) => counterKey),
          };
          if (!isDeepStrictEqual(answered, said))
            disagree({ request: words(descriptors), index, answered, said }, after);
        }
        const [only, ...others] = all;
        if (others.length > 0) continue;
        const isEnforced = only!.effect === 'limited' && only!.rule?.shadowMode !== true;
        const rooms = only!.limits.map(({ requestsPerUnit, burst }) =>
          requestsPerUnit === 0 ? 0 : (burst ?? requestsPerUnit),
        );
        const room = Math.min(most, ...(isEnforced ? rooms : []));
        if (only!.effect === 'limited') seen[isEnforced ? 'over' : 'shadow']++;
        const passed = passing(limiter, descriptors, most);
        if (passed !== room) disagree({ request: words(descriptors), passed, room }, after);
      }
    }
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(0);
  });

  it.each([
    ['that replace limits of others', 'replaces'],
    ['with several quotas', 'quotas'],
    ['that affect no requests of others', 'none'],
  ] as const)(
    'diff reports a change if and only if a request gets another answer: rules %s',
    async (_, ties) => {
      const seen = { different: 0, same: 0 };
      // diff judges each limit by itself. In about 1 of 500 cases, several together have another effect than it reports.
      const missed: string[] = [];
      for (const { before, after, requests } of sampled(editedRules('d', ties), 50, seen)) {
        const [was, is] = [write('was/d.yaml', yamlText(before)), write('is/d.yaml', yamlText(after))];
        const [former, latter] = ['was', 'is'].map((name) => loaded(join(folder, name)));
        if (former === undefined || latter === undefined) continue;
        const [old, now] = [new Limiter(former), new Limiter(latter)];
        const changes: Change[] = (await json('diff', was, is)).changes;
        const effects = new Set(changes.flatMap((one) => one.effects));
        const reached = new Set<string>();
        let isDifferent = false;
        for (const descriptors of requests) {
          const paths = [old, now].map((one) => one.rulesOf(descriptors));
          if (paths.includes(undefined)) continue;
          for (const path of paths.flat()) reached.add(comparableRule(path!));
          const [passedBefore, passes] = [old, now].map((one) => passing(one, descriptors, most));
          const how = passes! < passedBefore! ? 'stricter' : passes! > passedBefore! ? 'looser' : 'later';
          if (how === 'later' && answersOverTime(old, descriptors) === answersOverTime(now, descriptors))
            continue;
          isDifferent = true;
          if (!reportingEffects[how].some((effect) => effects.has(effect))) {
            const what = { how, request: words(descriptors), passedBefore, passes, changes };
            missed.push(caseText(what, [before, after]));
            break;
          }
        }
        seen[isDifferent ? 'different' : 'same']++;
        const unfounded = changes.filter(
          (one) => isAboutOwnRequests(one) && reached.has(comparableRule(ruleOf(one))),
        );
        if (ties === 'none' && !isDifferent && unfounded.length > 0)
          missed.push(caseText({ unfounded }, [before, after]));
      }
      expect(missed.length, missed[0]).toBeLessThanOrEqual(Math.ceil((seen.different + seen.same) / 50));
      expect(Math.min(...Object.values(seen))).toBeGreaterThan(0);
    },
  );

  it('replay answers recorded requests as a limiter does', async () => {
    const seen = { limited: 0, allowed: 0, changed: 0 };
    for (const { before, after, requests } of sampled(editedRules('d'), 80, seen)) {
      const [was, is] = [write('was/d.yaml', yamlText(before)), write('is/d.yaml', yamlText(after))];
      const [former, latter] = ['was', 'is'].map((name) => loaded(join(folder, name)));
      if (former === undefined || latter === undefined || requests.length === 0) continue;
      const [old, now] = [new Limiter(former).fresh(), new Limiter(latter).fresh()];
      const answered = { limited: 0, newlyLimited: 0, noLongerLimited: 0, withoutLimit: 0, rules: {} };
      const rules = new Map<string, number>();
      const lines: string[] = [];
      for (let n = 0; n < 120; n += 1) {
        const descriptors = requests[(n * n + 7 * n) % requests.length]!;
        const timeMs = startMs + 700 * n;
        const [answer, earlier] = [now(descriptors, timeMs), old(descriptors, timeMs)];
        if ('error' in answer || 'error' in earlier) continue;
        const asked = descriptors.map((entries) => ({ entries }));
        lines.push(JSON.stringify({ time: timeMs, domain: 'd', descriptors: asked }));
        const [isLimited, wasLimited] = [isOver(answer), isOver(earlier)];
        if (isLimited) answered.limited++;
        if (isLimited && !wasLimited) answered.newlyLimited++;
        if (!isLimited && wasLimited) answered.noLongerLimited++;
        answered.withoutLimit += answer.response.statuses.filter(
          (one) => one.currentLimit === undefined,
        ).length;
        for (const plan of answer.plans)
          if (plan.kind === 'limited') rules.set(plan.rule.path, 1 + (rules.get(plan.rule.path) ?? 0));
        seen[isLimited ? 'limited' : 'allowed']++;
      }
      answered.rules = Object.fromEntries([...rules].sort());
      const from = write('requests.ndjson', lines.join('\n'));
      const { rules: found, difference } = await json('replay', is, '--from', from, '--against', was);
      const decisions: [string, number][] = found.rules.map((one: { rule: string; decisions: number }) => [
        one.rule,
        one.decisions,
      ]);
      const said = {
        limited: found.limited.requests,
        newlyLimited: difference.newlyLimited.limited.requests,
        noLongerLimited: difference.noLongerLimited.limited.requests,
        withoutLimit: found.descriptorsWithoutLimit,
        rules: Object.fromEntries(decisions.sort()),
      };
      if (!isDeepStrictEqual(said, answered)) disagree({ said, answered }, before, after);
      seen.changed += answered.newlyLimited + answered.noLongerLimited;
    }
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(0);
  });

  it.each(limiterSettings)('check --compat accepts what a limiter with %j loads', async (env) => {
    const seen = { accepted: 0, rejected: 0 };
    const flags = Object.entries(env).map(([name, value]) => `--setting=${name}=${value}`);
    const cases = fc.tuple(editedRules('d'), editedRules('e'), fc.nat(mistakes.length - 1), fc.nat(39));
    for (const [one, other, kind, at] of sampled(cases, 40, seen)) {
      const files = [one.before, kind < 2 ? one.after : other.before];
      if (at % 4 < 3) files.forEach(simplify);
      if (at % 2 === 0) mistakes[kind]!(files[1]!, at);
      for (const [index, file] of files.entries()) write(`check/${index}.yaml`, yamlText(file));
      const isLoaded = loaded(join(folder, 'check'), env) !== undefined;
      const path = join(folder, 'check');
      const { status, stdout } = await runWeirHere(['check', '--compat', path, '-o', 'json', ...flags]);
      seen[isLoaded ? 'accepted' : 'rejected']++;
      if ((status === 0) !== isLoaded) disagree({ env, isLoaded, status, stdout }, ...files);
    }
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(0);
  });

  it('a whole limiter answers as its loader and its service alone, and as the commands say', async () => {
    const root = join(folder, 'whole');
    const cases = [...sampled(editedRules('d'), 24, {})].flatMap(({ after, requests }, index) => {
      const domain = `d${index}`;
      const path = write(`alone${index}/d.yaml`, yamlText({ ...after, domain }));
      const rules = loaded(join(path, '..'));
      if (rules === undefined) return [];
      write(`whole/config/${domain}.yaml`, yamlText({ ...after, domain }));
      return [{ domain, path, rules, requests: requests.slice(0, 20) }];
    });
    const env = { RUNTIME_ROOT: root, RUNTIME_WATCH_ROOT: 'false' };
    const whole = await InProcessLimiter.start({ env, clock: new ManualClock(startMs) });
    const seen = { limited: 0, allowed: 0 };
    for (const { domain, path, rules, requests } of cases) {
      const alone = new VirtualLimiter({ rules, stats: uncounted, settings });
      // No limit is above 2.
      for (const descriptors of [requests, requests, requests].flat()) {
        const asked = { domain, descriptors: descriptors.map((entries) => ({ entries })) };
        const body = JSON.stringify(asked);
        const answer = await fetch(`http://127.0.0.1:${whole.ports.http}/json`, { method: 'POST', body });
        const decision = alone.decide(startMs, requestOf(descriptors, domain));
        const isDecision = answer.headers.get('content-type') === 'application/json';
        expect(isDecision).toBe(!('error' in decision));
        if (!isDecision || 'error' in decision) {
          await answer.text();
          continue;
        }
        const { overallCode, statuses } = (await answer.json()) as JsonAnswer;
        const { response } = decision;
        expect([overallCode, ...statuses.map(({ code }) => code)]).toEqual(
          [response.overallCode, ...response.statuses.map(({ code }) => code)].map((code) => codeNames[code]),
        );
        seen[overallCode === 'OVER_LIMIT' ? 'limited' : 'allowed']++;
      }
      const [descriptors] = requests;
      if (descriptors === undefined) continue;
      const explained: Explained[] = (await json('explain', '--', path, domain, ...words(descriptors)))
        .descriptors;
      const { plans } = new VirtualLimiter({ rules, stats: uncounted, settings }).decide(
        startMs,
        requestOf(descriptors, domain),
      ) as VirtualAnswer;
      expect(explained.map(({ effect }) => effect === 'limited')).toEqual(
        plans.map(({ kind }) => kind === 'limited'),
      );
    }
    await whole.stop();
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(0);
  });
});
