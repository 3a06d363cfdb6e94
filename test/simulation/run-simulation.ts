/** A run of a simulation: what happens follows from the seed alone, and a failure is looked for in ever shorter histories. */
import { Random } from '../fuzz/random.ts';
import { type Happening, type HappeningName, happenings } from './faults.ts';
import { Simulation, type SimulationViolation } from './simulation.ts';

/** One thing that happens. It has a seed of its own, so that others can be left out. */
export interface Step {
  name: HappeningName | 'heal' | 'settle';
  seed: number;
  /** Until the next one. */
  waitMs: number;
}

export interface SimulationReport {
  seed: number;
  steps: number;
  virtualHours: number;
  cpuSeconds: number;
  happened: Record<string, number>;
  /** Pairs of kinds of faults that were under way together, those that never were, and how often, by kind: `with <other> <n>`. */
  pairs: { met: number; of: number; never: string[]; overlaps: Record<string, string> };
  elections: number;
  looks: Simulation['looks'] &
    Simulation['oracle']['looks'] &
    Simulation['fleetOracle']['looks'] & { events: number };
  longest: { objects: Simulation['oracle']['longest']; fleets: Simulation['fleetOracle']['longest'] };
  /** Of defects that are known. */
  known: Simulation['known'];
  violations: readonly SimulationViolation[];
  history: string[];
}

/** Of 1,000 changes and faults: looks, and elections after the first one. A run without them would have no violation either. */
const minPer1000 = {
  ...{ strict: 300, settled: 5, ready: 2_000, elections: 2 },
  // Not every run of 1,000 has a status that should name a limiter without a connection.
  ...{ fleets: 200, denied: 100, apart: 0.5, events: 100 },
};

/** Events that the run had too few of; `part` of the usual number is enough. */
export function missingEvents(report: SimulationReport, count: number, part = 1): string[] {
  const happened = { ...report.looks, elections: laterElections(report) };
  return Object.entries(minPer1000).flatMap(([name, usual]) => {
    const min = Math.floor((usual * part * count) / 1_000);
    const times = happened[name as keyof typeof minPer1000];
    return times < min
      ? [`${name}: only ${times}, and a run of ${count} changes and faults has at least ${min}`]
      : [];
  });
}

/** Elections of a leader after another one. */
export function laterElections({ elections }: SimulationReport): number {
  return Math.max(0, elections - 1);
}

type Named = readonly (readonly [HappeningName, Happening])[];

const all = Object.entries(happenings) as unknown as Named;
const ofGroup = (...groups: Happening['group'][]): Named =>
  all.filter(([, { group }]) => groups.includes(group));
const changes = ofGroup('change');
const inStorm = ofGroup('storm', 'fault');
const inQuiet = ofGroup('fault');
const faultNames = inStorm.map(([name]) => name);

/** What is over at once has its effects a moment later. */
const momentMs = 1_000;

/** Storms, after each of them time to recover, and time in which statuses must be true whatever else happens. */
export function planOf(seed: number, count: number): Step[] {
  const random = new Random(seed);
  const steps: Step[] = [];
  const add = (rows: Named, waitMs: number): void => {
    steps.push({ name: weighted(rows, random), seed: random.below(2 ** 30), waitMs });
  };
  while (steps.length < count) {
    for (let step = 0; step < 40; step += 1)
      add(random.below(4) === 0 ? changes : inStorm, random.below(1_200));
    steps.push({ name: 'heal', seed: 0, waitMs: 0 });
    for (let step = 0; step < 45; step += 1) add(changes, burst(random, 4_000));
    for (let step = 0; step < 110; step += 1)
      add(random.below(4) === 0 ? inQuiet : changes, burst(random, 1_500));
    steps.push({ name: 'heal', seed: 0, waitMs: 0 }, { name: 'settle', seed: 0, waitMs: 0 });
  }
  return steps;
}

/** Several at once, as files are applied, and then nothing for a while. */
function burst(random: Random, maxMs: number): number {
  return random.below(6) > 0 ? random.below(10) : random.below(maxMs * 2);
}

function weighted(rows: Named, random: Random): HappeningName {
  const sum = rows.reduce((total, [, { weight }]) => total + weight, 0);
  let at = (random.below(1 << 20) / (1 << 20)) * sum;
  for (const [name, { weight }] of rows) {
    at -= weight;
    if (at < 0) return name;
  }
  return rows.at(-1)![0];
}

interface Ending {
  name: string;
  end: (() => void) | undefined;
  atMs: number;
}

class Run {
  readonly simulation: Simulation;
  readonly #happened: Record<string, number> = Object.fromEntries(all.map(([name]) => [name, 0]));
  readonly #pairs = new Map<string, number>();
  #underWay: Ending[] = [];
  #taken = 0;

  constructor(seed: number, report?: (line: string) => void) {
    this.simulation = new Simulation({ seed, report });
  }

  /** Up to the first violation. */
  async run(steps: readonly Step[]): Promise<void> {
    await this.simulation.begin();
    for (const step of steps) {
      if (this.simulation.violations.length > 0) return;
      this.#taken += 1;
      await this.#take(step);
    }
  }

  report(seed: number, cpuSeconds: number): SimulationReport {
    const { simulation } = this;
    const pairs = faultNames.flatMap((a, index) => faultNames.slice(index + 1).map((b) => pairOf(a, b)));
    const never = pairs.filter((pair) => !this.#pairs.has(pair));
    return {
      seed,
      steps: this.#taken,
      virtualHours: Number((simulation.nowMs / 3_600_000).toFixed(2)),
      cpuSeconds,
      happened: this.#happened,
      pairs: { met: pairs.length - never.length, of: pairs.length, never, overlaps: this.#overlaps() },
      elections: simulation.elections,
      looks: {
        ...simulation.looks,
        ...simulation.oracle.looks,
        ...simulation.fleetOracle.looks,
        events: simulation.stored.events,
      },
      longest: { objects: simulation.oracle.longest, fleets: simulation.fleetOracle.longest },
      known: simulation.known,
      violations: simulation.violations,
      history: simulation.violations.length === 0 ? [] : simulation.history,
    };
  }

  /** Each pair once, with the kind that is first in the table. */
  #overlaps(): Record<string, string> {
    return Object.fromEntries(
      faultNames.slice(0, -1).map((name, index) => {
        const times = faultNames.slice(index + 1).map((other) => {
          return `${other} ${this.#pairs.get(pairOf(name, other)) ?? 0}`;
        });
        return [name, `with ${times.join(', ')}`];
      }),
    );
  }

  async #take({ name, seed, waitMs }: Step): Promise<void> {
    if (name === 'heal') this.#heal();
    else if (name === 'settle') await this.simulation.settle();
    else this.#happen(name, seed);
    await this.#wait(waitMs);
  }

  #happen(name: HappeningName, seed: number): void {
    const { simulation } = this;
    const happening: Happening = happenings[name];
    const outcome = happening.happen(simulation, new Random(seed));
    if (outcome === false) return;
    this.#happened[name]! += 1;
    simulation.report(outcome === undefined ? name : `${name}, for ${outcome.afterMs} ms`);
    if (happening.group === 'change') return;
    for (const other of new Set(this.#underWay.map((ending) => ending.name))) {
      if (other === name) continue;
      const pair = pairOf(name, other);
      this.#pairs.set(pair, (this.#pairs.get(pair) ?? 0) + 1);
    }
    const atMs = simulation.nowMs + (outcome?.afterMs ?? momentMs);
    this.#underWay.push({ name, end: outcome?.end, atMs });
  }

  async #wait(ms: number): Promise<void> {
    const endMs = this.simulation.nowMs + ms;
    for (;;) {
      const next = this.#underWay.reduce<Ending | undefined>(
        (a, b) => (a && a.atMs <= b.atMs ? a : b),
        undefined,
      );
      const isDue = next !== undefined && next.atMs <= endMs;
      await this.simulation.advance((isDue ? next.atMs : endMs) - this.simulation.nowMs);
      if (!isDue || this.simulation.violations.length > 0) return;
      this.#end(next);
    }
  }

  #heal(): void {
    for (const ending of [...this.#underWay]) this.#end(ending);
    this.simulation.report('all is healed');
  }

  #end(ending: Ending): void {
    this.#underWay = this.#underWay.filter((one) => one !== ending);
    if (ending.end === undefined) return;
    this.simulation.report(`${ending.name} is over`);
    ending.end();
  }
}

function pairOf(a: string, b: string): string {
  return a < b ? `${a} + ${b}` : `${b} + ${a}`;
}

export async function runSteps(
  seed: number,
  steps: readonly Step[],
  report?: (line: string) => void,
): Promise<SimulationReport> {
  const before = process.cpuUsage();
  const run = new Run(seed, report);
  await run.run(steps);
  const { user, system } = process.cpuUsage(before);
  return run.report(seed, Number(((user + system) / 1e6).toFixed(1)));
}

export function runSimulation(seed: number, count: number): Promise<SimulationReport> {
  return runSteps(seed, planOf(seed, count));
}

/** As few of the last episodes as fail like that, too: a short run costs little. */
async function lastEpisodes(
  seed: number,
  steps: readonly Step[],
  fails: (report: SimulationReport) => boolean,
): Promise<{ left: readonly Step[]; report: SimulationReport }> {
  const ends = steps.flatMap(({ name }, index) => (name === 'settle' ? [index + 1] : [])).reverse();
  for (let count = 1; count < ends.length; count *= 2) {
    const left = steps.slice(ends[count]);
    const report = await runSteps(seed, left);
    if (fails(report)) return { left: left.slice(0, report.steps), report };
  }
  const report = await runSteps(seed, steps);
  return { left: steps.slice(0, report.steps), report };
}

/** Steps without which something of the same kind still fails, as far as they are found in the time. */
export async function shrunk(
  seed: number,
  steps: readonly Step[],
  violations: readonly SimulationViolation[],
  maxMs: number,
): Promise<{ steps: readonly Step[]; report: SimulationReport }> {
  const endMs = performance.now() + maxMs;
  const kinds = new Set(violations.map(({ kind }) => kind));
  const fails = (report: SimulationReport): boolean => report.violations.some(({ kind }) => kinds.has(kind));
  let { left, report } = await lastEpisodes(seed, steps, fails);
  for (let size = left.length >> 1; size >= 1; size >>= 1) {
    for (let at = 0; at < left.length && performance.now() < endMs; ) {
      const fewer = [...left.slice(0, at), ...left.slice(at + size)];
      const outcome = await runSteps(seed, fewer);
      if (!fails(outcome)) at += size;
      else {
        left = fewer.slice(0, outcome.steps);
        report = outcome;
      }
    }
  }
  return { steps: left, report };
}
