/** What the statuses of objects say against what limiters decide. Pure, and knows nothing of how the control plane works. */
import { type Look, Streaks } from './streaks.ts';

/** A RateLimitConfig, or a RateLimitOverride in a domain of its own, as the API server has it. */
export interface SeenObject {
  isOverride: boolean;
  /** When an override ends, by the clock of the test; undefined: never. */
  endsMs: number | undefined;
  /** `namespace/name`, of an override `override/namespace/name`. */
  key: string;
  uid: string;
  /** Sorts older objects first, as the control plane does. */
  age: string;
  generation: number;
  fleet: string;
  domain: string;
  /** The limit of its one rule: no two objects have the same; an object that goes back to what it was has that again. */
  number: number;
  /** Of the class and with the labels that the control plane serves. */
  isOurs: boolean;
  isValid: boolean;
  /** Whether its namespace may use its fleet and domain. Missing: it may. */
  access?: 'allowed' | 'denied' | 'unknown';
  /** `Ready=True` of the present generation. */
  isReady: boolean;
  /** `Ready=False Pending`; ends with the reason only where it speaks of the present generation. */
  says: string;
  /** Who wrote the status. */
  controllerName: string | undefined;
  /** When the test first gave it its present number, in milliseconds of the monotonic clock, as all times here. */
  changedMs: number;
  /** Since when it names this domain, and is ours. */
  claimsSinceMs: number;
}

/** What one limiter decides by. */
export interface SeenLimiter {
  name: string;
  fleet: string;
  /** It is one of those that a status speaks of. */
  isExpected: boolean;
  /** Nothing keeps it from its replica, nor this one from the API server: what it runs is known to the control plane. */
  isHeard: boolean;
  /** Limits by domain; undefined: it did not answer. */
  answers: ReadonlyMap<string, number> | undefined;
  /** Since when its process stands still: it has nothing that is newer. */
  stoppedMs: number | undefined;
  /** Since when nothing of a replica can reach it. */
  aloneMs: number | undefined;
  /** The latest time that the clock of its replica ever showed; missing: no clock is wrong. */
  latestMs?: number;
}

export interface Sight extends Look {
  objects: readonly SeenObject[];
  limiters: readonly SeenLimiter[];
}

export interface Violation {
  kind: 'Ready=True that is wrong' | 'Ready=True that is late' | 'override that has ended';
  atMs: number;
  key: string;
  what: string;
}

/** So long a status may say `Ready=True` while a limiter decides differently. */
export const maxLieMs = 2_000;
/** So long it may not say so although all limiters run what the object says. */
export const maxDelayMs = 5_000;

export class Oracle {
  readonly #ownName: string;
  readonly #streaks = new Streaks();
  /** Overrides that a limiter was seen to have while it was alone, by override, generation and limiter. */
  readonly #had = new Set<string>();
  /**
   * How often an object was compared with its limiters, and found as it must be or not. `endedAlone`: a limiter ended an override
   * while nobody could report it to; otherwise the control plane takes it away at the same moment.
   */
  readonly looks = { ready: 0, due: 0, overrides: 0, endedAlone: 0 };
  /** The longest that was allowed, in milliseconds. */
  readonly longest = { lieMs: 0, delayMs: 0 };

  /** `ownName` is that of the control plane; what bears another name is another one's word. */
  constructor(ownName: string) {
    this.#ownName = ownName;
  }

  look(sight: Sight): Violation[] {
    this.#streaks.begin();
    const violations: Violation[] = [];
    for (const object of sight.objects) {
      const ofFleet = sight.limiters.filter(({ fleet }) => fleet === object.fleet);
      const limiters = ofFleet.filter(({ isExpected }) => isExpected);
      if (object.endsMs !== undefined) for (const one of ofFleet) this.#countEnd(object, one, sight.atMs);
      for (const limiter of isOver(object, sight.atMs) ? ofFleet : []) {
        if (limiter.answers?.get(object.domain) !== object.number) continue;
        // Anyone who leads, or nobody: limiters end it by themselves.
        // Not by `endsMs`, which is reckoned anew, from another clock, at each look.
        const key = `${object.uid} ${object.generation} outlives ${limiter.name}`;
        const lastsMs = this.#streaks.lasts(key, { ...sight, graceUntilMs: 0 });
        this.longest.lieMs = Math.max(this.longest.lieMs, lastsMs);
        if (lastsMs > maxLieMs) {
          const what = `ended ${seconds(sight.atMs - object.endsMs!)} ago, but ${limiter.name} has it`;
          violations.push({ kind: 'override that has ended', atMs: sight.atMs, key: object.key, what });
        }
      }
      if (object.isReady) {
        this.looks.ready += 1;
        if (object.isOverride) this.looks.overrides += 1;
        for (const limiter of limiters.filter((one) => lacks(one, object, sight.atMs))) {
          const key = `${object.uid} ${object.generation} lie ${limiter.name}`;
          const lastsMs = this.#streaks.lasts(key, sight);
          this.longest.lieMs = Math.max(this.longest.lieMs, lastsMs);
          if (lastsMs > maxLieMs) violations.push(lie(object, limiter, lastsMs, sight.atMs));
        }
      } else if (
        !isOver(object, sight.atMs) &&
        !isAhead(object, ofFleet, sight.atMs) &&
        isDue(object, ofFleet, this.#ownName)
      ) {
        this.looks.due += 1;
        const lastsMs = this.#streaks.lasts(`${object.uid} ${object.generation} due`, sight);
        this.longest.delayMs = Math.max(this.longest.delayMs, lastsMs);
        if (lastsMs > maxDelayMs) violations.push(delay(object, ofFleet, lastsMs, sight.atMs));
      }
    }
    return violations;
  }

  #countEnd(object: SeenObject, { name, answers, aloneMs }: SeenLimiter, atMs: number): void {
    const key = `${object.uid} ${object.generation} ${name}`;
    if (aloneMs === undefined) this.#had.delete(key);
    if (aloneMs === undefined || answers === undefined) return;
    const has = answers.get(object.domain) === object.number;
    if (!isOver(object, atMs) && has) this.#had.add(key);
    else if (!has && this.#had.delete(key) && isOver(object, atMs)) this.looks.endedAlone += 1;
  }

  /** After a time in which nothing was seen. */
  forget(): void {
    this.#streaks.forget();
    this.#had.clear();
  }
}

export function isOver({ endsMs }: SeenObject, atMs: number): boolean {
  return endsMs !== undefined && endsMs <= atMs;
}

/** A replica takes an override out when it has ended by the replica's own clock, and gives its place to another one. */
function mayHaveEnded({ endsMs }: SeenObject, { latestMs = 0 }: SeenLimiter, atMs: number): boolean {
  return endsMs !== undefined && endsMs > atMs && endsMs <= latestMs;
}

function isAhead({ isOverride }: SeenObject, limiters: readonly SeenLimiter[], atMs: number): boolean {
  return isOverride && limiters.some(({ latestMs = 0 }) => latestMs > atMs);
}

/** Whether a limiter decides differently from an object that it should apply. */
export function lacks(limiter: SeenLimiter, object: SeenObject, atMs: number): boolean {
  return decidesDifferently(limiter, object) && !mayHaveEnded(object, limiter, atMs);
}

function decidesDifferently({ answers, stoppedMs }: SeenLimiter, object: SeenObject): boolean {
  if (answers !== undefined) return answers.get(object.domain) !== object.number;
  return stoppedMs !== undefined && object.changedMs > stoppedMs;
}

/**
 * Whether it should be `Ready=True`: anyone who runs an object's present rules was given them, so they were accepted. One that is
 * no longer ready may still be waited for.
 */
function isDue(object: SeenObject, limiters: readonly SeenLimiter[], ownName: string): boolean {
  const { isOurs, isValid, access = 'allowed', domain, number, controllerName = ownName } = object;
  // One that is not valid may have gone back to a number that is in force.
  if (
    !isOurs ||
    !isValid ||
    access !== 'allowed' ||
    controllerName !== ownName ||
    !limiters.some(({ isExpected }) => isExpected)
  )
    return false;
  return limiters.every(({ isHeard, answers }) => isHeard && answers?.get(domain) === number);
}

function lie(object: SeenObject, { name, answers }: SeenLimiter, lastsMs: number, atMs: number): Violation {
  const { key, generation, domain, number } = object;
  const runs = answers === undefined ? 'stood still before' : `has ${answers.get(domain) ?? 'no limit'}`;
  const what = `Ready=True of generation ${generation} (${domain}: ${number}) for ${seconds(lastsMs)}, but ${name} ${runs}`;
  return { kind: 'Ready=True that is wrong', atMs, key, what };
}

function delay(
  { key, generation, domain, number, says }: SeenObject,
  limiters: readonly SeenLimiter[],
  lastsMs: number,
  atMs: number,
): Violation {
  const names = limiters.map(({ name }) => name).join(', ');
  const what = `${says}, although ${names} have generation ${generation} (${domain}: ${number}) for ${seconds(lastsMs)}`;
  return { kind: 'Ready=True that is late', atMs, key, what };
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}

/**
 * What must not be so when nothing has happened for a while and nothing is cut off; empty when all is as it must be.
 * `former` is the last such moment, by uid; `ownerOf` is the uid of the object that was ever given a number.
 */
export function unsettled(
  { atMs, objects, limiters }: Sight,
  former: ReadonlyMap<string, SeenObject>,
  ownerOf: (number: number) => string | undefined,
): string[] {
  const byUid = new Map(objects.map((object) => [object.uid, object]));
  const expected = limiters.filter(({ isExpected }) => isExpected);
  const ofFleet = (name: string) => expected.filter(({ fleet }) => fleet === name);
  const ofLimiters = expected.flatMap(({ name, fleet, answers }) => {
    if (answers === undefined) return [`${name} does not answer`];
    const others = ofFleet(fleet)[0]?.answers ?? answers;
    const domains = [...new Set([...answers.keys(), ...others.keys()])];
    const differs = domains.filter((domain) => answers.get(domain) !== others.get(domain));
    const foreign = [...answers].filter(
      ([domain, number]) => !mayRun(domain, number, byUid.get(ownerOf(number) ?? '')),
    );
    return [
      ...differs.map((domain) => `${name} has ${answers.get(domain)} for ${domain}, and another has not`),
      ...foreign.map(([domain, number]) => `${name} has ${number} for ${domain}, of ${ownerOf(number)}`),
    ];
  });
  const ofObjects = objects.flatMap((object) => {
    const runs = ofFleet(object.fleet)[0]?.answers?.get(object.domain);
    const holder = runs === undefined ? undefined : byUid.get(ownerOf(runs) ?? '');
    const problem = isOver(object, atMs)
      ? overProblem(object, runs)
      : problemOf(object, runs, holder, former.get(object.uid));
    return problem === undefined ? [] : [`${object.key} (${object.domain}: ${object.number}) ${problem}`];
  });
  return [...ofLimiters, ...ofObjects];
}

/** A generation that is not accepted leaves an older one in force, which may have had another domain. */
function mayRun(domain: string, number: number, object: SeenObject | undefined): boolean {
  if (object?.isOurs !== true || (object.access === 'denied' && object.domain === domain)) return false;
  return object.number === number || !object.isReady;
}

function overProblem({ number, says }: SeenObject, runs: number | undefined): string | undefined {
  if (runs === number) return 'has ended, and limiters have it';
  return says.endsWith(' Expired') ? undefined : `has ended, and is ${says}`;
}

/** `runs` is what limiters have for its domain, and `holder` the object that it is of. */
function problemOf(
  object: SeenObject,
  runs: number | undefined,
  holder: SeenObject | undefined,
  before: SeenObject | undefined,
): string | undefined {
  const { number, says, isOurs, isValid, isReady } = object;
  const found = `is ${says}, and limiters have ${runs ?? 'no limit'}`;
  const isRun = runs === number;
  if (!isOurs) return isReady || isRun ? `is not ours, ${found}` : undefined;
  if (!isValid) return says.endsWith(' Invalid') ? undefined : `is invalid, ${found}`;
  if (object.access === 'denied')
    return / (FleetNotAllowed|DomainNotAllowed)$/.test(says) && !isRun
      ? undefined
      : `is not allowed, ${found}`;
  if (isReady) return isRun ? undefined : found;
  // An older override that begins to apply takes the place of a younger one. A config holds its domain against others.
  const mayLose = object.isOverride && holder !== undefined && holder.age < object.age;
  const held = before?.isReady && before.claimsSinceMs === object.claimsSinceMs;
  if (held && !mayLose) return `lost its domain, ${found}`;
  return /( DomainConflict| Conflicted)$/.test(says) && runs !== undefined && !isRun ? undefined : found;
}
