import { beforeEach, describe, expect, it } from 'vitest';
import { configObject } from '../../test/support/config-object-builder.ts';
import type { ClusterDecision, ObjectOutcome, RemovedObject } from '../model/decision.ts';
import {
  afterDecision,
  afterNotices,
  afterStore,
  followingOtherLeader,
  noRemovals,
  type Removals,
  reporting,
  waitingObjects,
} from './removals.ts';

type Rest<Args extends unknown[]> = Args extends [Removals, ...infer Others] ? Others : never;

const startMs = 1_000_000;
const forgetAfterMs = 45_000;

let nowMs: number;
/** Number of the newest snapshot by fleet. */
let newest: Map<string, number>;
/** What each limiter of each fleet has: the number of a snapshot. */
let accepted: Map<string, number[]>;
beforeEach(() => {
  nowMs = startMs;
  newest = new Map([['default', 1]]);
  accepted = new Map([['default', [1]]]);
});

/** What one process remembers. */
class Memory {
  #removals: Removals;

  constructor(max: number) {
    this.#removals = noRemovals({ max, forgetAfterMs });
  }

  get objects(): RemovedObject[] {
    return waitingObjects(this.#removals);
  }

  get dropped(): number {
    return this.#removals.dropped;
  }

  observe(...args: Rest<Parameters<typeof afterDecision>>): void {
    this.#removals = afterDecision(this.#removals, ...args);
  }

  useStored(...args: Rest<Parameters<typeof afterStore>>): void {
    this.#removals = afterStore(this.#removals, ...args);
  }

  follow(nowMs: number): void {
    this.#removals = followingOtherLeader(this.#removals, nowMs);
  }

  done(uid: string): void {
    this.#removals = afterNotices(this.#removals, new Set([uid]), nowMs);
  }

  /** Names of what is to be reported now. */
  due(): string[] {
    const mayRun = (fleet: string, _: string, since: number): boolean =>
      (accepted.get(fleet) ?? []).some((number) => number < since);
    const { due, removals } = reporting(this.#removals, (fleet) => newest.get(fleet), mayRun);
    this.#removals = removals;
    return due.map(({ name }) => name);
  }
}

const removals = (max = 3) => new Memory(max);

function outcomeOf(name: string, isServed = true): ObjectOutcome {
  const object = configObject({ name });
  const served = { fleet: 'default', domain: name, resource: `default/${name}`, generation: 1 };
  const rest = {
    hash: '',
    bytes: new Uint8Array(),
    rules: 1,
    ownFields: [],
    spec: {},
    needs: [],
    fallback: undefined,
  };
  return { object, accepted: { status: true }, served: isServed ? { ...served, ...rest } : undefined };
}

function decisionOf(...outcomes: ObjectOutcome[]): ClusterDecision {
  const byUid = new Map(outcomes.map((one) => [one.object.uid, one]));
  return { fleets: new Map(), outcomes: byUid, holders: new Map() };
}

const gone = (): boolean => true;
const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name) => outcomeOf(name)) as [
  ObjectOutcome,
  ObjectOutcome,
  ObjectOutcome,
  ObjectOutcome,
];

describe('a deleted object', () => {
  it('is reported once, when no limiter runs its rules any more', () => {
    const leader = removals();
    leader.observe(decisionOf(a, b), gone, nowMs);
    newest.set('default', 2);
    leader.observe(decisionOf(b), gone, nowMs);
    expect(leader.due()).toEqual([]);
    newest.set('default', 3);
    expect(leader.due()).toEqual([]);
    // The snapshot without it is enough, also if there is a newer one.
    accepted.set('default', [2, 3]);
    expect(leader.due()).toEqual(['a']);
    expect(leader.due()).toEqual([]);
    expect(leader.objects).toHaveLength(1);
    leader.done(a.object.uid);
    expect(leader.objects).toEqual([]);
  });

  it('is reported at once when nothing was served for it', () => {
    const leader = removals();
    leader.observe(decisionOf(outcomeOf('bad', false)), gone, nowMs);
    leader.observe(decisionOf(), gone, nowMs);
    expect(leader.due()).toEqual(['bad']);
  });

  it('of a fleet that nothing is served to is reported when no limiter runs anything', () => {
    const leader = removals();
    leader.observe(decisionOf(a), gone, nowMs);
    newest.delete('default');
    leader.observe(decisionOf(), gone, nowMs);
    accepted.set('default', [7]);
    expect(leader.due()).toEqual([]);
    accepted.set('default', []);
    expect(leader.due()).toEqual(['a']);
  });

  it('that is created again is reported: it had another uid', () => {
    const leader = removals();
    leader.observe(decisionOf(a), gone, nowMs);
    const again = { ...a, object: { ...a.object, uid: 'another' } };
    leader.observe(decisionOf(again), gone, nowMs);
    expect(leader.objects.map(({ uid }) => uid)).toEqual([a.object.uid]);
    expect(leader.due()).toEqual(['a']);
  });

  it('is not one that is merely not ours any more', () => {
    const leader = removals();
    leader.observe(decisionOf(a, b), gone, nowMs);
    leader.observe(decisionOf(), ({ name }) => name === 'b', nowMs);
    expect(leader.objects.map(({ name }) => name)).toEqual(['b']);
  });

  it('makes room for newer ones beyond the bound, and that is counted', () => {
    const leader = removals(2);
    leader.observe(decisionOf(a, b, c), gone, nowMs);
    leader.observe(decisionOf(), gone, nowMs);
    expect([leader.objects.map(({ name }) => name), leader.dropped]).toEqual([['b', 'c'], 1]);
  });
});

describe('the next leader', () => {
  const others = { leads: false, nowMs: startMs };

  it('reports what the one before stored', () => {
    const first = removals();
    first.observe(decisionOf(a, b), gone, nowMs);
    first.observe(decisionOf(), gone, nowMs);
    const second = removals();
    second.useStored(first.objects, others);
    second.observe(decisionOf(), gone, nowMs);
    expect(second.due()).toEqual(['a', 'b']);
  });

  it('reports what it saw itself, unless the one before has taken it out', () => {
    const second = removals();
    second.observe(decisionOf(a, b), gone, nowMs);
    second.observe(decisionOf(), gone, nowMs);
    second.useStored([second.objects[0]!], others);
    second.useStored([], others);
    expect(second.due()).toEqual(['b']);
  });

  it('takes for reported what was deleted long ago and is not stored', () => {
    const second = removals();
    second.observe(decisionOf(a, b), gone, nowMs);
    second.observe(decisionOf(), gone, nowMs);
    second.useStored([second.objects[0]!], others);
    second.follow(nowMs + forgetAfterMs - 1);
    expect(second.objects).toHaveLength(2);
    second.follow(nowMs + forgetAfterMs);
    expect(second.objects.map(({ name }) => name)).toEqual(['a']);
  });

  it('does not report what it still has itself: its watch is behind', () => {
    const second = removals();
    second.observe(decisionOf(a, d), gone, nowMs);
    const { namespace, name, uid, generation } = a.object;
    const stored = { namespace, name, uid, generation, served: null, removedMs: startMs };
    second.useStored([stored], others);
    expect(second.due()).toEqual([]);
    second.observe(decisionOf(d), gone, nowMs);
    expect(second.due()).toEqual(['a']);
  });

  it('is no victim of a watch that shows again what was reported', () => {
    const leader = removals();
    leader.observe(decisionOf(a), gone, nowMs);
    leader.observe(decisionOf(), gone, nowMs);
    const stored = leader.objects;
    expect(leader.due()).toEqual(['a']);
    leader.done(a.object.uid);
    leader.useStored(stored, { leads: true, nowMs });
    expect(leader.due()).toEqual([]);
    leader.useStored([], { leads: true, nowMs: nowMs + 60_000 });
    expect(leader.objects).toEqual([]);
  });
});
