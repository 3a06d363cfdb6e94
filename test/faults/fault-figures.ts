/** What a fault did, computed from the answers and from what the store holds at the end. Pure. */
import type { FaultBounds } from './fault-case.ts';
import type { Answer } from './fault-load.ts';
import type { GeneratorStalls } from './generator-stalls.ts';

/** A time during which the breaker was open, as the limiter's log reports it. */
export interface OpenSpan {
  fromMs: number;
  /** Infinity while it is open. */
  toMs: number;
}

export interface FaultFigures {
  sent: number;
  /** With OK or OVER_LIMIT. */
  answered: number;
  errors: number;
  /** Of those answered: perhaps by STORE_FAILURE_MODE, without a count. */
  byMode: number;
  /** Less what the load generator itself stood still, as in the two below. */
  slowestMs: number;
  /** Times that the breaker opened. */
  opened: number;
  /** Of the answers before the breaker opened for the first time. */
  quietP99Ms: number | undefined;
  /** The same of the answers given without the store while the breaker was open; undefined when there were none. */
  openP99Ms: number | undefined;
  /** OK answers of a counter beyond its limit. */
  overAdmitted: number;
  /** Hits that were counted for an answer and that the store does not hold. */
  lost: number;
  /** Hits that the store holds beyond those that can have been counted. */
  countedTwice: number;
}

export interface FaultEvidence {
  sent: number;
  answers: readonly Answer[];
  held: ReadonlyMap<string, number>;
  openSpans: readonly OpenSpan[];
  stalls: GeneratorStalls;
  /** An exhausted limit may reject hits without counting them. */
  rejectsUncounted: boolean;
}

interface CounterTally {
  limit: number;
  admitted: number;
  /** The answer says that the hit is in the store. */
  counted: number;
  /** The store may have it or not. */
  uncertain: number;
}

/** More than the breaker needs to open. */
const troubledMs = 1500;

/** Errors of requests that never left for the store. */
const neverSent =
  /^(?:the limiter does not ask the store until it answers again|(?:Redis|node \S+) is not connected)/;

export function faultFigures(evidence: FaultEvidence): FaultFigures {
  const { sent, answers, held, openSpans, stalls, rejectsUncounted } = evidence;
  const errors = answers.filter(({ outcome }) => outcome === 'ERROR').length;
  const tallies = tallied(answers);
  const sum = (of: (tally: CounterTally, held: number) => number): number => {
    let total = 0;
    for (const [counter, tally] of tallies) total += Math.max(0, of(tally, held.get(counter) ?? 0));
    return total;
  };
  return {
    sent,
    answered: answers.length - errors,
    errors,
    byMode: answers.filter(({ outcome }) => outcome === 'BY_MODE').length,
    slowestMs: answers.reduce((slowest, answer) => Math.max(slowest, waitedMs(answer, stalls)), 0),
    opened: openSpans.length,
    quietP99Ms: p99Ms(answers.filter(isBefore(openSpans[0])), stalls),
    openP99Ms: p99Ms(
      openSpans.flatMap((span) => answers.filter((answer) => isWithin(answer, span)).filter(isWithoutStore)),
      stalls,
    ),
    overAdmitted: sum(({ admitted, limit }) => admitted - limit),
    lost: sum(({ counted, limit }, there) => (rejectsUncounted && there >= limit ? 0 : counted - there)),
    countedTwice: sum(({ counted, uncertain }, there) => there - counted - uncertain),
  };
}

/** What of the figures is not as it must be; empty when all is. */
export function breaches(figures: FaultFigures, bounds: FaultBounds): string[] {
  const atMost: [keyof FaultFigures, number][] = [
    ['slowestMs', bounds.slowestMs],
    ['errors', bounds.errors ?? Number.POSITIVE_INFINITY],
    ['opened', bounds.opened ?? Number.POSITIVE_INFINITY],
    ['overAdmitted', bounds.overAdmitted ?? 0],
    ['lost', bounds.lost ?? 0],
    ['countedTwice', bounds.countedTwice ?? 0],
  ];
  const atLeast: [keyof FaultFigures, number][] = [
    ['errors', bounds.minErrors ?? 0],
    ['byMode', bounds.minByMode ?? 0],
    ['opened', bounds.minOpened ?? 0],
  ];
  const unanswered = figures.sent - figures.answered - figures.errors;
  return [
    ...(unanswered === 0 ? [] : [`${unanswered} requests had no answer`]),
    ...atMost
      .filter(([name, max]) => (figures[name] ?? 0) > max)
      .map(([name, max]) => `${name} is ${figures[name]}, more than ${max}`),
    ...atLeast
      .filter(([name, min]) => (figures[name] ?? 0) < min)
      .map(([name, min]) => `${name} is ${figures[name]}, less than ${min}`),
  ];
}

function tallied(answers: readonly Answer[]): Map<string, CounterTally> {
  const tallies = new Map<string, CounterTally>();
  for (const { counter, limit, outcome, admitted, message } of answers) {
    const tally = tallies.get(counter) ?? { limit, admitted: 0, counted: 0, uncertain: 0 };
    tallies.set(counter, tally);
    if (admitted) tally.admitted += 1;
    if (outcome === 'OK' || outcome === 'OVER_LIMIT') tally.counted += 1;
    else if (!neverSent.test(message)) tally.uncertain += 1;
  }
  return tallies;
}

function isWithin({ askedMs, tookMs }: Answer, { fromMs, toMs }: OpenSpan): boolean {
  return askedMs >= fromMs && askedMs + tookMs <= toMs;
}

function isBefore(span: OpenSpan | undefined): (answer: Answer) => boolean {
  // What was asked for shortly before already waited for a store in trouble.
  const endMs = span === undefined ? Number.POSITIVE_INFINITY : span.fromMs - troubledMs;
  return ({ askedMs, tookMs }) => askedMs + tookMs < endMs;
}

function isWithoutStore({ outcome, message }: Answer): boolean {
  return outcome === 'BY_MODE' || (outcome === 'ERROR' && neverSent.test(message));
}

function p99Ms(answers: readonly Answer[], stalls: GeneratorStalls): number | undefined {
  const sorted = answers.map((answer) => waitedMs(answer, stalls)).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length * 0.99)];
}

function waitedMs({ askedMs, tookMs }: Answer, stalls: GeneratorStalls): number {
  return tookMs - stalls.within(askedMs, askedMs + tookMs);
}
