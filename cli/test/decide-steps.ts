/** Runs steps one after another with the limiter's own code, on a clock that only the steps move. */
import { wholeResponseOptions } from '../../limiter/assembly/decision-service.ts';
import { Code } from '../../limiter/decide/messages.ts';
import type { RuleStats } from '../../limiter/stats/registry/rule-stats.ts';
import {
  type VirtualAnswer,
  VirtualLimiter,
  type VirtualLimiterOptions,
} from '../../replay/virtual-limiter.ts';
import type { MatchedRule } from '../../rules/match-result.ts';
import type { AnswerCode, AskStep, DecisionStep, ExpectedAnswer } from './decision-steps.ts';

/** The parts of an answer that an expectation can name. */
export interface StepAnswer {
  code: AnswerCode | 'error';
  remaining: number | undefined;
  rule: string | undefined;
  /** Headers by name in lower case. */
  headers: ReadonlyMap<string, string | undefined>;
  /** Why no decision was made. */
  problem?: string;
}

export interface DecidedStep<Step extends AskStep> {
  step: Step;
  atMs: number;
  /** An answer for each expectation. */
  answers: StepAnswer[];
}

const uncounted: RuleStats = {
  ruleMetric: (key) => ({ key, slot: 0, lastUse: Number.POSITIVE_INFINITY }),
  slotOf: () => 0,
  domainNotFound: () => {},
  add: () => {},
};

export interface SteppedLimiterOptions
  extends Omit<VirtualLimiterOptions, 'stats' | 'response' | 'onOverLimit'> {
  domain: string;
  atMs: number;
  stats?: RuleStats;
}

/** A limiter that answers like `/v1/check`, always with limit headers. */
export class SteppedLimiter {
  /** Rules that decided a request. */
  readonly reached = new Set<MatchedRule>();
  readonly limiter: VirtualLimiter;
  readonly #domain: string;
  #nowMs: number;

  constructor({ domain, atMs, stats = uncounted, ...options }: SteppedLimiterOptions) {
    const response = wholeResponseOptions(options.settings);
    this.limiter = new VirtualLimiter({ ...options, stats, response });
    this.#domain = domain;
    this.#nowMs = atMs;
  }

  /** Returns undefined if the step only moves the clock. */
  take<Place>(step: DecisionStep & Place): DecidedStep<AskStep & Place> | undefined {
    if ('afterMs' in step) {
      this.#nowMs += step.afterMs;
      return undefined;
    }
    return { step, atMs: this.#nowMs, answers: step.answers.map(() => this.#ask(step)) };
  }

  #ask({ descriptors, hits = 0 }: AskStep): StepAnswer {
    const request = { domain: this.#domain, descriptors, hitsAddend: hits };
    const decision = this.limiter.decide(this.#nowMs, request);
    if ('error' in decision) {
      const problem = decision.error.message;
      return { code: 'error', remaining: undefined, rule: undefined, headers: new Map(), problem };
    }
    for (const { rule } of decision.plans) if (rule !== undefined) this.reached.add(rule);
    return answerOf(decision);
  }
}

function answerOf({ response, plans }: VirtualAnswer): StepAnswer {
  const { overallCode, statuses, responseHeadersToAdd } = response;
  const isOver = overallCode === Code.OVER_LIMIT;
  let deciding: number | undefined;
  for (const [index, { code, currentLimit, limitRemaining }] of statuses.entries()) {
    if (isOver ? code !== Code.OVER_LIMIT : currentLimit === undefined) continue;
    if (deciding === undefined || limitRemaining < statuses[deciding]!.limitRemaining) deciding = index;
  }
  const isUnlimited = plans.every(({ kind }) => kind === 'unlimited');
  const free = isUnlimited ? 'unlimited' : 'no limit';
  const rule = plans[deciding ?? 0]?.rule?.path;
  return {
    code: isOver ? 'OVER_LIMIT' : deciding === undefined ? free : 'OK',
    remaining: deciding === undefined ? undefined : statuses[deciding]!.limitRemaining,
    rule: rule === '' ? undefined : rule,
    headers: new Map(responseHeadersToAdd.map(({ key, value }) => [key.toLowerCase(), value])),
  };
}

/** Returns the parts of an answer that the expectation names. */
export function comparable(answer: StepAnswer, expected: ExpectedAnswer): Partial<StepAnswer> {
  const { headers } = expected;
  return {
    code: answer.code,
    ...(expected.remaining !== undefined && { remaining: answer.remaining }),
    ...(expected.rule !== undefined && { rule: answer.rule }),
    ...(headers !== undefined && {
      headers: new Map([...headers.keys()].map((name) => [name, answer.headers.get(name)])),
    }),
    ...(answer.problem !== undefined && { problem: answer.problem }),
  };
}
