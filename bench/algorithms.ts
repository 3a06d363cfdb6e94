/**
 * `npx node bench/algorithms.ts`: counts how often fixed and sliding windows decide differently from an exact log of hits. Each algorithm
 * and the log decide the same requests, each from the hits that it allowed itself. The log stores the time of every hit that it allowed.
 * It allows another hit if fewer than the limit are within one window before it. Time is simulated and traffic has a seed, so every run
 * gives the same figures. docs/rules-algorithms.md shows them.
 */
import type { AlgorithmBound, CounterState } from '../limiter/algorithms/algorithm-bound.ts';
import { FixedWindow } from '../limiter/algorithms/fixed-window.ts';
import { SlidingWindow } from '../limiter/algorithms/sliding-window.ts';
import { defineFlags, scriptFlags } from '../test/support/script-flags.ts';
import { seededRandom, zipfSequence } from './zipf.ts';

const { requests } = scriptFlags(
  defineFlags({
    help: `Usage: npx node bench/algorithms.ts [--requests <n>]

Prints how often fixed and sliding windows decide otherwise than an exact log of hits.

  --requests <n>  the number of requests of each kind of traffic, from 1 on (default 1000000)
`,
    rows: { requests: { type: 'number', min: 1, max: 1e9, whole: true, default: 1_000_000 } },
  }),
);
const windowMicros = 60_000_000;
/** A time in the middle of a minute. */
const startMicros = 29_000_000 * windowMicros + 23_000_000;

/** Attackers begin one after the other, at different moments of a window. */
const attackersApartMicros = 17_300_000;

interface Traffic {
  title: string;
  sources: number;
  /** The rate of all sources together. */
  perMinute: number;
  limit: number;
  /** Additional sources that each send this multiple of the limit (`attack`). */
  attackers: number;
  attack: number;
  /** The average number of requests that a source sends at once. 1 is a Poisson process. */
  burst: number;
  /** The number of minutes for which a source is blocked after a request over limit, as Cloudflare does it. 0: it is not blocked. */
  blockedMinutes: number;
}

const common = {
  sources: 270_000,
  perMinute: 100_000,
  limit: 1500,
  attackers: 0,
  attack: 20,
  burst: 1,
  blockedMinutes: 0,
};
const attacked = { ...common, perMinute: 15_000, attackers: 3, blockedMinutes: Number.POSITIVE_INFINITY };
const traffics: Traffic[] = [
  {
    ...attacked,
    title: 'sources well below the limit, and 3 at 20 times the limit; a source over limit stays blocked',
  },
  { ...attacked, title: 'the same, with the 3 at 4 times the limit', attack: 4 },
  { ...attacked, title: 'the same, with the 3 at twice the limit', attack: 2 },
  {
    ...common,
    title: 'six sources above the limit, some near it; also blocked',
    blockedMinutes: Number.POSITIVE_INFINITY,
  },
  { ...common, title: 'the same; sources over limit continue' },
  { ...common, title: 'a third of all requests is over limit', limit: 100 },
  { ...common, title: 'the same in bursts of 20', limit: 100, burst: 20 },
  {
    ...common,
    title: 'sources near the limit send most requests, in bursts of 20',
    sources: 1000,
    limit: 100,
    burst: 20,
  },
];

/** Returns arrivals in order. All sources together are a Poisson process of bursts, and each burst has one source. */
function* arrivals({ sources, perMinute, burst, limit, attackers, attack }: Traffic): Generator<Arrival> {
  const random = seededRandom(20_261_122);
  const sequence = zipfSequence({ count: sources, length: requests, random });
  const attacks = attackers * limit * attack;
  const meanMicros = (windowMicros / (perMinute + attacks)) * burst;
  let atMicros = startMicros;
  for (let made = 0; made < requests; ) {
    atMicros += Math.round(-Math.log(1 - random()) * meanMicros);
    const isAttack = random() * (perMinute + attacks) < attacks;
    const attacker = Math.floor(random() * attackers);
    if (isAttack && atMicros < startMicros + attacker * attackersApartMicros) continue;
    const source = isAttack ? -1 - attacker : (sequence[made] as number);
    const size = burst === 1 ? 1 : 1 + Math.floor(random() * (2 * burst - 1));
    for (let i = 0; i < size && made < requests; i += 1, made += 1) yield { source, atMicros };
  }
}

interface Arrival {
  source: number;
  atMicros: number;
}

/** The state of one source, for the algorithm and for the log. */
interface Source {
  held: CounterState | undefined;
  /** The window of `held`, because a fixed window has a counter for each window. */
  window: number;
  blockedUntilMicros: number;
  /** The times of the hits that the algorithm allowed. */
  passed: number[];
  logged: number[];
  logBlockedUntilMicros: number;
}

interface Outcome {
  /** The number of decisions that differ from the log's decision. */
  passedInstead: number;
  overLimitInstead: number;
  passed: number;
  logged: number;
  /** The maximum number of hits that passed within one window, as a multiple of the limit. */
  worst: number;
}

function run(traffic: Traffic, bound: AlgorithmBound): Outcome {
  const outcome: Outcome = { passedInstead: 0, overLimitInstead: 0, passed: 0, logged: 0, worst: 0 };
  const sources = new Map<number, Source>();
  for (const { source, atMicros } of arrivals(traffic)) {
    let state = sources.get(source);
    if (state === undefined) {
      state = {
        held: undefined,
        window: 0,
        passed: [],
        logged: [],
        blockedUntilMicros: 0,
        logBlockedUntilMicros: 0,
      };
      sources.set(source, state);
    }
    const passes = decide(state, atMicros, bound, traffic);
    const isLogged = decideByLog(state, atMicros, traffic);
    if (passes) {
      outcome.passed += 1;
      outcome.worst = Math.max(outcome.worst, inWindow(state.passed, atMicros) / traffic.limit);
    }
    if (isLogged) outcome.logged += 1;
    if (passes && !isLogged) outcome.passedInstead += 1;
    if (!passes && isLogged) outcome.overLimitInstead += 1;
  }
  return outcome;
}

/** Counts the times within the last window, and removes earlier ones. */
function inWindow(times: number[], atMicros: number): number {
  while (times.length > 0 && (times[0] as number) <= atMicros - windowMicros) times.shift();
  return times.length;
}

function decide(state: Source, atMicros: number, bound: AlgorithmBound, traffic: Traffic): boolean {
  if (atMicros < state.blockedUntilMicros) return false;
  const window = Math.floor(atMicros / windowMicros);
  if (bound.holdsTotal && window !== state.window) state.held = undefined;
  state.window = window;
  state.held = bound.stateAt(state.held, atMicros);
  if (bound.room(state.held, atMicros) === 0) {
    state.blockedUntilMicros = atMicros + traffic.blockedMinutes * windowMicros;
    return false;
  }
  state.held = bound.take(state.held, 1);
  state.passed.push(atMicros);
  return true;
}

function decideByLog(state: Source, atMicros: number, traffic: Traffic): boolean {
  if (atMicros < state.logBlockedUntilMicros) return false;
  if (inWindow(state.logged, atMicros) >= traffic.limit) {
    state.logBlockedUntilMicros = atMicros + traffic.blockedMinutes * windowMicros;
    return false;
  }
  state.logged.push(atMicros);
  return true;
}

const percent = (count: number): string => `${Number(((100 * count) / requests).toPrecision(2))}%`;
const rows = traffics.map((traffic) => {
  const { title, limit, sources, perMinute } = traffic;
  const cells = [new FixedWindow(limit), new SlidingWindow({ requests: limit, windowMicros })].map(
    (bound) => {
      const { passedInstead, overLimitInstead, passed, logged, worst } = run(traffic, bound);
      const share = percent(passedInstead + overLimitInstead);
      return `${share} | ${percent(passed - logged)} | ${worst.toFixed(2)}`;
    },
  );
  return `| ${title} | ${sources}, ${perMinute}, ${limit} | ${cells.join(' | ')} |`;
});
console.log(`${requests} requests, sources by Zipf's law, a window of a minute.\n`);
console.log(
  '| traffic | sources, requests a minute, limit | fixed: differ | more passed | worst minute | sliding: differ | more passed | worst minute |',
);
console.log('|---|---|---|---|---|---|---|---|');
console.log(rows.join('\n'));
