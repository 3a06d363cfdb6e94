/** What the statuses of RateLimitFleets say against what limiters decide, and which limiters each status names. Pure. */
import { trustedMs } from '../../control-plane/kubernetes/watch.ts';
import { isOver, lacks, maxDelayMs, maxLieMs, type SeenLimiter } from '../truth/oracle.ts';
import { type Look, Streaks } from '../truth/streaks.ts';
import type { SeenFleet } from './simulated-fleets.ts';
import type { SimulatedObject } from './simulated-objects.ts';

/** A limiter, and whether its replica knows that it has no stream. */
export interface NamedLimiter extends SeenLimiter {
  isApart: boolean;
}

export interface FleetSight extends Look {
  fleets: readonly SeenFleet[];
  objects: readonly SimulatedObject[];
  limiters: readonly NamedLimiter[];
}

export interface FleetViolation {
  kind:
    | 'fleet Ready=True that is wrong'
    | 'fleet Ready=True that is late'
    | 'limit that is not allowed'
    | 'disconnected limiter that is pending'
    | 'disconnected limiter that is not named'
    | 'connected limiter that is disconnected';
  what: string;
}

/** Of a condition that names limiters. */
interface Statement {
  key: string;
  reason: string;
  message: string;
}

export class FleetOracle {
  readonly #streaks = new Streaks();
  /** How often there was something to compare. */
  readonly looks = { fleets: 0, denied: 0, apart: 0 };
  /** The longest that was allowed, in milliseconds. */
  readonly longest = { lieMs: 0, delayMs: 0 };

  look(sight: FleetSight): FleetViolation[] {
    this.#streaks.begin();
    return [...this.#ofFleets(sight), ...this.#ofAccess(sight), ...this.#ofNames(sight)];
  }

  *#ofFleets(sight: FleetSight): Generator<FleetViolation> {
    for (const fleet of sight.fleets) {
      const { name, uid, generation, isReady, says } = fleet;
      const problem = isReady ? lackIn(fleet, sight) : undefined;
      const key = `${uid} ${generation}`;
      if (isReady) this.looks.fleets += 1;
      if (problem !== undefined) {
        const lastsMs = this.#streaks.lasts(`${key} lie`, sight);
        this.longest.lieMs = Math.max(this.longest.lieMs, lastsMs);
        if (lastsMs > maxLieMs)
          yield { kind: 'fleet Ready=True that is wrong', what: `${name}, for ${lastsMs} ms: ${problem}` };
      }
      if (isReady || !isFleetDue(fleet, sight)) continue;
      const lastsMs = this.#streaks.lasts(`${key} due`, sight);
      this.longest.delayMs = Math.max(this.longest.delayMs, lastsMs);
      const allowedMs = says.includes('NamespacesUnknown') ? maxDelayMs + trustedMs : maxDelayMs;
      if (lastsMs > allowedMs)
        yield { kind: 'fleet Ready=True that is late', what: `${name} is ${says}, for ${lastsMs} ms` };
    }
  }

  /** A change of the access takes effect at once, also for objects that are accepted. */
  *#ofAccess(sight: FleetSight): Generator<FleetViolation> {
    for (const { uid, key, fleet, domain, number, access } of sight.objects) {
      if (access !== 'denied') continue;
      this.looks.denied += 1;
      for (const { name, answers } of sight.limiters.filter((one) => one.fleet === fleet && one.isHeard)) {
        if (answers?.get(domain) !== number) continue;
        const lastsMs = this.#streaks.lasts(`${uid} denied ${name}`, sight);
        if (lastsMs > maxDelayMs)
          yield {
            kind: 'limit that is not allowed',
            what: `${name} has ${domain} of ${key}, for ${lastsMs} ms`,
          };
      }
    }
  }

  *#ofNames(sight: FleetSight): Generator<FleetViolation> {
    for (const object of sight.objects) {
      const { uid, key, fleet, isOurs, isAccepted, programmed } = object;
      const limiters = sight.limiters.filter((one) => one.fleet === fleet);
      if (!isOurs || programmed === undefined) continue;
      const statement = { key: `${uid} ${key}`, ...programmed };
      yield* this.#ofStatement(statement, limiters, sight);
      if (isAccepted && !isOver(object, sight.atMs))
        yield* this.#ofMissing(statement, object, limiters, sight);
    }
    for (const { uid, name, conditions } of sight.fleets) {
      const ready = conditions.find(({ type }) => type === 'Ready');
      const limiters = sight.limiters.filter(({ fleet }) => fleet === name);
      if (ready !== undefined) yield* this.#ofStatement({ key: `${uid} ${name}`, ...ready }, limiters, sight);
    }
  }

  *#ofStatement(
    { key, message }: Statement,
    limiters: readonly NamedLimiter[],
    sight: FleetSight,
  ): Generator<FleetViolation> {
    const pending = namesAfter('waiting for ', message);
    const away = namesAfter('no report from ', message);
    for (const { name, isApart, isHeard } of limiters) {
      if (isApart && pending.has(name)) {
        this.looks.apart += 1;
        const lastsMs = this.#streaks.lasts(`${key} pending ${name}`, sight);
        if (lastsMs > maxLieMs)
          yield {
            kind: 'disconnected limiter that is pending',
            what: `${key}, for ${lastsMs} ms: ${message}`,
          };
      }
      if (isHeard && away.has(name)) {
        const lastsMs = this.#streaks.lasts(`${key} away ${name}`, sight);
        if (lastsMs > maxDelayMs)
          yield {
            kind: 'connected limiter that is disconnected',
            what: `${key}, for ${lastsMs} ms: ${message}`,
          };
      }
    }
  }

  /** A status that does not name a limiter says that it has the rules, or has room for five names only. */
  *#ofMissing(
    { key, reason, message }: Statement,
    object: SimulatedObject,
    limiters: readonly NamedLimiter[],
    sight: FleetSight,
  ): Generator<FleetViolation> {
    if (reason === 'NoLimiters' || message.includes(' and others')) return;
    const away = namesAfter('no report from ', message);
    for (const limiter of limiters) {
      const { name, isApart, isExpected } = limiter;
      if (!isApart || !isExpected || !lacks(limiter, object, sight.atMs)) continue;
      this.looks.apart += 1;
      if (away.has(name)) continue;
      const lastsMs = this.#streaks.lasts(`${key} ${object.generation} missing ${name}`, sight);
      if (lastsMs > maxLieMs)
        yield {
          kind: 'disconnected limiter that is not named',
          what: `${key}, ${name}, for ${lastsMs} ms: ${message}`,
        };
    }
  }
}

/** What must not be so when nothing has happened for a while. `versionOf`: the version that replicas serve to a fleet. */
export function unsettledFleets(
  { fleets, limiters }: FleetSight,
  versionOf: (fleet: string) => string | undefined,
): string[] {
  return fleets.flatMap((fleet) => {
    const { name, says, numbers, refusing, conditions } = fleet;
    const ofFleet = limiters.filter((one) => one.fleet === name);
    const version = versionOf(name);
    const count = ofFleet.length;
    const found = {
      says,
      limiters: fleet.limiters,
      expected: numbers.expected,
      connected: numbers.connected,
      current: numbers.current,
      joining: numbers.joining,
      refusing: refusing.length,
      version: fleet.version,
      progressing: conditions.find(({ type }) => type === 'Progressing')?.reason,
    };
    const expected = {
      says: version === undefined ? 'Ready=False NoRules' : 'Ready=True AllLimiters',
      limiters: `${count}/${count}`,
      expected: count,
      connected: count,
      current: version === undefined ? 0 : count,
      joining: 0,
      refusing: 0,
      version,
      progressing: 'Settled',
    };
    const [is, must] = [JSON.stringify(found), JSON.stringify(expected)];
    return is === must ? [] : [`fleet ${name} is ${is}, and must be ${must}`];
  });
}

/** Why the rules of a fleet are not in force on every expected limiter. */
function lackIn({ name }: SeenFleet, { objects, limiters, atMs }: FleetSight): string | undefined {
  const expected = limiters.filter(({ fleet, isExpected }) => fleet === name && isExpected);
  for (const object of objects.filter(
    ({ fleet, isAccepted, isOurs }) => fleet === name && isAccepted && isOurs,
  )) {
    if (isOver(object, atMs)) continue;
    const limiter = expected.find((one) => lacks(one, object, atMs));
    if (limiter !== undefined) return `${limiter.name} lacks ${object.key}`;
  }
  return undefined;
}

/** All limiters run the same rules, and every object says what becomes of it. */
function isFleetDue({ name, isMistaken }: SeenFleet, { objects, limiters, atMs }: FleetSight): boolean {
  const ofFleet = limiters.filter(({ fleet }) => fleet === name);
  const [first] = ofFleet;
  if (isMistaken || first?.answers === undefined || first.answers.size === 0) return false;
  if (!ofFleet.every(({ isHeard, isExpected }) => isHeard && isExpected)) return false;
  const text = ({ answers = new Map() }: SeenLimiter) => JSON.stringify([...answers].sort());
  if (ofFleet.some((one) => text(one) !== text(first))) return false;
  return objects.every(
    (object) => object.fleet !== name || object.isReady || (!object.isAccepted && !isOver(object, atMs)),
  );
}

/** The names in `waiting for a since 12:00:01Z, b since 12:00:02Z`. */
function namesAfter(words: string, message: string): Set<string> {
  const at = message.indexOf(words);
  if (at < 0) return new Set();
  const [list = ''] = message.slice(at + words.length).split(';');
  return new Set([...list.matchAll(/(\S+) since /g)].map(([, name]) => name!));
}
