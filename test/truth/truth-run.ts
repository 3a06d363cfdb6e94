/** One run of the truth test: things happen, and every second what statuses say is compared with what limiters decide. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Random } from '../fuzz/random.ts';
import { withDefect } from '../mutants/long-test-defects.ts';
import type { Defect } from '../mutants/mutant-source.ts';
import { LoadedDeadline } from '../support/machine-load.ts';
import { Chance, type Happened } from './events.ts';
import { Oracle, type SeenObject, type Sight, unsettled } from './oracle.ts';
import { leaderGraceMs, ownName, World } from './world.ts';

export interface TruthOptions {
  seed: number;
  durationMs: number;
  /** A line a minute. */
  progress(line: string): void;
  /** At the end of a run without violations replicas with this defect take over. */
  defectAtEnd?: Defect;
}

export interface TruthReport {
  seed: number;
  /** Of objects with limiters: Ready=True (overrides also apart), or run by all and not yet Ready=True; ends that nobody reported. */
  looks: { ready: number; due: number; overrides: number; endedAlone: number };
  /** The longest that a status was wrong, within what is allowed. */
  longest: { lieMs: number; delayMs: number };
  quietMoments: number;
  stalledMs: number;
  /** Leaders that lost their Lease although nothing was done to them. */
  leadsLost: number;
  /** What every run has to have at least once. */
  happened: Happened & { elections: number };
  violations: string[];
  /** What was found wrong under the defect. */
  underDefect: string[];
  /** What happened before, and the statuses and answers at the end; empty without violations. */
  history: string[];
  /** Where the rest of it is; undefined without violations. */
  folder: string | undefined;
}

const lookEveryMs = 1_000;
const quietEveryMs = 60_000;
/** Runs that are shorter have their rare events sooner, so that each of them occurs. */
const defaultRunMs = 120_000;
/** How long everything may take to be as it must be when all is healed. */
const settleMs = leaderGraceMs + 20_000;
/** How long replicas with a defect may go undetected on a machine with nothing else to do: an election, the grace of a leader, and a status that is late. */
const maxDefectMs = 2 * settleMs;
/** What the watcher takes for the usual delay of a timer. */
const defaultLagMs = 50;
/** What every run compares at least: a busy machine comes to it later. */
const minLooks = { ready: 126, overrides: 6 };
/** How many times as long as asked for a run may last, for these looks and its rare events. */
const maxStretch = 4;
/** What is longer is the machine's: an API server and limiters that get no processor. */
const defaultLookMs = 500;

/** How long this process, or what it asks, was kept from doing anything. */
class StallWatch {
  stalledMs = 0;
  readonly #timer: NodeJS.Timeout;
  #lastMs = performance.now();

  constructor() {
    this.#timer = setInterval(() => {
      const nowMs = performance.now();
      this.add(nowMs - this.#lastMs - 100 - defaultLagMs);
      this.#lastMs = nowMs;
    }, 100);
  }

  add(ms: number): void {
    this.stalledMs += Math.max(0, ms);
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

export async function runTruth(options: TruthOptions): Promise<TruthReport> {
  const random = new Random(options.seed);
  const history: string[] = [];
  const startMs = performance.now();
  const nowMs = (): number => performance.now() - startMs;
  const report = (text: string): void => void history.push(`${(nowMs() / 1_000).toFixed(2)} ${text}`);
  // Of its own, so that who connects when changes nothing else.
  const connections = new Random(options.seed + 1);
  const world = await World.start({ nowMs, choose: (count) => connections.below(count), report });
  const run = new TruthRun(options, {
    world,
    chance: new Chance({
      world,
      random,
      nowMs,
      report,
      pace: Math.min(1, options.durationMs / defaultRunMs),
    }),
    nowMs,
    report,
  });
  try {
    await run.run();
    return run.report(history);
  } finally {
    await run.close();
    await world.close();
  }
}

class TruthRun {
  readonly #options: TruthOptions;
  readonly #world: World;
  readonly #chance: Chance;
  readonly #nowMs: () => number;
  readonly #report: (text: string) => void;
  readonly #oracle = new Oracle(ownName);
  readonly #stalls = new StallWatch();
  readonly #violations: string[] = [];
  readonly #underDefect: string[] = [];
  #isUnderDefect = false;
  #sight: Sight | undefined;
  #former = new Map<string, SeenObject>();
  #quietMoments = 0;
  #isEnding = false;

  constructor(
    options: TruthOptions,
    parts: { world: World; chance: Chance; nowMs: () => number; report: (text: string) => void },
  ) {
    this.#options = options;
    this.#world = parts.world;
    this.#chance = parts.chance;
    this.#nowMs = parts.nowMs;
    this.#report = parts.report;
  }

  async run(): Promise<void> {
    const { durationMs, progress } = this.#options;
    const looks = this.#lookOnAndOn();
    try {
      await this.#chance.begin();
      await this.#waitForQuiet();
      this.#chance.plan();
      const beganMs = this.#nowMs();
      const isOver = (): boolean =>
        this.#nowMs() >= beganMs + durationMs * (this.#lacks.length === 0 ? 1 : maxStretch);
      let quietMs = beganMs + quietEveryMs;
      while (!isOver() && this.#violations.length === 0) {
        await sleep(await this.#chance.happen());
        if (this.#nowMs() < quietMs) continue;
        await this.#waitForQuiet();
        progress(this.#progressLine());
        quietMs = this.#nowMs() + quietEveryMs;
      }
      if (this.#violations.length === 0) await this.#waitForQuiet();
      if (this.#violations.length === 0) for (const what of this.#lacks) this.#violated(what);
      const { defectAtEnd } = this.#options;
      if (this.#violations.length === 0 && defectAtEnd !== undefined)
        await withDefect(defectAtEnd, () => this.#lookForDefect());
    } finally {
      this.#isEnding = true;
      await looks;
    }
  }

  async #lookForDefect(): Promise<void> {
    this.#isUnderDefect = true;
    await this.#chance.replaceReplicas();
    this.#report('replicas with a defect run');
    const deadline = new LoadedDeadline(maxDefectMs);
    while (this.#underDefect.length === 0 && !deadline.isOver) await sleep(100);
  }

  get #happened(): TruthReport['happened'] {
    return { ...this.#chance.happened, elections: this.#world.elections };
  }

  /** Without which a run proves little. */
  get #lacks(): string[] {
    const { looks } = this.#oracle;
    return [
      ...Object.entries(this.#happened).flatMap(([name, count]) =>
        count === 0 ? [`${name}: none in this run`] : [],
      ),
      ...(['ready', 'overrides'] as const).flatMap((name) =>
        looks[name] < minLooks[name] ? [`looks at ${name}: only ${looks[name]} in this run`] : [],
      ),
    ];
  }

  report(history: readonly string[]): TruthReport {
    const isClean = this.#violations.length === 0;
    const folder = isClean ? undefined : this.#keep(history);
    return {
      seed: this.#options.seed,
      looks: this.#oracle.looks,
      longest: this.#oracle.longest,
      quietMoments: this.#quietMoments,
      stalledMs: Math.round(this.#stalls.stalledMs),
      leadsLost: this.#world.leadsLost,
      happened: this.#happened,
      violations: this.#violations,
      underDefect: this.#underDefect,
      history: isClean ? [] : history.slice(-100),
      folder,
    };
  }

  async close(): Promise<void> {
    this.#isEnding = true;
    this.#stalls.close();
  }

  async #lookOnAndOn(): Promise<void> {
    for (let dueMs = this.#nowMs(); !this.#isEnding; dueMs = Math.max(dueMs + lookEveryMs, this.#nowMs())) {
      await sleep(Math.max(0, dueMs - this.#nowMs()));
      for (const name of this.#world.died) this.#violated(`${name} ended by itself`);
      try {
        await this.#world.keepPods();
        const beganMs = this.#nowMs();
        const sight = await this.#world.look(() => {
          this.#stalls.add(this.#nowMs() - beganMs - defaultLookMs);
          return this.#stalls.stalledMs;
        });
        this.#sight = sight;
        this.#chance.objects = sight.objects;
        for (const { key, what } of this.#oracle.look(sight)) this.#violated(`${key}: ${what}`);
      } catch (error) {
        this.#chance.lookFailed();
        this.#oracle.forget();
        this.#sight = undefined;
        this.#report(`nothing is seen: ${(error as Error).message}`);
      }
    }
  }

  /** Ends all that is under way and waits until everything is as it must be. */
  async #waitForQuiet(): Promise<void> {
    await this.#chance.heal();
    this.#report('all is healed');
    const endMs = this.#nowMs() + settleMs;
    const stalledMs = this.#stalls.stalledMs;
    for (;;) {
      const before = this.#sight;
      while (this.#sight === before && this.#violations.length === 0) await sleep(100);
      if (this.#violations.length > 0) return;
      const problems =
        this.#sight === undefined
          ? ['the API server does not answer']
          : unsettled(this.#sight, this.#former, this.#world.objects.ownerOf);
      if (problems.length === 0) break;
      if (this.#nowMs() - (this.#stalls.stalledMs - stalledMs) > endMs) {
        for (const problem of problems)
          this.#violated(`${problem}, ${settleMs / 1_000} s after all was healed`);
        return;
      }
    }
    this.#report('all is as it must be');
    this.#former = new Map(this.#sight?.objects.map((object) => [object.uid, object]));
    this.#quietMoments += 1;
  }

  #violated(text: string): void {
    this.#report(`VIOLATION ${text}`);
    (this.#isUnderDefect ? this.#underDefect : this.#violations).push(text);
  }

  #progressLine(): string {
    const { looks, longest } = this.#oracle;
    const minutes = (this.#nowMs() / 60_000).toFixed(1);
    const stalled = (this.#stalls.stalledMs / 1_000).toFixed(1);
    return (
      `${minutes} min: ${looks.ready} looks at Ready=True (wrong for ${Math.round(longest.lieMs)} ms at most), ` +
      `${looks.due} at what should be (late by ${Math.round(longest.delayMs)} ms at most); stalled ${stalled} s`
    );
  }

  /** History, what the control plane printed, and what was seen last, in a folder. */
  #keep(history: readonly string[]): string {
    const folder = join(tmpdir(), `weir-truth-${this.#options.seed}-${process.pid}`);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'history.txt'), `${history.join('\n')}\n`);
    for (const [index, replica] of [...this.#world.replicas, this.#world.rival].entries())
      writeFileSync(join(folder, `replica-${index}.log`), replica.output);
    const sight = JSON.stringify(
      this.#sight,
      (_, value) => (value instanceof Map ? Object.fromEntries(value) : value),
      1,
    );
    writeFileSync(join(folder, 'last-sight.json'), sight ?? '');
    return folder;
  }
}
